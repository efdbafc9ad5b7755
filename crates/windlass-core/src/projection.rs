//! Projections: the state that queries read, derived from events by pure functions. A commit writes
//! events and projection together, so there is no lag and nothing to reconcile.

use crate::event::{Begun, Event, Fact};
use crate::fence::Fence;
use crate::plan::spec::PlanSpec;
use crate::plan::{self, Plan, PlanMove, PlanStatus};
use crate::task::status::{Move, TaskStatus, after};
use crate::task::{Attempt, AttemptKind, Cause, Hold, Task};
use crate::time::Ms;

/// An event that does not fit the state it is applied to: a bug or a damaged history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{event} cannot follow {state}")]
pub struct Misfit {
    /// The event.
    pub event: &'static str,
    /// The state it met.
    pub state: String,
}

/// A task after `event`; `None` before its creation.
pub fn apply(task: Option<Task>, event: &Event) -> Result<Task, Misfit> {
    let Some(mut task) = task else {
        return created(event).ok_or_else(|| misfit(event, "nothing"));
    };
    let by = match &event.fact {
        Fact::TaskStarted(_) => Some(Move::Start),
        Fact::TaskPaused { .. } => Some(Move::Pause),
        Fact::TaskResumed(_) => Some(Move::Resume),
        Fact::TaskCompleted { .. } => Some(Move::Complete),
        Fact::TaskFailed { .. } => Some(Move::Fail),
        Fact::TaskCancelled { .. } => Some(Move::Cancel),
        Fact::TaskRetryStarted(_) => Some(Move::Retry),
        Fact::TaskRollingBack(_) => Some(Move::Rollback),
        Fact::TaskRolledBack => Some(Move::FinishRollback),
        Fact::TaskRollbackFailed { .. } => Some(Move::FailRollback),
        _ => None,
    };
    if !fits(&task, &event.fact) {
        return Err(misfit(event, &standing(&task)));
    }
    if let Some(by) = by {
        let to = after(task.status, by).ok_or_else(|| misfit(event, task.status.name()))?;
        settle(&mut task, to, event.at);
    }
    task.updated_at = event.at;
    detail(&mut task, event)?;
    Ok(task)
}

/// Whether a fact may be about a task that stands here, beyond what the table says of its status.
fn fits(task: &Task, fact: &Fact) -> bool {
    let runs = task.status.is_running();
    match fact {
        Fact::TaskCreated { .. } => false,
        Fact::StageStarted(at) | Fact::StageFailed { at, .. } => match task.attempt {
            Some(Attempt { range, done, .. }) if task.status == TaskStatus::RollingBack => {
                done < range.len() && at.index < range.to
            }
            _ => runs && at.index == task.completed && at.index < task.stages,
        },
        Fact::StageCompleted { .. } => runs,
        Fact::TaskPauseRequested | Fact::TaskCancelRequested | Fact::ApprovalWanted { .. } => {
            task.status == TaskStatus::Running
        }
        Fact::TaskRetryRequested | Fact::TaskRollbackRequested => runs,
        Fact::StageSkipped(_) => runs || matches!(task.status, TaskStatus::Paused | TaskStatus::Failed),
        Fact::Approved(_) | Fact::Rejected(_) => {
            task.status == TaskStatus::Paused && cause(task) == Some(Cause::Approval)
        }
        Fact::TaskCompleted { .. } => task.completed == task.stages,
        Fact::TaskRolledBack => task.attempt.is_some_and(|attempt| attempt.done == attempt.range.len()),
        Fact::TaskRetryStarted(_) => task.status != TaskStatus::Cancelled || cause(task) == Some(Cause::Conflict),
        fact => fact.is_about_task(),
    }
}

fn cause(task: &Task) -> Option<Cause> {
    task.hold.as_ref().map(|hold| hold.cause)
}

fn standing(task: &Task) -> String {
    let done = match task.attempt {
        Some(attempt) if task.status == TaskStatus::RollingBack => format!("{} taken back", attempt.done),
        _ => format!("{} stages done of {}", task.completed, task.stages),
    };
    format!("{}, {done}", task.status)
}

fn misfit(event: &Event, state: &str) -> Misfit {
    Misfit { event: event.fact.name(), state: state.to_owned() }
}

fn created(event: &Event) -> Option<Task> {
    let Fact::TaskCreated { position, stages } = &event.fact else { return None };
    Some(Task {
        id: event.task.clone()?,
        tenant: event.tenant.clone()?,
        plan: event.plan.clone(),
        position: *position,
        status: TaskStatus::Pending,
        stages: u32::try_from(stages.len()).ok()?,
        completed: 0,
        stage: None,
        attempt: None,
        pass: 1,
        retries: 0,
        taken_back: false,
        hold: None,
        owner: None,
        fence: Fence::NONE,
        ready_at: Ms::ZERO,
        created_at: event.at,
        started_at: None,
        updated_at: event.at,
        ended_at: None,
        failure: None,
        context: None,
    })
}

/// What every change of status brings: who runs gives up or keeps the task, and when it ended.
fn settle(task: &mut Task, to: TaskStatus, at: Ms) {
    task.status = to;
    task.hold = None;
    if to.is_running() {
        task.failure = None;
    } else {
        task.owner = None;
        task.ready_at = Ms::ZERO;
    }
    task.ended_at = (!to.is_active()).then_some(at);
}

