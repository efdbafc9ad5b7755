//! Every key of the store, in one place. A key begins with its table's letter; parts that vary in
//! length end with a zero byte, which no identifier holds; numbers are big-endian, so that keys
//! sort as they do; times that list newest first are turned round.

use windlass_core::id::{InstanceId, JobId, OpId, PlanId, QueueName, TaskId, TenantId, TriggerId};
use windlass_core::job::limit::Scope;
use windlass_core::job::{Job, JobStatus};
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Readiness, Task};
use windlass_core::time::Ms;

/// The last fence that was drawn.
pub(crate) const FENCE: &[u8] = b"F";

/// A key under construction.
struct Key(Vec<u8>);

impl Key {
    fn new(table: u8) -> Key {
        let mut bytes = Vec::with_capacity(96);
        bytes.push(table);
        Key(bytes)
    }
    fn id(mut self, id: &str) -> Key {
        self.0.extend_from_slice(id.as_bytes());
        self.0.push(0);
        self
    }
    fn last(mut self, id: &str) -> Vec<u8> {
        self.0.extend_from_slice(id.as_bytes());
        self.0
    }
    fn byte(mut self, byte: u8) -> Key {
        self.0.push(byte);
        self
    }
    fn u32(mut self, n: u32) -> Key {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }
    fn u64(mut self, n: u64) -> Key {
        self.0.extend_from_slice(&n.to_be_bytes());
        self
    }
    fn time(mut self, at: Ms) -> Key {
        self.0.extend_from_slice(&at.get().to_be_bytes());
        self
    }
    fn newest_first(mut self, at: Ms) -> Key {
        self.0.extend_from_slice(&(u64::MAX - at.get()).to_be_bytes());
        self
    }
}

/// A link of the chain of batches.
pub(crate) fn link(slot: u32) -> Vec<u8> {
    Key::new(b'$').u32(slot).0
}

pub(crate) fn links() -> (Vec<u8>, Vec<u8>) {
    whole(b'$')
}

pub(crate) fn plan(id: &PlanId) -> Vec<u8> {
    Key::new(b'P').last(id.as_str())
}

pub(crate) fn plan_spec(id: &PlanId) -> Vec<u8> {
    Key::new(b'S').last(id.as_str())
}

pub(crate) fn task(id: &TaskId) -> Vec<u8> {
    Key::new(b't').last(id.as_str())
}

pub(crate) fn task_spec(id: &TaskId) -> Vec<u8> {
    Key::new(b's').last(id.as_str())
}

pub(crate) fn checkpoint(id: &TaskId) -> Vec<u8> {
    Key::new(b'c').last(id.as_str())
}

pub(crate) fn tenant(id: &TenantId) -> Vec<u8> {
    Key::new(b'n').last(id.as_str())
}

pub(crate) fn instance(id: &InstanceId) -> Vec<u8> {
    Key::new(b'j').last(id.as_str())
}

pub(crate) fn instances() -> (Vec<u8>, Vec<u8>) {
    whole(b'j')
}

pub(crate) fn op(id: &OpId) -> Vec<u8> {
    Key::new(b'o').last(id.as_str())
}

/// Operations by age.
pub(crate) fn op_age(at: Ms, id: &OpId) -> Vec<u8> {
    Key::new(b'O').time(at).last(id.as_str())
}

pub(crate) fn ops_before(at: Ms) -> (Vec<u8>, Vec<u8>) {
    (vec![b'O'], Key::new(b'O').time(at).0)
}

/// Ended plans by age.
pub(crate) fn ended(at: Ms, id: &PlanId) -> Vec<u8> {
    Key::new(b'e').time(at).last(id.as_str())
}

pub(crate) fn ended_before(at: Ms) -> (Vec<u8>, Vec<u8>) {
    (vec![b'e'], Key::new(b'e').time(at).0)
}

/// Plans that are gone and whose tasks are still to go.
pub(crate) fn going(id: &PlanId) -> Vec<u8> {
    Key::new(b'x').last(id.as_str())
}

pub(crate) fn all_going() -> (Vec<u8>, Vec<u8>) {
    whole(b'x')
}

