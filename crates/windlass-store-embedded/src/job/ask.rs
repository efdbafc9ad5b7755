//! What people do: cancel, requeue, and set the rules.

use windlass_core::id::{JobId, TenantId};
use windlass_core::job::Asker;
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{self, Asked, JobAsk};
use windlass_core::port::Refusal;

use super::index::Index;
use crate::key;
use crate::kv::KvError;
use crate::tx::Tx;

impl Index {
    pub(super) fn ask(
        &mut self,
        tx: &mut Tx<'_>,
        id: &JobId,
        ask: JobAsk,
        asker: &Asker,
    ) -> Result<Result<Asked, Refusal>, KvError> {
        let Some(kept) = self.find(tx, id)? else { return Ok(Err(Refusal::NotFound(format!("job {id}")))) };
        let (asked, job) = match rules::ask(kept.job.clone(), ask, asker.clone()) {
            Ok(asked) => asked,
            Err(refusal) => return Ok(Err(refusal)),
        };
        match job {
            Some(job) if job.status == kept.job.status => self.goes_on(tx, job)?,
            Some(job) => self.moves(tx, &kept, job, None, asker.at)?,
            None => {}
        }
        Ok(Ok(asked))
    }

    /// Sets rules; one that says nothing is forgotten. What they held back may be claimed now.
    pub(super) fn set_rules(&mut self, tx: &mut Tx<'_>, rules: Vec<Rule>) -> Result<(), KvError> {
        for rule in rules {
            let key = key::job_rule(&rule.scope);
            if rule.limits == Limits::NONE && rule.held.is_none() {
                tx.remove(key);
                self.rules.remove(&rule.scope);
            } else {
                tx.put_record(key, &rule)?;
                self.rules.insert(rule.scope.clone(), rule.clone());
            }
            match &rule.scope {
                Scope::Queue(_) => {}
                Scope::Tenant(tenant) => _ = self.unblock(tenant),
                Scope::EachTenant => {
                    let tenants: Vec<TenantId> = self.tenants.keys().cloned().collect();
                    tenants.iter().for_each(|tenant| _ = self.unblock(tenant));
                }
            }
        }
        tx.jobs_changed = true;
        Ok(())
    }
}
