//! What the attempt that runs a task does at its boundaries. Pause and cancel take effect here and
//! nowhere else.

use crate::event::{At, Begun, Fact};
use crate::failure::Failure;
use crate::fence::Fence;
use crate::id::{InstanceId, StageName};
use crate::json::Json;
use crate::task::range::Range;
use crate::task::status::TaskStatus;
use crate::task::{Cause, Control, Start, Task};

/// How a stage ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Completed {
        /// How long it took.
        took_ms: u64,
    },
    /// Its `when` said no, or a person did: it counts as completed.
    Skipped,
    /// It failed after its retries.
    Failed(Failure),
    /// It is an approval: a person must decide.
    ApprovalWanted {
        /// What they are asked.
        message: String,
    },
}

/// The fact that makes a claimed task run: its first run if it is PENDING, otherwise what was asked
/// for. `None` when there is nothing to begin.
#[must_use]
pub fn begin(task: &Task, start: Option<&Start>, instance: InstanceId, fence: Fence) -> Option<Fact> {
    match start {
        Some(start) => {
            let begun = Begun { range: start.range, pass: start.pass, instance, fence };
            Some(Fact::begins(start.kind, begun))
        }
        None if task.status == TaskStatus::Pending => {
            let begun = Begun { range: Range::first(task.stages), pass: task.pass, instance, fence };
            Some(Fact::TaskStarted(begun))
        }
        None => None,
    }
}

/// The stage that comes next in the running attempt; `reverse` when a rollback runs `undo` actions.
#[must_use]
pub fn next_stage(task: &Task, reverse: bool) -> Option<u32> {
    let attempt = task.attempt?;
    let left = attempt.range.len().checked_sub(attempt.done).filter(|left| *left > 0)?;
    match task.status {
        TaskStatus::RollingBack if reverse => Some(attempt.range.from + left - 1),
        TaskStatus::RollingBack => Some(attempt.range.from + attempt.done),
        _ => (task.completed < task.stages).then_some(task.completed),
    }
}

/// What follows at a boundary, before any stage runs: the end, a pause, a cancel, or the next stage.
/// `context` is what a completed task keeps. A rollback yields to nothing: half taken back is the
/// one state nobody can work with.
#[must_use]
pub fn onward(task: &Task, stages: &[StageName], control: &Control, reverse: bool, context: Option<&Json>) -> Fact {
    let rolling = task.status == TaskStatus::RollingBack;
    let next = next_stage(task, reverse).and_then(|index| at(stages, index));
    match next {
        None if rolling => Fact::TaskRolledBack,
        None => Fact::TaskCompleted { context: context.cloned() },
        Some(at) if rolling => Fact::StageStarted(at),
        Some(_) if control.cancel.is_some() => {
            Fact::TaskCancelled { cause: control.cancel.as_ref().map_or(Cause::Person, |hold| hold.cause) }
        }
        Some(_) if control.pause.is_some() => {
            Fact::TaskPaused { cause: control.pause.as_ref().map_or(Cause::Person, |hold| hold.cause) }
        }
        Some(at) => Fact::StageStarted(at),
    }
}

/// The facts of stage `index` ending with `outcome`. What comes after it is [`onward`]'s to say,
/// except where the outcome ends the attempt.
#[must_use]
pub fn ended(task: &Task, at: At, outcome: Outcome) -> Vec<Fact> {
    match outcome {
        Outcome::Completed { took_ms } => vec![Fact::StageCompleted { at, took_ms }],
        Outcome::Skipped => vec![Fact::StageSkipped(at)],
        // Nobody is asked whether to take back what somebody has decided to take back.
        Outcome::ApprovalWanted { .. } if task.status == TaskStatus::RollingBack => vec![Fact::StageSkipped(at)],
        Outcome::ApprovalWanted { message } => {
            vec![Fact::ApprovalWanted { at, message }, Fact::TaskPaused { cause: Cause::Approval }]
        }
        Outcome::Failed(failure) => {
            let fails = match task.status {
                TaskStatus::RollingBack => Fact::TaskRollbackFailed { failure: failure.clone() },
                _ => Fact::TaskFailed { failure: failure.clone() },
            };
            vec![Fact::StageFailed { at, failure }, fails]
        }
    }
}

fn at(stages: &[StageName], index: u32) -> Option<At> {
    stages.get(index as usize).map(|stage| At { index, stage: stage.clone() })
}

#[cfg(test)]
mod tests;
