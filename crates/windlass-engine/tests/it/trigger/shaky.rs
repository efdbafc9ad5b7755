//! The ports of jobs and triggers, failing on command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use windlass_core::id::{InstanceId, JobId, TriggerId};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::Outcome;
use windlass_core::trigger::{Note, Trigger};
use windlass_store_embedded::Embedded;

pub(super) struct Shaky {
    store: Embedded,
    /// Jobs are not taken.
    no_jobs: AtomicBool,
    /// What occurrences came to is not taken.
    no_settles: AtomicBool,
    /// So many settles are taken, and nobody hears of it.
    lost_settles: AtomicU32,
    /// So many submissions likewise.
    lost_jobs: AtomicU32,
    /// Nobody is told what others save.
    deaf: AtomicBool,
}

impl Shaky {
    pub(super) fn over(store: &Embedded) -> Arc<Shaky> {
        Arc::new(Shaky {
            store: store.clone(),
            no_jobs: AtomicBool::new(false),
            no_settles: AtomicBool::new(false),
            lost_settles: AtomicU32::new(0),
            lost_jobs: AtomicU32::new(0),
            deaf: AtomicBool::new(false),
        })
    }

    pub(super) fn refuse_jobs(&self, refuse: bool) {
        self.no_jobs.store(refuse, Ordering::SeqCst);
    }

    pub(super) fn refuse_settles(&self) {
        self.no_settles.store(true, Ordering::SeqCst);
    }

    pub(super) fn lose_settles(&self, n: u32) {
        self.lost_settles.store(n, Ordering::SeqCst);
    }

    pub(super) fn deafen(&self) {
        self.deaf.store(true, Ordering::SeqCst);
    }

    pub(super) fn lose_jobs(&self, n: u32) {
        self.lost_jobs.store(n, Ordering::SeqCst);
    }
}

fn answer<T>(answer: Each<T>, lost: &AtomicU32) -> Each<T> {
    match lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
        Ok(_) => Err(gone()),
        Err(_) => answer,
    }
}

fn gone() -> PortError {
    PortError::Unavailable("it was told to be".to_owned())
}

#[async_trait]
impl Triggers for Shaky {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        Triggers::save(&self.store, saves).await
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        Triggers::remove(&self.store, triggers).await
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        self.store.claim_due(owner, lease_ms, limit).await
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        match self.no_settles.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => answer(self.store.settle(settles).await, &self.lost_settles),
        }
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        Triggers::renew(&self.store, claims, lease_ms).await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        Triggers::load(&self.store, triggers).await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        self.store.notes(trigger).await
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        Triggers::list(&self.store, filter, after, limit).await
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        self.store.find_due(upto, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        if self.deaf.load(Ordering::SeqCst) {
            super::pass(wait_ms).await;
            return Ok(since);
        }
        Triggers::changed(&self.store, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        Triggers::purge(&self.store, before, limit).await
    }
}

#[async_trait]
impl Jobs for Shaky {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        match self.no_jobs.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => answer(self.store.submit(groups).await, &self.lost_jobs),
        }
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        self.store.turn(turns).await
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        self.store.ask(jobs, ask, asker).await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        Jobs::load(&self.store, jobs).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        Jobs::list(&self.store, filter, after, limit).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        self.store.queues(after, limit).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        self.store.set_rules(rules).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        self.store.rules(scopes).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        Jobs::changed(&self.store, since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.store.ended(since, wait_ms).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.store.sweep(limit).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        Jobs::purge(&self.store, before, limit).await
    }
}
