//! Tasks, their checkpoints, and what is wanted of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use windlass_core::checkpoint;
use windlass_core::failure::{self, FailureKind};
use windlass_core::json::Json;
use windlass_core::port::state::TaskRow;
use windlass_core::task::range::Range;
use windlass_core::task::{self, AttemptKind, Cause, StartKind};
use windlass_engine::command;
use windlass_engine::query::view::TaskView;

use super::lock::{Freeze, Holder};
use crate::schema::{Any, Time};

/// A task, and what is wanted of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Task {
    task_id: String,
    tenant_id: String,
    plan_id: String,
    /// Its place in the plan, from 0.
    position: u32,
    /// PENDING, RUNNING, PAUSED, COMPLETED, FAILED, CANCELLED, ROLLING_BACK, ROLLED_BACK or ROLLBACK_FAILED.
    status: &'static str,
    /// How many stages it has.
    stages: u32,
    /// Stages done in this pass.
    completed: u32,
    /// The stage that has started and is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<Attempt>,
    pass: u32,
    retries: u32,
    /// A rollback began in this pass.
    taken_back: bool,
    /// Why it is PAUSED or CANCELLED.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<Hold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    fence: u64,
    ready_at: Time,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    /// What its stages returned, once it is COMPLETED.
    #[schemars(with = "Any")]
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Json>,
    control: Control,
    /// A pause was asked for and has not taken effect.
    pause_requested: bool,
}

impl Task {
    fn new(task: &task::Task, control: &task::Control) -> Task {
        Task {
            task_id: task.id.to_string(),
            tenant_id: task.tenant.to_string(),
            plan_id: task.plan.to_string(),
            position: task.position,
            status: task.status.name(),
            stages: task.stages,
            completed: task.completed,
            stage: task.stage,
            attempt: task.attempt.map(Attempt::from),
            pass: task.pass,
            retries: task.retries,
            taken_back: task.taken_back,
            hold: task.hold.as_ref().map(Hold::from),
            owner: task.owner.as_ref().map(ToString::to_string),
            fence: task.fence.0,
            ready_at: Time(task.ready_at),
            created_at: Time(task.created_at),
            started_at: task.started_at.map(Time),
            updated_at: Time(task.updated_at),
            ended_at: task.ended_at.map(Time),
            failure: task.failure.as_ref().map(Failure::from),
            context: task.context.clone(),
            pause_requested: control.pause.is_some(),
            control: control.into(),
        }
    }
}

impl From<&TaskRow> for Task {
    fn from(row: &TaskRow) -> Task {
        Task::new(&row.task, &row.control)
    }
}

/// A task, what is wanted of it, and what it has.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskDetail {
    #[serde(flatten)]
    task: Task,
    /// RUNNING or ROLLING_BACK, and nobody alive runs it.
    interrupted: bool,
    /// Whether the store has what is shown.
    durable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Checkpoint>,
    /// Who holds its tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze: Option<Freeze>,
}

impl From<&TaskView> for TaskDetail {
    fn from(view: &TaskView) -> TaskDetail {
        TaskDetail {
            task: Task::new(&view.task, &view.control),
            interrupted: view.interrupted,
            durable: view.durable,
            checkpoint: view.checkpoint.as_ref().map(Checkpoint::from),
            lock: view.lock.as_ref().map(Holder::from),
            freeze: view.freeze.as_ref().map(Freeze::from),
        }
    }
}

/// One run of a task over a range of its stages.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Attempt {
    number: u32,
    /// FIRST, RETRY or ROLLBACK.
    #[schemars(with = "String")]
    kind: AttemptKind,
    range: Stages,
    /// Stages of the range that are done.
    done: u32,
}

impl From<task::Attempt> for Attempt {
    fn from(attempt: task::Attempt) -> Attempt {
        let task::Attempt { number, kind, range, done } = attempt;
        Attempt { number, kind, range: range.into(), done }
    }
}

/// Stages `from` up to but not including `to`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Stages {
    from: u32,
    to: u32,
}

impl From<Range> for Stages {
    fn from(range: Range) -> Stages {
        Stages { from: range.from, to: range.to }
    }
}

