//! Steps, as the engine will build them.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{At, Event, Fact};
use windlass_core::failure::{Failure, FailureKind};
use windlass_core::id::{PlanId, StageName, TaskId, TenantId};
use windlass_core::json::Json;
use windlass_core::plan::spec::{OnConflict, OnFailure, PlanSpec, Recovery, TaskSpec};
use windlass_core::port::state::{Ask, CheckpointPut, Op, PlanPut, PlanRow, Step, TaskPut, TaskRow, Writer};
use windlass_core::projection;
use windlass_core::task::range::Range;
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Cause, Hold, Request, Start, StartKind, Task, advance};
use windlass_core::time::Ms;

use super::{Attempt, BORN, id};

/// A plan to be created: its tasks are `<plan>-0`, `<plan>-1`, …, one for each tenant.
#[derive(Debug, Clone)]
pub struct Draft {
    plan: String,
    tenants: Vec<String>,
    stages: u32,
    max_concurrency: u32,
    born: Ms,
    spec: TaskSpec,
}

impl Draft {
    /// A plan for these tenants.
    #[must_use]
    pub fn new(plan: &str, tenants: &[&str]) -> Draft {
        let tenants = tenants.iter().map(|tenant| (*tenant).to_owned()).collect();
        let spec = TaskSpec { config: Some(Json::null()), ..TaskSpec::default() };
        Draft { plan: plan.to_owned(), tenants, stages: 3, max_concurrency: 10, born: BORN, spec }
    }

    /// A plan for `n` tenants, `<plan>-tenant-0` and so on.
    #[must_use]
    pub fn wide(plan: &str, n: usize) -> Draft {
        let tenants: Vec<String> = (0..n).map(|i| format!("{plan}-tenant-{i}")).collect();
        Draft { tenants, ..Draft::new(plan, &[]) }
    }

    /// With this many stages.
    #[must_use]
    pub fn stages(self, stages: u32) -> Draft {
        Draft { stages, ..self }
    }

    /// With this many tasks at once.
    #[must_use]
    pub fn at_once(self, max_concurrency: u32) -> Draft {
        Draft { max_concurrency, ..self }
    }

    /// Created then.
    #[must_use]
    pub fn born(self, born: Ms) -> Draft {
        Draft { born, ..self }
    }

    /// With this for every task.
    #[must_use]
    pub fn with(self, spec: TaskSpec) -> Draft {
        Draft { spec, ..self }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> PlanId {
        id(&self.plan)
    }

    /// The id of its task at a position.
    #[must_use]
    pub fn task(&self, position: usize) -> TaskId {
        id(&format!("{}-{position}", self.plan))
    }

    /// The step that creates it, by a person.
    #[must_use]
    pub fn step(&self) -> Step {
        let spec = PlanSpec {
            max_concurrency: self.max_concurrency,
            on_conflict: OnConflict::Skip,
            on_failure: OnFailure::Continue,
            recovery: Recovery::Manual,
            retry_limit: None,
            stages: Vec::new(),
        };
        let fact = Fact::PlanCreated { name: id(&self.plan), tasks: self.tenants.len() as u32 };
        let born = |task, tenant, fact| Event { task, tenant, at: self.born, ..event(&self.id(), fact) };
        let created = born(None, None, fact);
        let plan = projection::apply_plan(None, &spec, &created).expect("a created plan");
        let mut step = Step { events: vec![created], ..empty(&format!("create-{}", self.plan)) };
        step.plan = Some(PlanPut { plan, version: 0, spec: Some(spec) });
        for (position, tenant) in self.tenants.iter().enumerate() {
            let fact = Fact::TaskCreated { position: position as u32, stages: (0..self.stages).map(stage).collect() };
            let created = born(Some(self.task(position)), Some(id::<TenantId>(tenant)), fact);
            let task = projection::apply(None, &created).expect("a created task");
            step.tasks.push(TaskPut { task, from: Statuses::NONE, version: 0, spec: Some(self.spec.clone()) });
            step.events.push(created);
        }
        step
    }
}

/// A person's step with nothing in it.
#[must_use]
pub fn empty(op: &str) -> Step {
    Step {
        op: Op { id: id(&short(op)), digest: 1 },
        by: Writer::Person(id("Zoë")),
        plan: None,
        tasks: Vec::new(),
        checkpoint: CheckpointPut::Keep,
        ask: None,
        events: Vec::new(),
        answer: None,
    }
}

/// An operation's name is what it does and to what; one that would be too long for an id is folded.
fn short(op: &str) -> String {
    let fold = |sum: u64, byte: u8| sum.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte);
    match op.len() {
        0..=64 => op.to_owned(),
        _ => format!("{:.40}-{:x}", op, op.bytes().fold(0xcbf2_9ce4_8422_2325, fold)),
    }
}

/// An event about a plan.
#[must_use]
pub fn event(plan: &PlanId, fact: Fact) -> Event {
    Event { seq: 0, at: BORN, plan: plan.clone(), task: None, tenant: None, by: None, reason: None, fact }
}

/// An event about a task.
#[must_use]
pub fn task_event(task: &Task, fact: Fact) -> Event {
    Event { task: Some(task.id.clone()), tenant: Some(task.tenant.clone()), ..event(&task.plan, fact) }
}