/// Plans by status, the newest first.
pub(crate) fn plan_status(plan: &Plan) -> Vec<u8> {
    plan_place(plan.created_at, &plan.id, plan.status)
}

fn plan_place(created_at: Ms, id: &PlanId, status: PlanStatus) -> Vec<u8> {
    Key::new(b'I').byte(status as u8).newest_first(created_at).last(id.as_str())
}

/// Tasks by status: the same order as [`place`], behind the status.
pub(crate) fn task_status(task: &Task) -> Vec<u8> {
    let mut key = Key::new(b'i').byte(task.status as u8).0;
    key.extend_from_slice(&place(task));
    key
}

/// Tasks by tenant: the same order as [`place`], behind the tenant.
pub(crate) fn task_tenant(task: &Task) -> Vec<u8> {
    let mut key = Key::new(b'u').id(task.tenant.as_str()).0;
    key.extend_from_slice(&place(task));
    key
}

/// A task's place in every list: newer plans first, then the order of the plan.
fn place(task: &Task) -> Vec<u8> {
    Key(Vec::with_capacity(80)).newest_first(task.created_at).id(task.plan.as_str()).u32(task.position).0
}

/// What lies behind a list's prefix.
pub(crate) fn plans_with(status: PlanStatus) -> Vec<u8> {
    Key::new(b'I').byte(status as u8).0
}

pub(crate) fn tasks_with(status: TaskStatus) -> Vec<u8> {
    Key::new(b'i').byte(status as u8).0
}

pub(crate) fn tasks_of(tenant: &TenantId) -> Vec<u8> {
    Key::new(b'u').id(tenant.as_str()).0
}

/// The part of a [`place`] that a plan's tasks share.
pub(crate) fn plan_part(created_at: Ms, id: &PlanId) -> Vec<u8> {
    Key(Vec::with_capacity(80)).newest_first(created_at).id(id.as_str()).0
}

/// Tasks that wait to be handed out, in the order in which they are.
pub(crate) fn ready(task: &Task, readiness: Readiness) -> Vec<u8> {
    Key::new(b'r').id(task.plan.as_str()).byte(readiness as u8).time(task.ready_at).u32(task.position).0
}

/// Whether a key made by [`ready`] is of a task that holds no slot yet.
pub(crate) fn is_free(ready: &[u8]) -> bool {
    // Behind the readiness stand eight bytes of time and four of place.
    ready.len().checked_sub(13).is_some_and(|at| ready[at] == Readiness::Free as u8)
}

pub(crate) fn ready_in(plan: &PlanId) -> (Vec<u8>, Vec<u8>) {
    within(Key::new(b'r').id(plan.as_str()).0)
}

/// Tasks that take a slot of their plan.
pub(crate) fn slot(task: &Task) -> Vec<u8> {
    Key::new(b'a').id(task.plan.as_str()).last(task.id.as_str())
}

pub(crate) fn slots(plan: &PlanId) -> (Vec<u8>, Vec<u8>) {
    within(Key::new(b'a').id(plan.as_str()).0)
}

/// Tasks of which something is wanted, by their owner.
pub(crate) fn asked(instance: &InstanceId, task: &TaskId) -> Vec<u8> {
    Key::new(b'w').id(instance.as_str()).last(task.as_str())
}

pub(crate) fn asked_of(instance: &InstanceId) -> (Vec<u8>, Vec<u8>) {
    within(Key::new(b'w').id(instance.as_str()).0)
}

/// A slot of a history: a ring, so that it is bounded without deletions.
pub(crate) fn history(subject: Subject<'_>, slot: u32) -> Vec<u8> {
    subject.prefix().u32(slot).0
}

pub(crate) fn histories(subject: Subject<'_>) -> (Vec<u8>, Vec<u8>) {
    within(subject.prefix().0)
}

/// What a history is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject<'a> {
    Plan(&'a PlanId),
    Task(&'a TaskId),
}

impl Subject<'_> {
    fn prefix(self) -> Key {
        match self {
            Subject::Plan(id) => Key::new(b'H').id(id.as_str()),
            Subject::Task(id) => Key::new(b'h').id(id.as_str()),
        }
    }
}

