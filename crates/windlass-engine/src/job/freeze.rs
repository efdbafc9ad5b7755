//! A frozen tenant's jobs are not claimed: the freeze is told to the store of jobs too, which may be another one.

use std::sync::Arc;

use windlass_core::id::TenantId;
use windlass_core::job::Asker;
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::port::lock::{Force, Tenant};

use crate::command::Caller;
use crate::error::Error;
use crate::shared::Shared;

impl Shared {
    /// Freezes or unfreezes a tenant with its jobs, or takes its lock away; answers what it was before. If the jobs' store
    /// does not answer, the tenant's plans are frozen all the same, and asking again completes it.
    pub(crate) async fn force_tenant(
        self: &Arc<Self>,
        tenant: &TenantId,
        what: Force,
        caller: &Caller,
    ) -> Result<Tenant, Error> {
        let before = self.command_tenant(tenant, what, caller).await?;
        let held = match what {
            Force::Release => return Ok(before),
            Force::Freeze => Some(Asker { by: caller.by.clone(), reason: caller.reason.clone(), at: self.store_now() }),
            Force::Unfreeze => None,
        };
        if let Some(queues) = self.queues.as_ref().filter(|_| !caller.dry_run) {
            let scope = Scope::Tenant(tenant.clone());
            let limits =
                queues.rules(std::slice::from_ref(&scope)).await?.pop().map_or(Limits::NONE, |rule| rule.limits);
            queues.set_rules(&[Rule { scope, limits, held }]).await?;
        }
        Ok(before)
    }
}
