//! Plans, tasks and steps as the tests of this crate write them.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{At, Begun, Event, Fact};
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, StageName, TenantId};
use windlass_core::plan::spec::{OnConflict, OnFailure, PlanSpec, Recovery, TaskSpec};
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::state::{Ask, CheckpointPut, Op, PlanPut, Step, TaskPut, Writer};
use windlass_core::retry::Retry;
use windlass_core::stage::{Action, Sleep, Stage};
use windlass_core::task::range::Range;
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Attempt, AttemptKind, Cause, Hold, Request, Task};
use windlass_core::time::Ms;

/// Stages of every task here.
pub(crate) const STAGES: u32 = 3;

/// An identifier or a name that the test knows to be good.
pub(crate) fn id<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error:?}"))
}

pub(crate) fn stage(index: u32) -> StageName {
    id(&format!("stage-{index}"))
}

pub(crate) fn plan(name: &str, tasks: u32, at: Ms) -> Plan {
    Plan {
        id: id(name),
        name: id("rollout"),
        status: PlanStatus::Ready,
        tasks,
        max_concurrency: 2,
        on_failure: OnFailure::Continue,
        on_conflict: OnConflict::Skip,
        recovery: Recovery::Manual,
        conductor: None,
        cancelled: false,
        created_at: at,
        started_at: None,
        updated_at: at,
        ended_at: None,
    }
}

pub(crate) fn plan_spec() -> PlanSpec {
    let stages = (0..STAGES).map(|index| Stage {
        name: stage(index),
        action: Action::Sleep(Sleep { for_ms: 5 }),
        when: None,
        timeout_ms: 1_000,
        retry: Retry::NONE,
        undo: None,
    });
    PlanSpec {
        max_concurrency: 2,
        on_conflict: OnConflict::Skip,
        on_failure: OnFailure::Continue,
        recovery: Recovery::Manual,
        retry_limit: None,
        stages: stages.collect(),
    }
}

pub(crate) fn task(plan: &Plan, name: &str, tenant: &TenantId, position: u32) -> Task {
    Task {
        id: id(name),
        tenant: tenant.clone(),
        plan: plan.id.clone(),
        position,
        status: TaskStatus::Pending,
        stages: STAGES,
        completed: 0,
        stage: None,
        attempt: None,
        pass: 1,
        retries: 0,
        taken_back: false,
        hold: None,
        owner: None,
        fence: Fence::NONE,
        ready_at: plan.created_at,
        created_at: plan.created_at,
        started_at: None,
        updated_at: plan.created_at,
        ended_at: None,
        failure: None,
        context: None,
    }
}

pub(crate) fn about_plan(plan: &Plan, fact: Fact) -> Event {
    let (at, plan) = (plan.updated_at, plan.id.clone());
    Event { seq: 0, at, plan, task: None, tenant: None, by: None, reason: None, fact }
}

pub(crate) fn about_task(task: &Task, fact: Fact) -> Event {
    Event {
        seq: 0,
        at: task.updated_at,
        plan: task.plan.clone(),
        task: Some(task.id.clone()),
        tenant: Some(task.tenant.clone()),
        by: None,
        reason: None,
        fact,
    }
}

pub(crate) fn step(op: &str, by: Writer) -> Step {
    Step {
        op: Op { id: id(op), digest: 7 },
        by,
        plan: None,
        tasks: Vec::new(),
        checkpoint: CheckpointPut::Keep,
        ask: None,
        events: Vec::new(),
        answer: None,
    }
}

pub(crate) fn person() -> Writer {
    Writer::Person(id("ada"))
}

