//! The port for state: plans, tasks, checkpoints, history, instances.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Cursor, Each, Mark, Page, PortError, Refusal};
use crate::by::By;
use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::fence::Fence;
use crate::id::{InstanceId, OpId, PlanId, TaskId, TenantId};
use crate::json::{Json, given};
use crate::plan::spec::{PlanSpec, TaskSpec};
use crate::plan::{Plan, PlanStatus, Tally};
use crate::task::status::Statuses;
use crate::task::{Control, Request, Task};
use crate::time::Ms;

/// One atomic change: whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The same again changes nothing and gets the same answer.
    pub op: Op,
    /// Who writes, which says how the step is judged.
    pub by: Writer,
    /// A plan, new or changed.
    pub plan: Option<PlanPut>,
    /// Tasks, new or changed. An owner's step has one.
    pub tasks: Vec<TaskPut>,
    /// What becomes of the checkpoint of the step's one task.
    pub checkpoint: CheckpointPut,
    /// What is asked of a task. Never in conflict with its owner.
    pub ask: Option<Ask>,
    /// What happened. Numbered by the store, per task or per plan; each is about a plan or a task
    /// that exists or comes with the step, and is kept with that task's plan and tenant.
    pub events: Vec<Event>,
    /// Kept with the operation of a person and answered to a repeat. A person's step may be nothing else: what was
    /// done is then written elsewhere.
    pub answer: Option<Json>,
}

/// An operation's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Op {
    /// Its id. A task keeps the last of its owner; those of people are kept for themselves, 24 h.
    pub id: OpId,
    /// A digest of the request: the same id with another one is refused.
    pub digest: u64,
}

/// Who writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Writer {
    /// The attempt that runs the task. Judged by ownership, by the tenant's fence (refused when the
    /// store has seen a higher one; raised when this one is higher), by `from`, and by the
    /// checkpoint's version. Never by what others ask.
    Owner {
        /// The instance.
        instance: InstanceId,
        /// The fence of the attempt.
        fence: Fence,
    },
    /// An instance that has claimed the task and not begun it: gives it back, or ends it on a
    /// conflict. Judged by ownership and `from`.
    Claimer(InstanceId),
    /// A person, or an instance on their behalf. Judged by `from` and version; a task with a live
    /// owner is not theirs to put.
    Person(By),
}

/// A plan to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanPut {
    /// The plan.
    pub plan: Plan,
    /// The version it was read at; 0: it must not exist.
    pub version: u64,
    /// With a new plan.
    pub spec: Option<PlanSpec>,
}

/// A task to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskPut {
    /// The task.
    pub task: Task,
    /// Where it may stand; empty: it must not exist.
    pub from: Statuses,
    /// The version it was read at, for writers other than its owner.
    pub version: u64,
    /// With a new task, or with a new configuration.
    pub spec: Option<TaskSpec>,
}

/// What becomes of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckpointPut {
    /// Nothing.
    Keep,
    /// It is replaced; its version is the stored one plus one, 1 if there is none.
    Put(Checkpoint),
    /// It is removed, if there is one.
    Remove,
}

/// Something asked of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which.
    pub task: TaskId,
    /// Where it may stand.
    pub from: Statuses,
    /// What.
    pub request: Request,
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stepped {
    /// The version of the step's one task, or else of its plan; 0 if it has neither.
    pub version: u64,
    /// The number of its last event; what it was before if the step has none.
    pub seq: u64,
    /// What others want of the task now.
    pub control: Control,
    /// When, by the store's clock.
    pub at: Ms,
    /// What was kept with the operation.
    pub answer: Option<Json>,
}

/// Work for an instance with room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Who.
    pub instance: InstanceId,
    /// Which.
    pub which: Which,
}