/// A stage's name.
#[must_use]
pub fn stage(index: u32) -> StageName {
    id(&format!("stage-{index}"))
}

/// A stage by place and name.
#[must_use]
pub fn at(index: u32) -> At {
    At { index, stage: stage(index) }
}

/// Something that went wrong.
#[must_use]
pub fn failure(message: &str) -> Failure {
    Failure::new(FailureKind::Stage, message, stage(0), 1, BORN)
}

/// A plan moves by `fact`.
#[must_use]
pub fn plan(op: &str, row: &PlanRow, fact: Fact) -> Step {
    let mut plan = row.plan.clone();
    let happened = event(&plan.id, fact);
    let spec = PlanSpec {
        max_concurrency: plan.max_concurrency,
        on_conflict: plan.on_conflict,
        on_failure: plan.on_failure,
        recovery: plan.recovery,
        retry_limit: None,
        stages: Vec::new(),
    };
    plan = projection::apply_plan(Some(plan), &spec, &happened).expect("a fact that fits the plan");
    let put = PlanPut { plan, version: row.version, spec: None };
    Step { plan: Some(put), events: vec![happened], ..empty(op) }
}

/// A task moves by `facts`, written by a person.
#[must_use]
pub fn person(op: &str, row: &TaskRow, facts: Vec<Fact>) -> Step {
    let mut step = empty(op);
    let mut task = row.task.clone();
    for fact in facts {
        let happened = task_event(&task, fact);
        task = projection::apply(Some(task), &happened).expect("a fact that fits the task");
        step.events.push(happened);
    }
    let from = Statuses::of(&[row.task.status]);
    step.tasks.push(TaskPut { task, from, version: row.version, spec: None });
    step
}

/// A task moves by `facts`, written by the attempt that runs it.
#[must_use]
pub fn owner(op: &str, row: &TaskRow, attempt: &Attempt, facts: Vec<Fact>) -> Step {
    let by = Writer::Owner { instance: attempt.instance.clone(), fence: attempt.fence };
    Step { by, ..person(op, row, facts) }
}

/// A claimed task is given back.
#[must_use]
pub fn gives_back(op: &str, row: &TaskRow) -> Step {
    let instance = row.task.owner.clone().expect("a claimed task");
    let mut step = Step { by: Writer::Claimer(instance), ..person(op, row, Vec::new()) };
    step.tasks[0].task.owner = None;
    step
}

/// A claimed task begins: for the first time, or as it was asked.
#[must_use]
pub fn begins(op: &str, row: &TaskRow, attempt: &Attempt) -> Step {
    let fact = advance::begin(&row.task, row.control.start.as_ref(), attempt.instance.clone(), attempt.fence);
    let facts = vec![fact.expect("something to begin"), Fact::StageStarted(at(row.task.completed))];
    owner(op, row, attempt, facts)
}

/// The next stage of the attempt is done: state, checkpoint and events in one.
#[must_use]
pub fn boundary(op: &str, row: &TaskRow, attempt: &Attempt, stored: Option<Checkpoint>) -> Step {
    let index = row.task.completed;
    let mut facts = vec![Fact::StageCompleted { at: at(index), took_ms: 7 }];
    if index + 1 < row.task.stages {
        facts.push(Fact::StageStarted(at(index + 1)));
    }
    let mut step = owner(op, row, attempt, facts);
    step.checkpoint = CheckpointPut::Put(checkpoint(stored, index, attempt));
    step
}

/// The checkpoint after stage `index`.
#[must_use]
pub fn checkpoint(stored: Option<Checkpoint>, index: u32, attempt: &Attempt) -> Checkpoint {
    let mut checkpoint = stored.unwrap_or_else(|| Checkpoint::new(1, BORN));
    let output = Json::of(&index).expect("a number is JSON");
    checkpoint.complete(&stage(index), Some(&output), 7).expect("a small context");
    checkpoint.version += 1;
    checkpoint.fence = attempt.fence;
    checkpoint.executor_instance = Some(attempt.instance.clone());
    checkpoint
}

/// Something is asked of a task that stands in one of `from`.
#[must_use]
pub fn asks(op: &str, task: &TaskId, from: &[TaskStatus], request: Request) -> Step {
    let ask = Ask { task: task.clone(), from: Statuses::of(from), request };
    Step { ask: Some(ask), ..empty(op) }
}

/// "Pause at the next boundary."
#[must_use]
pub fn pause() -> Request {
    Request::Pause(Hold { cause: Cause::Person, by: Some(id("Zoë")), reason: Some(id("lunch")) })
}

/// "Cancel at the next boundary."
#[must_use]
pub fn cancel() -> Request {
    Request::Cancel(Hold { cause: Cause::Person, by: Some(id("Zoë")), reason: None })
}

/// "Begin this when somebody has room."
#[must_use]
pub fn start(kind: StartKind, range: Range, pass: u32) -> Request {
    Request::Start(Start { kind, range, pass, by: id("Zoë"), reason: None })
}

/// "Try it again."
#[must_use]
pub fn retry() -> Request {
    start(StartKind::Retry, Range { from: 0, to: 3 }, 2)
}
