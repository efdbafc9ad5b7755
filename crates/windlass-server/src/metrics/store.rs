//! Ports that measure what goes through them: how long each call takes, whether it is answered, and what is refused
//! because it came too late. Waiting for a change is no work and is not measured.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, JobId, TenantId, TriggerId};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{Beat, Filter, Key, Op, Row, State, Step, Stepped, Take, TaskRow};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::Outcome as TriggerOutcome;
use windlass_core::trigger::{Note, Trigger};

use super::{Histogram, Metrics, count};

/// A port that is measured.
pub struct Measured<P: ?Sized> {
    inner: Arc<P>,
    metrics: Arc<Metrics>,
}

impl<P: ?Sized> Measured<P> {
    /// The same port, measured.
    pub fn new(inner: Arc<P>, metrics: &Arc<Metrics>) -> Measured<P> {
        Measured { inner, metrics: Arc::clone(metrics) }
    }

    async fn time<T>(&self, call: Call, answer: impl Future<Output = Result<T, PortError>>) -> Result<T, PortError> {
        let began = Instant::now();
        let answer = answer.await;
        let one = &self.metrics.calls.0[call as usize];
        one.took.add(began.elapsed());
        if matches!(answer, Err(PortError::Unavailable(_))) {
            count(&one.failed, 1);
        }
        answer
    }

    fn stale<'a>(&self, refusals: impl Iterator<Item = &'a Refusal>) {
        let stale = refusals.filter(|refusal| matches!(refusal, Refusal::Stale { .. })).count();
        count(&self.metrics.stale, stale as u64);
    }
}

/// Calls of one method.
#[derive(Debug, Default)]
pub(crate) struct One {
    pub(crate) took: Histogram,
    pub(crate) failed: AtomicU64,
}

/// By method.
#[derive(Debug)]
pub(crate) struct Calls([One; NAMES.len()]);

impl Default for Calls {
    fn default() -> Self {
        Calls(std::array::from_fn(|_| One::default()))
    }
}

impl Calls {
    /// Those that were called.
    pub(crate) fn used(&self) -> impl Iterator<Item = (&'static str, &One)> {
        let called = |one: &One| one.took.counts.iter().any(|n| n.load(std::sync::atomic::Ordering::Relaxed) > 0);
        NAMES.into_iter().zip(&self.0).filter(move |(_, one)| called(one))
    }
}

#[derive(Clone, Copy)]
enum Call {
    StateCommit,
    StateTake,
    StateBeat,
    StateLoad,
    StateList,
    StatePurge,
    LocksAcquire,
    LocksRenew,
    LocksRelease,
    LocksForce,
    LocksLoad,
    LocksList,
    LocksPurge,
    JobsSubmit,
    JobsTurn,
    JobsAsk,
    JobsLoad,
    JobsList,
    JobsQueues,
    JobsSetRules,
    JobsRules,
    JobsSweep,
    JobsPurge,
    TriggersSave,
    TriggersRemove,
    TriggersClaimDue,
    TriggersSettle,
    TriggersRenew,
    TriggersLoad,
    TriggersNotes,
    TriggersList,
    TriggersFindDue,
    TriggersPurge,
}

/// In the order of [`Call`].
const NAMES: [&str; 33] = [
    "state_commit",
    "state_take",
    "state_beat",
    "state_load",
    "state_list",
    "state_purge",
    "locks_acquire",
    "locks_renew",
    "locks_release",
    "locks_force",
    "locks_load",
    "locks_list",
    "locks_purge",
    "jobs_submit",
    "jobs_turn",
    "jobs_ask",
    "jobs_load",
    "jobs_list",
    "jobs_queues",
    "jobs_set_rules",
    "jobs_rules",
    "jobs_sweep",
    "jobs_purge",
    "triggers_save",
    "triggers_remove",
    "triggers_claim_due",
    "triggers_settle",
    "triggers_renew",
    "triggers_load",
    "triggers_notes",
    "triggers_list",
    "triggers_find_due",
    "triggers_purge",
];

