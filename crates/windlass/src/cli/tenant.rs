//! `windlass tenant …`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass_core::id::TenantId;

use super::limits::{self, Bounds};
use super::ops::Operation;
use super::remote::Remote;

#[derive(Subcommand)]
pub(crate) enum Tenant {
    /// Nothing of the tenant starts, resumes or is claimed any more; what runs pauses at its boundary.
    Freeze(Steer),
    /// It may move again. What the freeze paused stays paused until it is resumed.
    Unfreeze(Steer),
    /// Show what bounds a tenant's jobs, in all queues; with an option, set it.
    Limits(Limits),
}

#[derive(Args)]
pub(crate) struct Limits {
    /// The tenant.
    tenant: TenantId,
    #[command(flatten)]
    bounds: Bounds,
    #[command(flatten)]
    operation: Operation,
}

#[derive(Args)]
pub(crate) struct Steer {
    /// The tenant.
    tenant: TenantId,
    #[command(flatten)]
    operation: Operation,
}

pub(super) async fn run(remote: &Remote, what: Tenant) -> anyhow::Result<ExitCode> {
    let (args, frozen) = match what {
        Tenant::Freeze(args) => (args, true),
        Tenant::Unfreeze(args) => (args, false),
        Tenant::Limits(args) => return bound(remote, &args).await,
    };
    let (tenant, ask) = (&args.tenant, args.operation.ask());
    let before = match frozen {
        true => remote.client.freeze(tenant, &ask).await?,
        false => remote.client.unfreeze(tenant, &ask).await?,
    };
    let word = if frozen { "frozen" } else { "not frozen" };
    let text = match (ask.dry_run, before.freeze.is_some() == frozen) {
        (_, true) => format!("tenant {tenant} was {word}; nothing changes"),
        (true, false) => format!("tenant {tenant} would be {word}"),
        (false, false) => format!("tenant {tenant} is {word}"),
    };
    remote.screen.told(&before.json, &text);
    Ok(ExitCode::SUCCESS)
}

async fn bound(remote: &Remote, args: &Limits) -> anyhow::Result<ExitCode> {
    let Limits { tenant, bounds, operation } = args;
    if bounds.is_empty() {
        limits::show(remote, "tenant", tenant.as_str(), &remote.client.tenant_limits(tenant).await?);
        return Ok(ExitCode::SUCCESS);
    }
    let ask = operation.ask();
    let answer = remote.client.set_tenant_limits(tenant, &bounds.set(None), &ask).await?;
    let word = if ask.dry_run { "would be" } else { "are" };
    remote.screen.told(&answer.json, &format!("the limits of tenant {tenant} {word} set"));
    Ok(ExitCode::SUCCESS)
}
