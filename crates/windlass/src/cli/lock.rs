//! `windlass lock …`.

use std::process::ExitCode;

use clap::Subcommand;
use windlass_core::id::TenantId;

use super::ops::{Limit, Operation};
use super::remote::Remote;
use super::show::{at, maybe};
use crate::client::view;

#[derive(Subcommand)]
pub(crate) enum Lock {
    /// Tenants that are held or frozen now.
    List(Limit),
    /// Who holds a tenant.
    Show {
        /// The tenant.
        tenant: TenantId,
    },
    /// Take a tenant's lock from whoever holds it: their attempt stops at once. For when its holder cannot be reached.
    Release {
        /// The tenant.
        tenant: TenantId,
        #[command(flatten)]
        operation: Operation,
    },
}

pub(super) async fn run(remote: &Remote, what: Lock) -> anyhow::Result<ExitCode> {
    let Remote { client, screen } = remote;
    match what {
        Lock::List(limit) => {
            let page =
                remote.pages(limit.limit, |limit, after| async move { client.locks(limit, after.as_deref()).await });
            screen.list(&page.await?, &["tenant", "task", "since", "until", "frozen"], |tenant| {
                let holder = tenant.holder.as_ref();
                vec![
                    tenant.tenant.to_string(),
                    maybe(holder.map(|holder| &holder.task)),
                    maybe(holder.map(|holder| at(holder.since))),
                    maybe(holder.map(|holder| at(holder.until))),
                    frozen(tenant),
                ]
            });
        }
        Lock::Show { tenant } => screen.one(&client.lock(&tenant).await?, |tenant| {
            let holder = tenant.holder.as_ref();
            vec![
                ("tenant", tenant.tenant.to_string()),
                ("held by", holder.map_or_else(|| "nobody".to_owned(), |holder| format!("task {}", holder.task))),
                ("plan", maybe(holder.map(|holder| &holder.plan))),
                ("since", maybe(holder.map(|holder| at(holder.since)))),
                ("until", maybe(holder.map(|holder| at(holder.until)))),
                ("fence", maybe(holder.map(|holder| holder.fence))),
                ("frozen", frozen(tenant)),
            ]
        }),
        Lock::Release { tenant, operation } => {
            let ask = operation.ask();
            let before = client.release_lock(&tenant, &ask).await?;
            let text = match (&before.holder, ask.dry_run) {
                (None, _) => format!("nobody held tenant {tenant}"),
                (Some(holder), true) => format!("tenant {tenant} would be taken from task {}", holder.task),
                (Some(holder), false) => format!("tenant {tenant} was taken from task {}", holder.task),
            };
            screen.told(&before.json, &text);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn frozen(tenant: &view::Tenant) -> String {
    maybe(tenant.freeze.as_ref().map(|freeze| {
        let reason = maybe(freeze.reason.as_ref().map(|reason| format!(": {reason}")));
        format!("by {} at {}{reason}", freeze.by, at(freeze.at))
    }))
}
