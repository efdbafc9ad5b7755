//! A store that breaks a rule of jobs or triggers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, JobId, TriggerId};
use windlass_core::job::limit::{Rule as Limit, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::Outcome;
use windlass_core::trigger::{Note, Trigger};

use super::spoil::Rule;

/// See the module.
pub(super) struct SpoiledWorks {
    pub(super) rule: Rule,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) triggers: Arc<dyn Triggers>,
    /// Fences of the newest claims of triggers.
    pub(super) newest: Mutex<BTreeMap<TriggerId, Fence>>,
}

#[async_trait]
impl Jobs for SpoiledWorks {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        let mut groups = groups.to_vec();
        match self.rule {
            Rule::Occurrence => groups.iter_mut().flatten().for_each(|job| job.key = None),
            Rule::Job if groups.iter().flatten().any(|job| job.priority > 100) => {
                let taken = |job: &NewJob| Submitted { id: job.id, existing: false };
                return Ok(groups.iter().map(|group| Ok(group.iter().map(taken).collect())).collect());
            }
            _ => {}
        }
        self.jobs.submit(&groups).await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        let mut turns = turns.to_vec();
        if self.rule == Rule::Answer {
            for (delivery, _) in turns.iter_mut().flat_map(|turn| &mut turn.settle) {
                if let Some(job) = self.jobs.load(&[delivery.job]).await?.remove(0) {
                    delivery.fence = job.fence;
                }
            }
        }
        self.jobs.turn(&turns).await
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        self.jobs.ask(jobs, ask, asker).await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        self.jobs.load(jobs).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        self.jobs.list(filter, after, limit).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        self.jobs.queues(after, limit).await
    }

    async fn set_rules(&self, rules: &[Limit]) -> Result<(), PortError> {
        self.jobs.set_rules(rules).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Limit>, PortError> {
        self.jobs.rules(scopes).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.jobs.changed(since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.jobs.ended(since, wait_ms).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.jobs.sweep(limit).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.jobs.purge(before, limit).await
    }
}

#[async_trait]
impl Triggers for SpoiledWorks {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        self.triggers.save(saves).await
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        self.triggers.remove(triggers).await
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        let due = self.triggers.claim_due(owner, lease_ms, limit).await?;
        let claimed = due.claimed.iter().map(|trigger| (trigger.id.clone(), trigger.run.fence));
        self.newest.lock().unwrap().extend(claimed);
        Ok(due)
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        let mut settles = settles.to_vec();
        if self.rule == Rule::Claim {
            let newest = self.newest.lock().unwrap();
            for (claim, outcome) in &mut settles {
                if let Some(fence) = newest.get(&claim.trigger) {
                    (claim.fence, outcome.run.fence) = (*fence, *fence);
                }
            }
        }
        self.triggers.settle(&settles).await
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        self.triggers.renew(claims, lease_ms).await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        self.triggers.load(triggers).await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        self.triggers.notes(trigger).await
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        self.triggers.list(filter, after, limit).await
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        self.triggers.find_due(upto, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.triggers.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.triggers.purge(before, limit).await
    }
}
