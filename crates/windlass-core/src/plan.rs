//! Plans: a batch of work over tenants. Its life as one table, its outcome, who may conduct it.

pub mod command;
pub mod file;
pub mod spec;

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, PlanId, PlanName};
use crate::task::status::TaskStatus;
use crate::time::Ms;
use spec::{OnConflict, OnFailure, Recovery};

/// A plan as queries read it. Its progress is computed from its tasks, never stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// Its id.
    #[serde(rename = "planId")]
    pub id: PlanId,
    /// What it is called.
    pub name: PlanName,
    /// Where it stands.
    pub status: PlanStatus,
    /// How many tasks it has.
    pub tasks: u32,
    /// Tasks at once, over all instances.
    pub max_concurrency: u32,
    /// A task failed.
    pub on_failure: OnFailure,
    /// A tenant is locked by another plan.
    pub on_conflict: OnConflict,
    /// After a crash.
    pub recovery: Recovery,
    /// The instance that drives it, while it is RUNNING.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conductor: Option<InstanceId>,
    /// A person cancelled it; it ends when nothing of it is active.
    pub cancelled: bool,
    /// Created.
    pub created_at: Ms,
    /// First started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Ms>,
    /// Changed last.
    pub updated_at: Ms,
    /// Ended, and not taken up again: retention counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Ms>,
}

impl Plan {
    /// Whether a task of it may ever wait for a slot that another has.
    #[must_use]
    pub const fn is_short_of_slots(&self) -> bool {
        self.tasks > self.max_concurrency
    }

    /// Written without an event: one of its tasks is asked for, which keeps it from ending meanwhile, or it is to be
    /// cancelled. Whoever looks sees that it was.
    #[must_use]
    pub fn touched(&self, now: Ms) -> Plan {
        Plan { updated_at: now.max(self.updated_at.plus(1)), ..self.clone() }
    }
}

/// Where a plan stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PlanStatus {
    /// Created, not started.
    Ready,
    /// Its tasks are handed out.
    Running,
    /// No further task is handed out.
    Paused,
    /// Every task is COMPLETED.
    Completed,
    /// Nothing is active any more, and not every task is COMPLETED.
    Failed,
    /// A person cancelled it, and nothing is active any more.
    Cancelled,
}

use PlanStatus::{Cancelled, Completed, Failed, Paused, Ready, Running};

/// What may happen to a plan's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanMove {
    /// A person starts it.
    Start,
    /// A person, or `on_failure: pause`, pauses it.
    Pause,
    /// A person resumes it; or an instance takes it over.
    Resume,
    /// Nothing is active any more, every task is COMPLETED.
    Complete,
    /// Nothing is active any more, some task is not.
    Fail,
    /// Nothing is active any more, and a person cancelled it.
    Cancel,
    /// One of its tasks is retried or rolled back.
    Reopen,
}

/// The table. A move that is not here does not exist.
#[must_use]
pub const fn after(from: PlanStatus, by: PlanMove) -> Option<PlanStatus> {
    Some(match (from, by) {
        (Ready, PlanMove::Start) => Running,
        (Running, PlanMove::Pause) => Paused,
        (Paused | Running, PlanMove::Resume) => Running,
        (Running | Paused, PlanMove::Complete) => Completed,
        (Running | Paused, PlanMove::Fail) => Failed,
        (Ready | Running | Paused, PlanMove::Cancel) => Cancelled,
        (Completed | Failed | Cancelled | Running, PlanMove::Reopen) => Running,
        _ => return None,
    })
}

impl PlanMove {
    /// Every move.
    pub const ALL: [PlanMove; 7] = [
        PlanMove::Start,
        PlanMove::Pause,
        PlanMove::Resume,
        PlanMove::Complete,
        PlanMove::Fail,
        PlanMove::Cancel,
        PlanMove::Reopen,
    ];
}

impl PlanStatus {
    /// Every status, in the order of a plan's life.
    pub const ALL: [PlanStatus; 6] = [Ready, Running, Paused, Completed, Failed, Cancelled];

    /// The name that people, JSON and databases see.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Ready => "READY",
            Running => "RUNNING",
            Paused => "PAUSED",
            Completed => "COMPLETED",
            Failed => "FAILED",
            Cancelled => "CANCELLED",
        }
    }

    /// Whether it has ended, unless one of its tasks is taken up again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Completed | Failed | Cancelled)
    }

    /// Whether a plan that stood in `self` may be stored as `to`: by the table, or unchanged.
    #[must_use]
    pub fn may_become(self, to: PlanStatus) -> bool {
        (self == to && !self.is_final()) || PlanMove::ALL.iter().any(|by| after(self, *by) == Some(to))
    }
}

impl std::fmt::Display for PlanStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How many of a plan's tasks stand where, in the order of [`TaskStatus::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tally([u32; TaskStatus::ALL.len()]);

impl Tally {
    /// Counts one more.
    pub fn add(&mut self, status: TaskStatus, n: u32) {
        self.0[status as usize] += n;
    }

    /// How many stand there.
    #[must_use]
    pub fn of(&self, status: TaskStatus) -> u32 {
        self.0[status as usize]
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// How many may still move by themselves or wait for a person to go on.
    #[must_use]
    pub fn active(&self) -> u32 {
        TaskStatus::ALL.iter().filter(|status| status.is_active()).map(|status| self.of(*status)).sum()
    }
}

/// How a plan ends, once nothing of it is active any more.
#[must_use]
pub fn outcome(tally: &Tally, cancelled: bool) -> Option<PlanMove> {
    match tally.active() {
        0 if cancelled => Some(PlanMove::Cancel),
        0 if tally.of(TaskStatus::Completed) == tally.total() => Some(PlanMove::Complete),
        0 => Some(PlanMove::Fail),
        _ => None,
    }
}

/// Whether an instance that has been up since `up_since` may take a running plan over from a
/// conductor whose lease ended at `lease_until`: only one that was up when the conductor died, so
/// that a restart moves nothing; with `recovery: auto` any.
#[must_use]
pub fn may_conduct(recovery: Recovery, lease_until: Ms, up_since: Ms, now: Ms) -> bool {
    lease_until <= now && (recovery == Recovery::Auto || up_since < lease_until)
}

#[cfg(test)]
mod tests;