/// A person creates the plan with its tasks.
pub(crate) fn create(op: &str, plan: &Plan, tasks: &[Task]) -> Step {
    let created = Fact::PlanCreated { name: plan.name.clone(), tasks: plan.tasks };
    let mut events = vec![about_plan(plan, created)];
    events.extend(tasks.iter().map(|task| {
        let stages = (0..STAGES).map(stage).collect();
        about_task(task, Fact::TaskCreated { position: task.position, stages })
    }));
    let put = |task: &Task| TaskPut {
        task: task.clone(),
        from: Statuses::NONE,
        version: 0,
        spec: Some(TaskSpec { retry_limit: Some(task.position), ..TaskSpec::default() }),
    };
    Step {
        plan: Some(PlanPut { plan: plan.clone(), version: 0, spec: Some(plan_spec()) }),
        tasks: tasks.iter().map(put).collect(),
        events,
        answer: Some(windlass_core::json::Json::parse(r#"{"created":true}"#).unwrap_or_else(|error| panic!("{error}"))),
        ..step(op, person())
    }
}

/// A person starts the plan; this instance conducts it.
pub(crate) fn start(op: &str, plan: &mut Plan, version: u64, conductor: &InstanceId, at: Ms) -> Step {
    plan.status = PlanStatus::Running;
    plan.conductor = Some(conductor.clone());
    plan.started_at = plan.started_at.or(Some(at));
    plan.updated_at = at;
    Step {
        plan: Some(PlanPut { plan: plan.clone(), version, spec: None }),
        events: vec![about_plan(plan, Fact::PlanStarted { conductor: conductor.clone() })],
        ..step(op, person())
    }
}

/// The attempt begins under its fence.
pub(crate) fn begin(op: &str, task: &mut Task, instance: &InstanceId, fence: Fence, at: Ms) -> Step {
    task.status = TaskStatus::Running;
    task.stage = Some(0);
    let range = Range::first(STAGES);
    task.attempt = Some(Attempt { number: 1, kind: AttemptKind::First, range, done: 0 });
    task.fence = fence;
    task.started_at = Some(at);
    let begun = Begun { range, pass: 1, instance: instance.clone(), fence };
    owner(op, task, instance, at, TaskStatus::Pending, vec![Fact::TaskStarted(begun)])
}

/// A stage is done: the boundary's one commit, with checkpoint and events.
pub(crate) fn boundary(op: &str, task: &mut Task, instance: &InstanceId, checkpoint: &mut Checkpoint, at: Ms) -> Step {
    let index = task.completed;
    checkpoint.complete(&stage(index), None, 5).unwrap_or_else(|error| panic!("{error}"));
    checkpoint.version += 1;
    checkpoint.fence = task.fence;
    checkpoint.executor_instance = Some(instance.clone());
    task.completed += 1;
    task.stage = Some(index + 1);
    let done = Fact::StageCompleted { at: At { index, stage: stage(index) }, took_ms: 5 };
    let next = Fact::StageStarted(At { index: index + 1, stage: stage(index + 1) });
    Step {
        checkpoint: CheckpointPut::Put(checkpoint.clone()),
        ..owner(op, task, instance, at, TaskStatus::Running, vec![done, next])
    }
}

/// The last stage is done: the task ends and its checkpoint goes.
pub(crate) fn complete(op: &str, task: &mut Task, instance: &InstanceId, at: Ms) -> Step {
    task.status = TaskStatus::Completed;
    task.completed = STAGES;
    task.stage = None;
    task.owner = None;
    task.ended_at = Some(at);
    let done = vec![Fact::TaskCompleted { context: None }];
    Step { checkpoint: CheckpointPut::Remove, ..owner(op, task, instance, at, TaskStatus::Running, done) }
}

/// A person's pause takes effect.
pub(crate) fn pause(op: &str, task: &mut Task, instance: &InstanceId, at: Ms) -> Step {
    task.status = TaskStatus::Paused;
    task.stage = None;
    task.owner = None;
    task.hold = Some(hold());
    owner(op, task, instance, at, TaskStatus::Running, vec![Fact::TaskPaused { cause: Cause::Person }])
}

/// A person asks for a pause.
pub(crate) fn ask_pause(op: &str, task: &Task) -> Step {
    let from = Statuses::of(&[TaskStatus::Running]);
    Step {
        ask: Some(Ask { task: task.id.clone(), from, request: Request::Pause(hold()) }),
        events: vec![about_task(task, Fact::TaskPauseRequested)],
        ..step(op, person())
    }
}

fn hold() -> Hold {
    Hold { cause: Cause::Person, by: Some(id("ada")), reason: Some(id("lunch")) }
}

fn owner(op: &str, task: &mut Task, instance: &InstanceId, at: Ms, from: TaskStatus, facts: Vec<Fact>) -> Step {
    task.updated_at = at;
    let put = TaskPut { task: task.clone(), from: Statuses::of(&[from]), version: 0, spec: None };
    Step {
        tasks: vec![put],
        events: facts.into_iter().map(|fact| about_task(task, fact)).collect(),
        ..step(op, Writer::Owner { instance: instance.clone(), fence: task.fence })
    }
}