pub(crate) fn lock(tenant: &TenantId) -> Vec<u8> {
    Key::new(b'l').last(tenant.as_str())
}

pub(crate) fn locks() -> (Vec<u8>, Vec<u8>) {
    whole(b'l')
}

pub(crate) fn freeze(tenant: &TenantId) -> Vec<u8> {
    Key::new(b'f').last(tenant.as_str())
}

pub(crate) fn freezes() -> (Vec<u8>, Vec<u8>) {
    whole(b'f')
}

/// Where a job stands: under its lane or among the ended.
pub(crate) fn job(id: &JobId) -> Vec<u8> {
    let mut key = Key::new(b'J').0;
    key.extend_from_slice(id.bytes());
    key
}

/// A payload or a result that is too large to be written anew with its job.
pub(crate) fn job_text(id: &JobId, part: u8) -> Vec<u8> {
    let mut key = Key::new(b'B').0;
    key.extend_from_slice(id.bytes());
    key.push(part);
    key
}

/// The job that has an idempotency key.
pub(crate) fn job_key(queue: &QueueName, tenant: Option<&TenantId>, key: &str) -> Vec<u8> {
    Key::new(b'k').id(queue.as_str()).id(tenant.map_or("", TenantId::as_str)).last(key)
}

/// A place among the live jobs of a tenant in a queue: the highest priority first, then time, then the order of
/// submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) level: u8,
    pub(crate) run_at: Ms,
    pub(crate) seq: u64,
}

/// Bytes that a [`Place`] takes in a key.
const PLACE_BYTES: usize = 17;

impl Place {
    pub(crate) fn of(job: &Job) -> Place {
        // Priorities turned round: 127 is 0, -128 is 255.
        Place { level: (job.priority as u8) ^ 0x7f, run_at: job.run_at, seq: job.seq }
    }

    /// The first that a level can have.
    pub(crate) fn first_of(level: u8) -> Place {
        Place { level, run_at: Ms::ZERO, seq: 0 }
    }

    /// The place that a key of [`live`] ends with.
    pub(crate) fn of_key(key: &[u8]) -> Option<Place> {
        let place = key.get(key.len().checked_sub(PLACE_BYTES)?..)?;
        let (level, rest) = place.split_first()?;
        let (run_at, seq) = rest.split_first_chunk::<8>()?;
        let seq = seq.try_into().ok()?;
        Some(Place { level: *level, run_at: Ms::new(u64::from_be_bytes(*run_at)), seq: u64::from_be_bytes(seq) })
    }
}

/// The live jobs of a tenant in a queue; those without a tenant come first.
pub(crate) fn lane(queue: &QueueName, tenant: Option<&TenantId>) -> Vec<u8> {
    Key::new(b'q').id(queue.as_str()).id(tenant.map_or("", TenantId::as_str)).0
}

/// A live job, under the key of its lane.
pub(crate) fn live(lane: &[u8], place: Place) -> Vec<u8> {
    let mut key = Vec::with_capacity(lane.len() + PLACE_BYTES);
    key.extend_from_slice(lane);
    Key(key).byte(place.level).time(place.run_at).u64(place.seq).0
}

pub(crate) fn live_job(job: &Job) -> Vec<u8> {
    live(&lane(&job.queue, job.tenant.as_ref()), Place::of(job))
}

pub(crate) fn live_in(queue: Option<&QueueName>) -> Vec<u8> {
    match queue {
        Some(queue) => Key::new(b'q').id(queue.as_str()).0,
        None => vec![b'q'],
    }
}

/// How many of a lane's jobs wait; only while some do.
pub(crate) fn lane_count(queue: &QueueName, tenant: Option<&TenantId>) -> Vec<u8> {
    Key::new(b'L').id(queue.as_str()).last(tenant.map_or("", TenantId::as_str))
}

pub(crate) fn lane_counts() -> (Vec<u8>, Vec<u8>) {
    whole(b'L')
}

/// What one batch claimed, as long as some of it runs.
pub(crate) fn claimed(number: u64) -> Vec<u8> {
    Key::new(b'C').u64(number).0
}

pub(crate) fn all_claimed() -> (Vec<u8>, Vec<u8>) {
    whole(b'C')
}