/// Why a task is held, by whom.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Hold {
    /// PERSON, PLAN, FREEZE, APPROVAL or CONFLICT.
    #[schemars(with = "String")]
    cause: Cause,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<&task::Hold> for Hold {
    fn from(hold: &task::Hold) -> Hold {
        Hold {
            cause: hold.cause,
            by: hold.by.as_ref().map(ToString::to_string),
            reason: hold.reason.as_ref().map(ToString::to_string),
        }
    }
}

/// What people want of a task and has not taken effect.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Control {
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<Hold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<Hold>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skip: Option<Skip>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    /// The tenant lock of this fence was taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<u64>,
}

impl From<&task::Control> for Control {
    fn from(control: &task::Control) -> Control {
        Control {
            pause: control.pause.as_ref().map(Hold::from),
            cancel: control.cancel.as_ref().map(Hold::from),
            skip: control.skip.as_ref().map(|skip| Skip { stage: skip.stage, by: skip.by.to_string() }),
            start: control.start.as_ref().map(|start| Start {
                kind: start.kind,
                range: start.range.into(),
                by: start.by.to_string(),
            }),
            revoked: control.revoked.map(|fence| fence.0),
        }
    }
}

/// Pass over a stage.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Skip {
    stage: u32,
    by: String,
}

/// Begin this when an instance has room.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Start {
    /// RESUME, RETRY or ROLLBACK.
    #[schemars(with = "String")]
    kind: StartKind,
    range: Stages,
    by: String,
}

/// What went wrong in a stage.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// STAGE, TIMEOUT, TEMPLATE, REJECTED, PERSISTENCE or INTERRUPTED.
    #[schemars(with = "String")]
    kind: FailureKind,
    message: String,
    stage: String,
    attempt: u32,
    at: Time,
}

impl From<&failure::Failure> for Failure {
    fn from(failure: &failure::Failure) -> Failure {
        Failure {
            kind: failure.kind,
            message: failure.message.clone(),
            stage: failure.stage.to_string(),
            attempt: failure.attempt,
            at: Time(failure.at),
        }
    }
}

/// What a task has finished.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Checkpoint {
    /// −1: none.
    last_completed_stage_index: i32,
    completed_stages: Vec<String>,
    /// What stages returned, by name.
    #[schemars(with = "Any")]
    context_data: Json,
    saved_at: Time,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_instance: Option<String>,
    fence: u64,
    pass: u32,
    /// How long stages took, in milliseconds.
    stage_durations: BTreeMap<String, u64>,
    failure_history: Vec<Failure>,
}

impl From<&checkpoint::Checkpoint> for Checkpoint {
    fn from(kept: &checkpoint::Checkpoint) -> Checkpoint {
        Checkpoint {
            last_completed_stage_index: kept.last_completed_stage_index,
            completed_stages: kept.completed_stages.iter().map(ToString::to_string).collect(),
            context_data: kept.context_data.clone(),
            saved_at: Time(kept.saved_at),
            version: kept.version,
            executor_instance: kept.executor_instance.as_ref().map(ToString::to_string),
            fence: kept.fence.0,
            pass: kept.pass,
            stage_durations: kept.stage_durations.iter().map(|(name, ms)| (name.to_string(), *ms)).collect(),
            failure_history: kept.failure_history.iter().map(Failure::from).collect(),
        }
    }
}

/// What an operation came to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Done {
    plan: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    /// Where it stands with it.
    state: String,
    /// It takes effect at the next boundary, or when an instance has room.
    asked: bool,
    /// The stages that will run.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<Stages>,
    /// An invalid checkpoint was discarded, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    discarded: Option<String>,
    /// Of a dry run: what would happen.
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<Preview>,
}

/// What a dry run shows beside the answer.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Preview {
    /// What would run, in order.
    stages: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<Checkpoint>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<Holder>,
}

impl From<&command::Done> for Done {
    fn from(done: &command::Done) -> Done {
        Done {
            plan: done.plan.to_string(),
            task: done.task.as_ref().map(ToString::to_string),
            state: done.state.clone(),
            asked: done.asked,
            range: done.range.map(Stages::from),
            discarded: done.discarded.clone(),
            preview: done.preview.as_ref().map(|preview| Preview {
                stages: preview.stages.iter().map(ToString::to_string).collect(),
                checkpoint: preview.checkpoint.as_ref().map(Checkpoint::from),
                lock: preview.lock.as_ref().map(Holder::from),
            }),
        }
    }
}
