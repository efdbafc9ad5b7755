//! Tasks: one tenant's work inside a plan. This module holds what a task is; its life is in
//! [`status`], what people may do in [`command`], what the attempt that runs it does in [`advance`].

pub mod advance;
pub mod command;
pub mod detail;
pub mod range;
pub mod status;

use serde::{Deserialize, Serialize};

use crate::by::{By, Reason};
use crate::failure::Failure;
use crate::fence::Fence;
use crate::id::{InstanceId, PlanId, TaskId, TenantId};
use crate::json::{Json, given};
use crate::time::Ms;
use range::{Progress, Range};
use status::TaskStatus;

/// A task as queries read it: the projection of its events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// Its id.
    #[serde(rename = "taskId")]
    pub id: TaskId,
    /// Whose work it is.
    #[serde(rename = "tenantId")]
    pub tenant: TenantId,
    /// The plan it belongs to.
    #[serde(rename = "planId")]
    pub plan: PlanId,
    /// Its place in the plan, from 0.
    pub position: u32,
    /// Where it stands.
    pub status: TaskStatus,
    /// How many stages it has.
    pub stages: u32,
    /// Stages done in this pass, from the first on.
    pub completed: u32,
    /// The stage that has started and is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<u32>,
    /// The attempt that runs or ran last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    /// The pass: one intended carrying-out of the stages, counted from 1.
    pub pass: u32,
    /// Retries so far.
    pub retries: u32,
    /// A rollback began in this pass: only a retry from the start is possible now.
    pub taken_back: bool,
    /// Why it is PAUSED or CANCELLED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// The instance that has claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<InstanceId>,
    /// The fence of its latest attempt.
    pub fence: Fence,
    /// Not handed out before.
    pub ready_at: Ms,
    /// Created.
    pub created_at: Ms,
    /// First started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Ms>,
    /// Changed last.
    pub updated_at: Ms,
    /// Ended, and not taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Ms>,
    /// What went wrong, if it FAILED or ROLLBACK_FAILED, or was ended in an unfinished stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// What its stages returned, once it is COMPLETED.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub context: Option<Json>,
}

/// One run of a task over a range of its stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// What it is.
    pub kind: AttemptKind,
    /// What it runs.
    pub range: Range,
    /// Stages of the range that are done.
    pub done: u32,
}

/// What an attempt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttemptKind {
    /// The first run.
    First,
    /// A retry.
    Retry,
    /// Takes stages back.
    Rollback,
}

/// Why a task is held, by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hold {
    /// Why.
    pub cause: Cause,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// In their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Why a task is PAUSED or CANCELLED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Cause {
    /// A person asked for it.
    Person,
    /// Its plan was paused or cancelled.
    Plan,
    /// Its tenant is frozen.
    Freeze,
    /// An approval is wanted.
    Approval,
    /// Its tenant was locked by another plan.
    Conflict,
}

/// What others want of a task. Set beside its owner's writes and never in conflict with them: every
/// commit of the owner answers with it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Control {
    /// Pause at the next boundary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<Hold>,
    /// Cancel at the next boundary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Hold>,
    /// Pass over this stage instead of failing in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
    /// Begin this when an instance has room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// The tenant lock of this fence was taken away: the attempt under it stops at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Fence>,
}

/// Why a task waits to be handed out: in the order in which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    /// A person asked for it. It may hold a slot still, if it was interrupted.
    Asked,
    /// An instance claimed it for its first run and, if it is dead, will not begin it. It holds a slot.
    Claimed,
    /// Its turn has not come.
    Free,
}

/// Pass over a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Skip {
    /// Which.
    pub stage: u32,
    /// Who.
    pub by: By,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// Go on, or begin a new attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Start {
    /// What to do.
    pub kind: StartKind,
    /// Over which stages.
    pub range: Range,
    /// In which pass.
    pub pass: u32,
    /// Who.
    pub by: By,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// What a person asked to be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StartKind {
    /// The paused attempt goes on.
    Resume,
    /// A new attempt.
    Retry,
    /// A new attempt that takes back.
    Rollback,
}

/// One thing asked of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// See [`Control::pause`].
    Pause(Hold),
    /// Takes back a pause that has not taken effect.
    Unpause,
    /// See [`Control::cancel`].
    Cancel(Hold),
    /// See [`Control::skip`].
    Skip(Skip),
    /// See [`Control::start`].
    Start(Start),
    /// See [`Control::revoked`].
    Revoke(Fence),
}

impl Control {
    /// Adds a request to what is wanted already.
    pub fn ask(&mut self, request: Request) {
        match request {
            Request::Pause(hold) => self.pause = Some(hold),
            Request::Unpause => self.pause = None,
            Request::Cancel(hold) => self.cancel = Some(hold),
            Request::Skip(skip) => self.skip = Some(skip),
            Request::Revoke(fence) => self.revoked = Some(fence),
            // Asked of a task at rest: what was wanted of an attempt that a crash ended does not
            // carry over to the next one.
            Request::Start(start) => *self = Control { start: Some(start), ..Control::default() },
        }
    }

    /// What is still wanted once the task has gone from one status to another: one that no longer runs
    /// has nothing left to pause, cancel or skip; one that has begun anew has nothing left to start;
    /// one that stays where it rests (given back, say) is still asked for what it was asked for.
    #[must_use]
    pub fn after(self, from: TaskStatus, to: TaskStatus, begun: bool) -> Control {
        match to.is_running() {
            true if begun => Control { start: None, revoked: None, ..self },
            true => self,
            false if from == to => self,
            false => Control::default(),
        }
    }

    /// Whether the task's owner should look up from its work.
    #[must_use]
    pub fn wants_owner(&self) -> bool {
        self.pause.is_some() || self.cancel.is_some() || self.skip.is_some() || self.revoked.is_some()
    }

    /// Whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Control::default()
    }
}

impl Task {
    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { stages: self.stages, completed: self.completed, started: self.stage.is_some() }
    }

    /// Why it waits to be handed to an instance, given what others want of it; `None` if it does not.
    /// Whether an owner it still has is alive is for the store to say.
    #[must_use]
    pub fn readiness(&self, control: &Control) -> Option<Readiness> {
        match (&control.start, self.status, &self.owner) {
            (Some(_), _, _) => Some(Readiness::Asked),
            (None, TaskStatus::Pending, Some(_)) => Some(Readiness::Claimed),
            (None, TaskStatus::Pending, None) => Some(Readiness::Free),
            _ => None,
        }
    }

    /// Whether it takes one of its plan's slots.
    #[must_use]
    pub fn takes_slot(&self) -> bool {
        self.owner.is_some()
    }
}

#[cfg(test)]
mod tests;