/// Which tasks to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// Up to this many of what is ready and has no live owner: in plans that are RUNNING under a
    /// conductor with a live lease, of this plan if given, within each plan's `max_concurrency`; in
    /// each plan by readiness, `ready_at` and position.
    Ready {
        /// One plan, or any.
        plan: Option<PlanId>,
        /// At most.
        limit: u32,
    },
    /// Exactly these, whatever their plan's state and concurrency. Refused: Owned, with who and
    /// until when.
    Named(Vec<TaskId>),
}

/// An instance's lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    /// Until when it runs.
    pub until: Ms,
    /// What is wanted of the tasks it owns, if anything.
    pub asked: Vec<(TaskId, Control)>,
}

/// What to load.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A plan.
    Plan(PlanId),
    /// What a plan asks for.
    PlanSpec(PlanId),
    /// How many of its tasks stand where.
    Tally(PlanId),
    /// Its newest events.
    PlanHistory(PlanId),
    /// A task.
    Task(TaskId),
    /// What is particular to it.
    TaskSpec(TaskId),
    /// Its newest events.
    TaskHistory(TaskId),
    /// Its checkpoint.
    Checkpoint(TaskId),
    /// A tenant's latest tasks and fence.
    Tenant(TenantId),
    /// A person's operation.
    Op(OpId),
    /// An instance.
    Instance(InstanceId),
}

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "see Key")]
pub enum Row {
    Plan(PlanRow),
    PlanSpec(PlanSpec),
    Tally(Tally),
    History(Vec<Event>),
    Task(Box<TaskRow>),
    TaskSpec(TaskSpec),
    Checkpoint(Checkpoint),
    Tenant(TenantRow),
    Op(OpRow),
    Instance(InstanceRow),
}

/// A plan, and what the store keeps with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanRow {
    /// The plan.
    pub plan: Plan,
    /// Grows with every write.
    pub version: u64,
    /// The number of its newest event.
    pub seq: u64,
}

impl PlanRow {
    /// Whether nothing was written of it since it was started: nobody has asked for any of its tasks, because that
    /// writes the plan, too ([`Plan::touched`]).
    #[must_use]
    pub fn is_as_started(&self) -> bool {
        // The first event created it, the second started it.
        self.seq == 2 && self.plan.started_at == Some(self.plan.updated_at)
    }
}

/// A task, and what the store keeps with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskRow {
    /// The task.
    pub task: Task,
    /// What others want of it.
    #[serde(default, skip_serializing_if = "Control::is_empty")]
    pub control: Control,
    /// The version of its checkpoint; 0: it has none.
    pub checkpoint: u64,
    /// Grows with every write.
    pub version: u64,
    /// The number of its newest event.
    pub seq: u64,
    /// The last operation of its owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<LastOp>,
}

/// The last operation of a task's owner: enough to answer a repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LastOp {
    /// Its id.
    pub id: OpId,
    /// Its digest.
    pub digest: u64,
    /// When it was taken.
    pub at: Ms,
}

/// A tenant, as state sees it. Its fence never expires.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TenantRow {
    /// The highest fence that has written.
    pub fence: Fence,
    /// Its latest task: the one started last, or created last if none of them has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<TaskId>,
    /// The one started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<TaskId>,
}

/// A person's operation, kept so that a repeat gets the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpRow {
    /// Of the request.
    pub digest: u64,
    /// What the step came to.
    pub version: u64,
    /// See [`Stepped::seq`].
    pub seq: u64,
    /// When.
    pub at: Ms,
    /// What was answered.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub answer: Option<Json>,
}

/// An instance and its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InstanceRow {
    /// Which.
    pub id: InstanceId,
    /// Up since.
    pub since: Ms,
    /// Until when its lease runs.
    pub until: Ms,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Plans, the newest first. Empty `statuses` means all.
    Plans {
        /// Standing here.
        statuses: Vec<PlanStatus>,
    },
    /// Tasks: those of newer plans first, in the order of their plan. Empty `statuses` means all.
    Tasks {
        /// Of this plan.
        plan: Option<PlanId>,
        /// Of this tenant.
        tenant: Option<TenantId>,
        /// Standing here.
        statuses: Statuses,
        /// Only those whose owner's lease has expired.
        interrupted: bool,
    },
    /// Instances, by id.
    Instances,
}