#[async_trait]
impl State for Measured<dyn State> {
    fn at_once(&self) -> Option<usize> {
        self.inner.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.inner.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        count(&self.metrics.steps, steps.len() as u64);
        let answers = self.time(Call::StateCommit, self.inner.commit(steps)).await?;
        self.stale(answers.iter().filter_map(|answer| answer.as_ref().err()));
        Ok(answers)
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        self.time(Call::StateTake, self.inner.take(take)).await
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.time(Call::StateBeat, self.inner.beat(instance, lease_ms)).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        self.time(Call::StateLoad, self.inner.load(keys)).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        self.time(Call::StateList, self.inner.list(filter, after, limit)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.time(Call::StatePurge, self.inner.purge(before, limit)).await
    }
}

#[async_trait]
impl Locks for Measured<dyn Locks> {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        self.time(Call::LocksAcquire, self.inner.acquire(want)).await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        self.time(Call::LocksRenew, self.inner.renew(held, ttl_ms)).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        self.time(Call::LocksRelease, self.inner.release(held)).await
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        self.time(Call::LocksForce, self.inner.force(tenant, what, by, reason, op)).await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        self.time(Call::LocksLoad, self.inner.load(tenants)).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        self.time(Call::LocksList, self.inner.list(after, limit)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.time(Call::LocksPurge, self.inner.purge(before, limit)).await
    }
}

#[async_trait]
impl Jobs for Measured<dyn Jobs> {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        self.time(Call::JobsSubmit, self.inner.submit(groups)).await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        let turned = self.time(Call::JobsTurn, self.inner.turn(turns)).await?;
        let settled = turned.iter().flat_map(|one| &one.settled).filter_map(|answer| answer.as_ref().err());
        self.stale(settled.chain(turned.iter().flat_map(|one| &one.beaten).filter_map(|answer| answer.as_ref().err())));
        Ok(turned)
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        self.time(Call::JobsAsk, self.inner.ask(jobs, ask, asker)).await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        self.time(Call::JobsLoad, self.inner.load(jobs)).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        self.time(Call::JobsList, self.inner.list(filter, after, limit)).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        self.time(Call::JobsQueues, self.inner.queues(after, limit)).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        self.time(Call::JobsSetRules, self.inner.set_rules(rules)).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        self.time(Call::JobsRules, self.inner.rules(scopes)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.inner.ended(since, wait_ms).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.time(Call::JobsSweep, self.inner.sweep(limit)).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.time(Call::JobsPurge, self.inner.purge(before, limit)).await
    }

    fn in_order(&self) -> bool {
        self.inner.in_order()
    }

    fn claims_best(&self) -> u32 {
        self.inner.claims_best()
    }
}

#[async_trait]
impl Triggers for Measured<dyn Triggers> {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        self.time(Call::TriggersSave, self.inner.save(saves)).await
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        self.time(Call::TriggersRemove, self.inner.remove(triggers)).await
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        let due = self.time(Call::TriggersClaimDue, self.inner.claim_due(owner, lease_ms, limit)).await?;
        for trigger in &due.claimed {
            self.metrics.trigger_delay.add(Duration::from_millis(due.at.since(trigger.run.try_at)));
        }
        Ok(due)
    }

    async fn settle(&self, settles: &[(Claim, TriggerOutcome)]) -> Each<()> {
        self.time(Call::TriggersSettle, self.inner.settle(settles)).await
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        self.time(Call::TriggersRenew, self.inner.renew(claims, lease_ms)).await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        self.time(Call::TriggersLoad, self.inner.load(triggers)).await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        self.time(Call::TriggersNotes, self.inner.notes(trigger)).await
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        self.time(Call::TriggersList, self.inner.list(filter, after, limit)).await
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        self.time(Call::TriggersFindDue, self.inner.find_due(upto, limit)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.time(Call::TriggersPurge, self.inner.purge(before, limit)).await
    }
}
