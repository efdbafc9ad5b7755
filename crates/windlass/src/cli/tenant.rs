//! `windlass tenant …`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use windlass_core::id::TenantId;

use super::ops::Operation;
use super::remote::Remote;

#[derive(Subcommand)]
pub(crate) enum Tenant {
    /// Nothing of the tenant starts, resumes or is claimed any more; what runs pauses at its boundary.
    Freeze(Steer),
    /// It may move again. What the freeze paused stays paused until it is resumed.
    Unfreeze(Steer),
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
