//! Limits on what runs: counted from rows, and only where there is a rule.

use std::collections::HashMap;

use windlass_core::id::TenantId;
use windlass_core::job::limit::{Limits, Scope};
use windlass_core::port::PortError;

use super::{Claim, rule};
use crate::cell::{Answers, Cells, one};
use crate::error::{Failure, corrupt};
use crate::pool::Lent;
use crate::text::{Script, literal};

impl Claim {
    /// Some limit of tenants may stop something.
    fn counts_tenants(&self) -> bool {
        self.bounded && (self.tenant_rules || self.each().is_some_and(|rule| rule.limits.running.is_some()))
    }

    /// Asks how many run, of each queue that is limited and of tenants.
    pub(super) fn ask_running(&self, script: &mut Script) {
        for queue in self.queues.iter().filter(|queue| self.queue_limit(&queue.name).is_some()) {
            script.ask(&format!(
                "SELECT COUNT(*) FROM async_tasks FORCE INDEX (async_tasks_wake) WHERE live = 3 AND queue = {}",
                literal(queue.name.as_str())
            ));
        }
        if self.counts_tenants() {
            script.ask(
                "SELECT tenant_id, COUNT(*) FROM async_tasks FORCE INDEX (async_tasks_wake) WHERE live = 3 GROUP BY tenant_id",
            );
        }
    }

    pub(super) fn read_running(&mut self, answers: &mut Answers) -> Result<(), PortError> {
        for nth in 0..self.queues.len() {
            if let Some(limit) = self.queue_limit(&self.queues[nth].name) {
                let running: u64 = one(&answers.next()?)?.parse()?;
                self.queues[nth].room = u64::from(limit).saturating_sub(running);
            }
        }
        self.running = HashMap::new();
        if self.counts_tenants() {
            for row in &answers.next()? {
                let cells = &mut Cells::of(row);
                self.running.insert(cells.text()?.to_owned(), cells.parse()?);
            }
        }
        Ok(())
    }

    /// How many more of a tenant may run; `None` if that is not limited.
    pub(super) fn room(&self, tenant: &str) -> Option<u64> {
        let limit = self.stands(tenant).1?;
        Some(u64::from(limit).saturating_sub(self.running.get(tenant).copied().unwrap_or(0)))
    }

    /// Whether a hold or a limit stops a tenant.
    pub(super) fn is_stopped(&self, tenant: &str) -> bool {
        self.stands(tenant).0 || self.room(tenant) == Some(0)
    }

    /// Where a limit leaves room, counts again, alone until the end of the transaction.
    pub(super) async fn count_alone(&mut self, tx: &mut Lent<'_>) -> Result<(), Failure> {
        let mut scopes = Vec::new();
        for queue in self.queues.iter().filter(|queue| queue.wants() && queue.room > 0 && !queue.open.is_empty()) {
            if self.queue_limit(&queue.name).is_some() {
                scopes.push(Scope::Queue(queue.name.clone()));
            }
            for tenant in queue.open.iter().filter(|tenant| self.room(tenant).is_some()) {
                let own = self.own.get(tenant).is_some_and(|rule| rule.limits != Limits::NONE);
                let id: TenantId = tenant.parse().map_err(|why| corrupt("tenant_id", why))?;
                scopes.push(if own { Scope::Tenant(id) } else { Scope::EachTenant });
            }
        }
        if !scopes.is_empty() {
            let mut script = Script::default();
            rule::lock(&mut script, &scopes);
            self.ask_running(&mut script);
            let mut answers = tx.run(&script).await?;
            self.read_running(&mut answers)?;
        }
        Ok(())
    }
}
