//! What every operation takes: why, whether it is only a rehearsal, under which key, and whether to wait for its end.

use std::time::Duration;

use clap::Args;
use windlass_core::by::Reason;
use windlass_core::id::{TaskId, TenantId};

use super::remote::span;
use crate::client::{Ask, Which};

#[derive(Args)]
pub(super) struct Operation {
    /// Why; kept with the event.
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Option<Reason>,
    /// Only say what would happen.
    #[arg(long)]
    dry_run: bool,
    /// The same request under the same key is done once, within 24 hours.
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Operation {
    pub(super) fn ask(&self) -> Ask {
        let key = self.idempotency_key.clone();
        Ask { reason: self.reason.clone(), by: None, dry_run: self.dry_run, key }
    }
}

#[derive(Args)]
pub(super) struct Wait {
    /// Wait for the end, for a day at most or as long as said, as in --wait=5m.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "1d", value_parser = span)]
    pub(super) wait: Option<Duration>,
}

#[derive(Args)]
pub(super) struct Target {
    /// The task's id.
    #[arg(value_name = "TASK", required_unless_present = "tenant", conflicts_with = "tenant")]
    task: Option<TaskId>,
    /// Instead of an id: the tenant's latest task.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<TenantId>,
}

impl Target {
    pub(super) fn which(&self) -> Option<Which> {
        let task = self.task.clone().map(Which::Task);
        task.or_else(|| self.tenant.clone().map(Which::Tenant))
    }
}

#[derive(Args)]
pub(super) struct Limit {
    /// As many as this, at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) limit: u32,
}