/// State. Leases and expiry are judged by the store's clock.
#[async_trait]
pub trait State: Send + Sync {
    /// Takes steps, each whole or not at all, in order. After a crash in the middle some may be
    /// taken and others not; whoever did not get an answer repeats them with the same operation
    /// ids. An answered step is durable.
    async fn commit(&self, steps: &[Step]) -> Each<Stepped>;

    /// Steps of one instance's attempts that it works on at a time, if more only wait for their turn: then whoever
    /// waits had better decide what to write when its turn comes. `None` if more at once are only faster.
    fn at_once(&self) -> Option<usize>;

    /// Attempts of one instance that keep it busy if all of them write at once: more make each write dearer and nothing
    /// faster, so no more are begun until half of them are in a stage or have ended. `None` if more cost nothing.
    fn enough(&self) -> Option<usize>;

    /// Makes tasks this instance's, by compare-and-set on each record: not owned, or its owner's
    /// lease has expired. What was taken when the answer is lost is this instance's all the same
    /// and is found again by the next call with `Named`, or let go when its lease ends.
    async fn take(&self, take: &Take) -> Each<TaskRow>;

    /// Begins or renews the instance's lease, to `lease_ms` from now; 0 ends it. Repeating is safe.
    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError>;

    /// Reads, an answer per key. Never sees half a step.
    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError>;

    /// A page of a list. A record that is there from the first page to the last is listed exactly
    /// once, whatever is inserted meanwhile.
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError>;

    /// Waits until something another instance may be waiting for has changed after `since`: work
    /// became ready, something was asked, a slot became free in a plan of which more tasks may wait for
    /// one; at most `wait_ms`. Answers how far things are now.
    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError>;

    /// Forgets plans that ended before `before`, with everything of theirs, and operations and
    /// instances that old (an instance with a live lease never is): at most `limit` records of tasks, operations and instances a call;
    /// answers how many. A plan goes first and its tasks follow, in later calls if need be: no step
    /// can touch a task whose plan is gone. Repeating is safe.
    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError>;
}

impl Step {
    /// What holds whatever is stored. Every store asks this first.
    pub fn check(&self) -> Result<(), Refusal> {
        let invalid = |why: &str| Err(Refusal::Invalid(why.to_owned()));
        if matches!(self.by, Writer::Owner { .. } | Writer::Claimer(_)) && self.tasks.len() != 1 {
            return invalid("an owner's step has exactly one task");
        }
        let one = self.tasks.len() == 1 || (self.tasks.is_empty() && self.ask.is_some());
        if self.checkpoint != CheckpointPut::Keep && !one {
            return invalid("a checkpoint goes with exactly one task");
        }
        let empty = self.plan.is_none() && self.tasks.is_empty() && self.ask.is_none() && self.events.is_empty();
        if empty && self.answer.is_none() {
            return invalid("the step changes nothing");
        }
        if let (Writer::Owner { .. } | Writer::Claimer(_), [put]) = (&self.by, &self.tasks[..])
            && put.from.is_empty()
        {
            return invalid("an owner's step changes a task that exists");
        }
        for put in &self.tasks {
            let to = put.task.status;
            // Given back by whoever claimed it, a task stands where it stood, ended or not.
            let given_back = |from| from == to && matches!(self.by, Writer::Claimer(_));
            if let Some(from) = put.from.iter().find(|from| !from.may_become(to) && !given_back(*from)) {
                return Err(Refusal::State { status: from.name(), expected: format!("one that may become {to}") });
            }
        }
        if self.tasks.len() > super::BATCH_MAX || self.events.len() > 4 * super::BATCH_MAX {
            return invalid("the step is too large");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
