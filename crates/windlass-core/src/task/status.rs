//! The life of a task as one table. Everything that changes a status asks it, the stores included.

use serde::{Deserialize, Serialize};

/// Where a task stands. *Interrupted* is not a status but a reading: RUNNING or ROLLING_BACK whose
/// instance's lease has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskStatus {
    /// Created; its turn has not come.
    Pending,
    /// An instance runs its stages.
    Running,
    /// Stopped between two stages, its place and its lock kept.
    Paused,
    /// Every stage is done.
    Completed,
    /// A stage failed after its retries, or a person rejected it.
    Failed,
    /// A person, or a conflict, ended it.
    Cancelled,
    /// An instance takes its stages back.
    RollingBack,
    /// Its stages are taken back.
    RolledBack,
    /// Taking back failed.
    RollbackFailed,
}

use TaskStatus::{Cancelled, Completed, Failed, Paused, Pending, RollbackFailed, RolledBack, RollingBack, Running};

/// What may happen to a task's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Its turn came and the tenant lock was granted.
    Start,
    /// A pause was asked for, or an approval stage begins; at the boundary.
    Pause,
    /// Resumed or approved.
    Resume,
    /// The last stage is done.
    Complete,
    /// A stage failed after its retries, or was rejected.
    Fail,
    /// Cancelled, at the boundary.
    Cancel,
    /// A new attempt over the stages.
    Retry,
    /// A new attempt that takes stages back.
    Rollback,
    /// The rollback is done.
    FinishRollback,
    /// The rollback failed.
    FailRollback,
}

/// The table. A move that is not here does not exist. Two entries hold on a condition that
/// `decide` asks for: RUNNING and ROLLING_BACK leave by `Retry` or `Rollback` only when
/// interrupted, CANCELLED by `Retry` only when a conflict skipped it.
#[must_use]
pub const fn after(from: TaskStatus, by: Move) -> Option<TaskStatus> {
    Some(match (from, by) {
        (Pending, Move::Start) => Running,
        (Running, Move::Pause) => Paused,
        (Paused, Move::Resume) => Running,
        (Running, Move::Complete) => Completed,
        (Running | Paused, Move::Fail) => Failed,
        (Pending | Running | Paused, Move::Cancel) => Cancelled,
        (Failed | RolledBack | RollbackFailed | Running | RollingBack | Cancelled, Move::Retry) => Running,
        (Completed | Failed | Paused | Cancelled | RollbackFailed | Running | RollingBack, Move::Rollback) => {
            RollingBack
        }
        (RollingBack, Move::FinishRollback) => RolledBack,
        (RollingBack, Move::FailRollback) => RollbackFailed,
        _ => return None,
    })
}

impl Move {
    /// Every move.
    pub const ALL: [Move; 10] = [
        Move::Start,
        Move::Pause,
        Move::Resume,
        Move::Complete,
        Move::Fail,
        Move::Cancel,
        Move::Retry,
        Move::Rollback,
        Move::FinishRollback,
        Move::FailRollback,
    ];
}

impl TaskStatus {
    /// Every status, in the order of a task's life.
    pub const ALL: [TaskStatus; 9] =
        [Pending, Running, Paused, Completed, Failed, Cancelled, RollingBack, RolledBack, RollbackFailed];

    /// The name that people, JSON and databases see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Pending => "PENDING",
            Running => "RUNNING",
            Paused => "PAUSED",
            Completed => "COMPLETED",
            Failed => "FAILED",
            Cancelled => "CANCELLED",
            RollingBack => "ROLLING_BACK",
            RolledBack => "ROLLED_BACK",
            RollbackFailed => "ROLLBACK_FAILED",
        }
    }

    /// Whether an instance carries it out.
    #[must_use]
    pub const fn is_running(self) -> bool {
        matches!(self, Running | RollingBack)
    }

    /// Whether it may still move without a person beginning a new attempt: what holds its plan open.
    #[must_use]
    pub const fn is_active(self) -> bool {
        matches!(self, Pending | Running | Paused | RollingBack)
    }

    /// Whether a task that stood in `self` may be stored as `to`: by a move of the table, or because it
    /// stays where it is. One that runs comes to a boundary; one that rests, ended ones included, gets a
    /// new config, or is claimed for an attempt and given back because its tenant is locked.
    #[must_use]
    pub fn may_become(self, to: TaskStatus) -> bool {
        self == to || Move::ALL.iter().any(|by| after(self, *by) == Some(to))
    }
}

impl std::fmt::Display for TaskStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of statuses: what a write expects to find, what a list asks for.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Statuses(u16);

impl Statuses {
    /// None of them.
    pub const NONE: Statuses = Statuses(0);
    /// All of them.
    pub const ALL: Statuses = Statuses((1 << TaskStatus::ALL.len()) - 1);

    /// Just these.
    #[must_use]
    pub const fn of(list: &[TaskStatus]) -> Statuses {
        let (mut set, mut i) = (0, 0);
        while i < list.len() {
            set |= 1 << list[i] as u16;
            i += 1;
        }
        Statuses(set)
    }

    /// Whether `status` is one of them.
    #[must_use]
    pub const fn has(self, status: TaskStatus) -> bool {
        self.0 & (1 << status as u16) != 0
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// They, one after the other.
    pub fn iter(self) -> impl Iterator<Item = TaskStatus> {
        TaskStatus::ALL.into_iter().filter(move |status| self.has(*status))
    }

    /// Those from which `by` leads somewhere.
    #[must_use]
    pub fn that_may(by: Move) -> Statuses {
        TaskStatus::ALL.into_iter().filter(|from| after(*from, by).is_some()).collect()
    }
}

impl FromIterator<TaskStatus> for Statuses {
    fn from_iter<I: IntoIterator<Item = TaskStatus>>(all: I) -> Self {
        Statuses(all.into_iter().fold(0, |set, status| set | 1 << status as u16))
    }
}

impl std::fmt::Debug for Statuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl std::fmt::Display for Statuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, status) in self.iter().enumerate() {
            write!(f, "{}{status}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
