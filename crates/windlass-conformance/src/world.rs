//! What scenarios are told with: rivals, plans to be created, attempts, and the steps of their
//! writers, built by core's own rules. The times that callers write are [`BORN`]; the store's clock
//! is another.

pub mod overtaken;
pub mod read;
pub mod step;

use std::fmt::Debug;
use std::str::FromStr;

use windlass_core::event::Fact;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, PlanId, TaskId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder, LOCK_MS};
use windlass_core::port::Refusal;
use windlass_core::port::state::{Beat, Step, Stepped, Take, TaskRow, Which};
use windlass_core::task::advance;
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use crate::{Harness, Ports};
use step::Draft;

/// What callers write as the time of what they do.
pub const BORN: Ms = Ms::new(1_600_000_000_000);
/// A lease that no scenario outlasts …
pub const LEASE_MS: u64 = 60_000;
/// … and how far ahead a rival's clock runs that sees every such lease expired.
pub const LATER_MS: u64 = 600_000;
/// How many meet in a race.
pub const RIVALS: usize = 16;

/// An identifier or a text that is known to be one.
pub fn id<T: FromStr<Err: Debug>>(text: &str) -> T {
    text.parse().unwrap_or_else(|why| panic!("{text:?} in a scenario: {why:?}"))
}

/// An instance on its own way to the store.
#[derive(Clone)]
pub struct Rival {
    /// The way.
    pub ports: Ports,
    /// Who.
    pub me: InstanceId,
}

/// A task that a rival runs.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// Which.
    pub task: TaskId,
    /// Whose.
    pub tenant: TenantId,
    /// Who runs it.
    pub instance: InstanceId,
    /// Under which fence.
    pub fence: Fence,
}

impl Attempt {
    /// Its lock, as it knows it.
    #[must_use]
    pub fn held(&self) -> Held {
        Held { tenant: self.tenant.clone(), task: self.task.clone(), fence: self.fence }
    }
}

impl Rival {
    /// An instance that has not said yet that it lives.
    pub async fn open(h: &dyn Harness, me: &str, ahead_ms: u64) -> Rival {
        Rival { ports: h.open(ahead_ms).await, me: id(me) }
    }

    /// An instance with a lease.
    pub async fn up(h: &dyn Harness, me: &str, ahead_ms: u64) -> Rival {
        let rival = Rival::open(h, me, ahead_ms).await;
        rival.beat(LEASE_MS).await;
        rival
    }

    /// Renews its lease.
    pub async fn beat(&self, lease_ms: u64) -> Beat {
        self.ports.state.beat(&self.me, lease_ms).await.expect("beat")
    }

    /// Commits one step.
    pub async fn commit(&self, step: &Step) -> Result<Stepped, Refusal> {
        let mut answers = self.ports.state.commit(std::slice::from_ref(step)).await.expect("commit");
        assert_eq!(answers.len(), 1, "commit answers every step");
        answers.remove(0)
    }

    /// Commits one step that must be taken.
    pub async fn done(&self, step: &Step) -> Stepped {
        self.commit(step).await.unwrap_or_else(|why| panic!("refused: {why}\n{step:#?}"))
    }

    /// Commits one step that must be refused, and sees that nothing of it was written.
    pub async fn refused(&self, step: &Step) -> Refusal {
        let before = self.everything().await;
        let why = match self.commit(step).await {
            Err(why) => why,
            Ok(stepped) => panic!("taken, but should be refused: {stepped:?}\n{step:#?}"),
        };
        assert_eq!(self.everything().await, before, "a refused step changes nothing");
        why
    }

    /// Creates a plan.
    pub async fn create(&self, draft: &Draft) {
        self.done(&draft.step()).await;
    }

    /// Starts a plan and conducts it.
    pub async fn start(&self, plan: &PlanId) {
        let row = self.plan(plan).await;
        let fact = Fact::PlanStarted { conductor: self.me.clone() };
        self.done(&step::plan(&format!("start-{plan}"), &row, fact)).await;
    }

    /// Creates a plan, starts it, and conducts it.
    pub async fn run(&self, draft: &Draft) {
        self.create(draft).await;
        self.start(&draft.id()).await;
    }