/// Ended jobs by status, the newest first.
pub(crate) fn ended_job(job: &Job) -> Vec<u8> {
    let at = job.completed_at.unwrap_or(job.submitted_at);
    Key::new(b'E').byte(ended_rank(job.status)).newest_first(at).u64(u64::MAX - job.seq).0
}

/// Jobs of a status that ended before a moment.
pub(crate) fn jobs_ended_before(status: JobStatus, at: Ms) -> (Vec<u8>, Vec<u8>) {
    let (_, to) = within(ended_with(status));
    (Key::new(b'E').byte(ended_rank(status)).u64((u64::MAX - at.get()).saturating_add(1)).0, to)
}

pub(crate) fn ended_with(status: JobStatus) -> Vec<u8> {
    Key::new(b'E').byte(ended_rank(status)).0
}

/// The order in which lists show them.
fn ended_rank(status: JobStatus) -> u8 {
    match status {
        JobStatus::Failed => 0,
        JobStatus::Cancelled => 1,
        _ => 2,
    }
}

/// The limits of a queue, of a tenant, of each tenant.
pub(crate) fn job_rule(scope: &Scope) -> Vec<u8> {
    match scope {
        Scope::Queue(queue) => Key::new(b'R').byte(b'q').last(queue.as_str()),
        Scope::Tenant(tenant) => Key::new(b'R').byte(b't').last(tenant.as_str()),
        Scope::EachTenant => Key::new(b'R').byte(b'e').0,
    }
}

pub(crate) fn job_rules() -> (Vec<u8>, Vec<u8>) {
    whole(b'R')
}

/// A trigger: where it is due, or all of it if it is not.
pub(crate) fn trigger(id: &TriggerId) -> Vec<u8> {
    Key::new(b'T').last(id.as_str())
}

pub(crate) fn triggers() -> (Vec<u8>, Vec<u8>) {
    whole(b'T')
}

/// Triggers by the time at which they are to be looked at.
pub(crate) fn due(at: Ms, id: &TriggerId) -> Vec<u8> {
    Key::new(b'D').time(at).last(id.as_str())
}

pub(crate) fn all_due() -> (Vec<u8>, Vec<u8>) {
    whole(b'D')
}

/// What stands in a key made by [`due`] or [`trigger_ended`].
pub(crate) fn timed(key: &[u8]) -> Option<(Ms, &str)> {
    let (at, id) = key.get(1..)?.split_first_chunk::<8>()?;
    Some((Ms::new(u64::from_be_bytes(*at)), std::str::from_utf8(id).ok()?))
}

/// What people say of a trigger, if it is large.
pub(crate) fn trigger_spec(id: &TriggerId) -> Vec<u8> {
    Key::new(b'Y').last(id.as_str())
}

/// A slot of a trigger's notes: a ring.
pub(crate) fn note(id: &TriggerId, slot: u32) -> Vec<u8> {
    Key::new(b'N').id(id.as_str()).u32(slot).0
}

pub(crate) fn notes(id: &TriggerId) -> (Vec<u8>, Vec<u8>) {
    within(Key::new(b'N').id(id.as_str()).0)
}

/// Triggers that retention may forget, by their end.
pub(crate) fn trigger_ended(at: Ms, id: &TriggerId) -> Vec<u8> {
    Key::new(b'Z').time(at).last(id.as_str())
}

pub(crate) fn triggers_ended() -> (Vec<u8>, Vec<u8>) {
    whole(b'Z')
}

/// Triggers that wait for a person.
pub(crate) fn trigger_waiting(id: &TriggerId) -> Vec<u8> {
    Key::new(b'W').last(id.as_str())
}

pub(crate) fn triggers_waiting() -> (Vec<u8>, Vec<u8>) {
    whole(b'W')
}

/// Since when and until when there is a scheduler.
pub(crate) const SCHEDULERS: &[u8] = b"A";

fn whole(table: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![table], vec![table + 1])
}

/// Every key that begins with `prefix`.
pub(crate) fn within(prefix: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let mut end = prefix.clone();
    // Prefixes end in a letter, a zero or a place below 0xff, so there is always a next one.
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            break;
        }
    }
    (prefix, end)
}
