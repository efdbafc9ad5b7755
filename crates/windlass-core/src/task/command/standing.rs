//! Where a task stands when somebody wants something of it, and what it would take.

use crate::checkpoint::Checkpoint;
use crate::id::StageName;
use crate::task::range::Range;
use crate::task::status::TaskStatus;
use crate::task::{Attempt, AttemptKind, Cause, Control, Task};
use crate::time::Ms;

/// Everything a decision about a task depends on.
#[derive(Debug, Clone)]
pub struct Standing<'a> {
    /// The task.
    pub task: &'a Task,
    /// What is already wanted of it.
    pub control: &'a Control,
    /// Whether its owner's lease has expired.
    pub lease_expired: bool,
    /// Whether it is the tenant's latest started task.
    pub latest: bool,
    /// Whether its tenant is frozen.
    pub frozen: bool,
    /// Its stages' names.
    pub stages: &'a [StageName],
    /// Its checkpoint.
    pub checkpoint: Option<&'a Checkpoint>,
    /// Until when a checkpoint of an ended task is kept.
    pub kept_until: Option<Ms>,
    /// Whether it has `previous`, or a stage with `undo`.
    pub can_take_back: bool,
    /// Retries, at most; 0 is no limit.
    pub retry_limit: u32,
}

impl Standing<'_> {
    /// RUNNING or ROLLING_BACK with nobody alive who runs it.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.task.status.is_running() && self.lease_expired
    }

    fn cause(&self) -> Option<Cause> {
        self.task.hold.as_ref().map(|hold| hold.cause)
    }

    pub(super) fn wants_approval(&self) -> bool {
        self.task.status == TaskStatus::Paused && self.cause() == Some(Cause::Approval)
    }

    pub(super) fn was_skipped(&self) -> bool {
        self.task.status == TaskStatus::Cancelled && self.cause() == Some(Cause::Conflict)
    }

    /// Where it stands, in words.
    #[must_use]
    pub fn state(&self) -> String {
        let status = self.task.status;
        let asked = self.control.start.as_ref().map(|start| start.kind.verb());
        match () {
            () if self.interrupted() => format!("{status}, interrupted"),
            () if asked.is_some() => format!("{status}, {} asked for", asked.unwrap_or_default()),
            () if self.wants_approval() => format!("{status}, approval wanted"),
            () if self.was_skipped() => format!("{status}, skipped because of a conflict"),
            () if self.control.cancel.is_some() => format!("{status}, cancelling"),
            () if self.control.pause.is_some() => format!("{status}, pausing"),
            () => status.name().to_owned(),
        }
    }

    /// The commands that this state takes, by name.
    #[must_use]
    pub fn possible(&self) -> Vec<&'static str> {
        use TaskStatus::{
            Cancelled, Completed, Failed, Paused, Pending, RollbackFailed, RolledBack, RollingBack, Running,
        };
        let mut list = match self.task.status {
            Pending => vec!["cancel"],
            Running if self.interrupted() => vec!["retry", "rollback", "cancel", "skip-stage"],
            Running if self.control.cancel.is_some() => vec!["skip-stage"],
            Running if self.control.pause.is_some() => vec!["resume", "cancel", "skip-stage"],
            Running => vec!["pause", "cancel", "skip-stage"],
            Paused if self.wants_approval() => vec!["approve", "reject", "cancel"],
            Paused => vec!["resume", "cancel", "rollback", "skip-stage"],
            Completed => vec!["rollback"],
            Failed => vec!["retry", "rollback", "skip-stage"],
            Cancelled if self.was_skipped() => vec!["retry"],
            Cancelled => vec!["rollback"],
            RollingBack if self.interrupted() => vec!["rollback", "retry"],
            RollingBack => vec![],
            RolledBack => vec!["retry"],
            RollbackFailed => vec!["rollback", "retry"],
        };
        list.retain(|verb| match *verb {
            "cancel" => true,
            _ if self.control.start.is_some() => false,
            "rollback" => self.can_take_back && !self.rollback_range().is_empty(),
            "skip-stage" => self.task.completed < self.task.stages,
            _ => true,
        });
        list
    }

    /// What a rollback takes back: what ran, or the same again after a rollback that did not end well.
    pub(super) fn rollback_range(&self) -> Range {
        match self.task.attempt {
            Some(Attempt { kind: AttemptKind::Rollback, range, .. }) => range,
            _ => Range::rollback(self.task.progress()),
        }
    }
}