    /// Ends a plan, as of `at`.
    pub async fn end(&self, plan: &PlanId, at: Ms) {
        let row = self.plan(plan).await;
        let mut step = step::plan(&format!("end-{plan}"), &row, Fact::PlanCompleted { tally: Default::default() });
        step.events[0].at = at;
        let put = step.plan.as_mut().expect("a plan's step");
        (put.plan.updated_at, put.plan.ended_at) = (at, Some(at));
        self.done(&step).await;
    }

    /// Takes what is ready.
    pub async fn ready(&self, plan: Option<&PlanId>, limit: u32) -> Vec<Result<TaskRow, Refusal>> {
        let take = Take { instance: self.me.clone(), which: Which::Ready { plan: plan.cloned(), limit } };
        self.ports.state.take(&take).await.expect("take")
    }

    /// Takes exactly one.
    pub async fn take(&self, task: &TaskId) -> Result<TaskRow, Refusal> {
        let take = Take { instance: self.me.clone(), which: Which::Named(vec![task.clone()]) };
        let mut answers = self.ports.state.take(&take).await.expect("take");
        assert_eq!(answers.len(), 1, "take answers every name");
        answers.remove(0)
    }

    /// Wants the lock of a task's tenant.
    pub async fn acquire(&self, tenant: &str, task: &str, ttl_ms: u64) -> Result<Holder, Refusal> {
        let want = Acquire { tenant: id(tenant), plan: id("some-plan"), task: id(task), ttl_ms };
        let mut answers = self.ports.locks.acquire(&[want]).await.expect("acquire");
        assert_eq!(answers.len(), 1, "acquire answers every wish");
        answers.remove(0)
    }

    /// Renews a lock.
    pub async fn renew(&self, held: &Held, ttl_ms: u64) -> Result<Ms, Refusal> {
        self.ports.locks.renew(std::slice::from_ref(held), ttl_ms).await.expect("renew").remove(0)
    }

    /// Gives a lock back.
    pub async fn release(&self, held: &Held) -> Result<(), Refusal> {
        self.ports.locks.release(std::slice::from_ref(held)).await.expect("release").remove(0)
    }

    /// Takes a task, gets its lock, and commits that it has begun: the whole way of SPEC §4.
    pub async fn begin(&self, task: &TaskId) -> Attempt {
        let row = self.take(task).await.unwrap_or_else(|why| panic!("taking {task}: {why}"));
        let tenant = row.task.tenant.clone();
        let lock = self.acquire(tenant.as_str(), task.as_str(), LOCK_MS).await;
        let fence = lock.unwrap_or_else(|why| panic!("locking {tenant}: {why}")).fence;
        let attempt = Attempt { task: task.clone(), tenant, instance: self.me.clone(), fence };
        self.done(&step::begins(&format!("begin-{task}-{fence}"), &row, &attempt)).await;
        attempt
    }

    /// Completes the attempt's next stage, in one boundary commit with its checkpoint.
    pub async fn stage(&self, attempt: &Attempt) -> Stepped {
        self.done(&self.boundary(attempt).await).await
    }

    /// The step that completes the attempt's next stage.
    pub async fn boundary(&self, attempt: &Attempt) -> Step {
        let row = self.task(&attempt.task).await;
        let checkpoint = self.checkpoint(&attempt.task).await;
        step::boundary(&format!("stage-{}-{}", attempt.task, row.version), &row, attempt, checkpoint)
    }

    /// Ends the attempt: FAILED, its lock given back.
    pub async fn fail(&self, attempt: &Attempt) {
        let row = self.task(&attempt.task).await;
        let outcome = advance::Outcome::Failed(step::failure("it broke"));
        let facts = advance::ended(&row.task, step::at(row.task.completed), outcome);
        self.done(&step::owner(&format!("fail-{}-{}", attempt.task, row.version), &row, attempt, facts)).await;
        self.release(&attempt.held()).await.unwrap_or_else(|why| panic!("releasing {}: {why}", attempt.tenant));
        assert_eq!(self.task(&attempt.task).await.task.status, TaskStatus::Failed);
    }
}