fn detail(task: &mut Task, event: &Event) -> Result<(), Misfit> {
    let hold = |cause| Some(Hold { cause, by: event.by.clone(), reason: event.reason.clone() });
    match &event.fact {
        Fact::TaskStarted(begun) => begin(task, begun, AttemptKind::First, event.at),
        Fact::TaskRetryStarted(begun) => {
            begin(task, begun, AttemptKind::Retry, event.at);
            task.completed = begun.range.from;
            task.taken_back = false;
            task.retries += 1;
        }
        Fact::TaskRollingBack(begun) => {
            begin(task, begun, AttemptKind::Rollback, event.at);
            task.taken_back = true;
        }
        Fact::TaskResumed(begun) => {
            task.owner = Some(begun.instance.clone());
            task.fence = begun.fence;
        }
        Fact::StageStarted(at) => task.stage = Some(at.index),
        Fact::StageFailed { failure, .. } => task.failure = Some(failure.clone()),
        Fact::StageCompleted { at, .. } | Fact::StageSkipped(at) => done(task, at.index, event)?,
        Fact::Approved(at) => {
            done(task, at.index, event)?;
            task.hold = None;
        }
        Fact::TaskPaused { cause } | Fact::TaskCancelled { cause } => {
            // At a boundary the next stage may be announced, and has not run. One that failed has.
            task.stage = task.stage.filter(|_| task.failure.is_some());
            task.hold = hold(*cause);
        }
        Fact::TaskCompleted { context } => {
            task.stage = None;
            task.context = context.clone();
        }
        Fact::TaskRolledBack => task.stage = None,
        Fact::TaskFailed { failure } | Fact::TaskRollbackFailed { failure } => task.failure = Some(failure.clone()),
        _ => {}
    }
    Ok(())
}

fn begin(task: &mut Task, begun: &Begun, kind: AttemptKind, at: Ms) {
    let number = task.attempt.map_or(1, |attempt| attempt.number + 1);
    task.attempt = Some(Attempt { number, kind, range: begun.range, done: 0 });
    task.pass = begun.pass;
    task.owner = Some(begun.instance.clone());
    task.fence = begun.fence;
    task.context = None;
    task.stage = None;
    task.started_at = task.started_at.or(Some(at));
}

/// A stage is done: forward progress in a run, the rollback's own progress in a rollback.
fn done(task: &mut Task, index: u32, event: &Event) -> Result<(), Misfit> {
    let fits = match task.attempt {
        // In order, or in reverse order when `undo` actions run.
        Some(Attempt { range, done, .. }) if task.status == TaskStatus::RollingBack => {
            done < range.len() && (index == range.from + done || index + 1 + done == range.to)
        }
        _ => index == task.completed && index < task.stages,
    };
    if !fits {
        return Err(misfit(event, &standing(task)));
    }
    if task.status != TaskStatus::RollingBack {
        task.completed = index + 1;
    }
    if task.status.is_running() {
        task.failure = None;
    }
    task.stage = None;
    if let Some(attempt) = &mut task.attempt {
        attempt.done += 1;
    }
    Ok(())
}

/// A plan after `event`; `None` before its creation, for which `spec` is asked.
pub fn apply_plan(plan: Option<Plan>, spec: &PlanSpec, event: &Event) -> Result<Plan, Misfit> {
    let Some(mut plan) = plan else {
        return match &event.fact {
            Fact::PlanCreated { name, tasks } => Ok(Plan {
                id: event.plan.clone(),
                name: name.clone(),
                status: PlanStatus::Ready,
                tasks: *tasks,
                max_concurrency: spec.max_concurrency,
                on_failure: spec.on_failure,
                on_conflict: spec.on_conflict,
                recovery: spec.recovery,
                conductor: None,
                cancelled: false,
                created_at: event.at,
                started_at: None,
                updated_at: event.at,
                ended_at: None,
            }),
            _ => Err(misfit(event, "nothing")),
        };
    };
    let (by, conductor) = match &event.fact {
        Fact::PlanStarted { conductor } => (PlanMove::Start, Some(conductor.clone())),
        Fact::PlanResumed { conductor } if plan.status.is_final() => (PlanMove::Reopen, Some(conductor.clone())),
        Fact::PlanResumed { conductor } => (PlanMove::Resume, Some(conductor.clone())),
        Fact::PlanPaused => (PlanMove::Pause, None),
        Fact::PlanCompleted { .. } => (PlanMove::Complete, None),
        Fact::PlanFailed { .. } => (PlanMove::Fail, None),
        Fact::PlanCancelled { .. } => (PlanMove::Cancel, None),
        _ => return Err(misfit(event, plan.status.name())),
    };
    let to = plan::after(plan.status, by).ok_or_else(|| misfit(event, plan.status.name()))?;
    // Once reopened it may be cancelled again.
    plan.cancelled = (plan.cancelled && !plan.status.is_final()) || by == PlanMove::Cancel;
    plan.status = to;
    plan.conductor = conductor;
    plan.updated_at = event.at;
    if to == PlanStatus::Running {
        plan.started_at = plan.started_at.or(Some(event.at));
    }
    plan.ended_at = to.is_final().then_some(event.at);
    Ok(plan)
}

#[cfg(test)]
mod tests;
