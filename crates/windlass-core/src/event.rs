//! Events: facts that happened. A projection is what follows from them.

use serde::{Deserialize, Serialize};

use crate::by::{By, Reason};
use crate::failure::Failure;
use crate::fence::Fence;
use crate::id::{InstanceId, PlanId, PlanName, StageName, TaskId, TenantId};
use crate::json::{Json, given};
use crate::plan::Tally;
use crate::task::range::Range;
use crate::task::{Cause, StartKind};
use crate::time::Ms;

/// Events kept beside a task or a plan, the newest.
pub const HISTORY_MAX: usize = 200;

/// One fact, with where, when, who and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Event {
    /// Its place among the events of its task, or of its plan if it is about the plan. The store
    /// counts, from 1; 0 until then.
    pub seq: u64,
    /// When.
    pub at: Ms,
    /// The plan.
    pub plan: PlanId,
    /// The task, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The tenant, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// What.
    pub fact: Fact,
}

impl Event {
    /// Unique in a store, and sortable within its task or plan.
    #[must_use]
    pub fn id(&self) -> String {
        match &self.task {
            Some(task) => format!("{task}:{}", self.seq),
            None => format!("{}:{}", self.plan, self.seq),
        }
    }
}

/// An attempt that goes on or begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Begun {
    /// Stages it runs.
    pub range: Range,
    /// In which pass.
    pub pass: u32,
    /// On which instance.
    pub instance: InstanceId,
    /// Under which fence.
    pub fence: Fence,
}

/// A stage by place and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct At {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub stage: StageName,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all_fields = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the names are the documentation; SPEC lists them")]
pub enum Fact {
    PlanCreated {
        name: PlanName,
        tasks: u32,
    },
    PlanStarted {
        conductor: InstanceId,
    },
    PlanPaused,
    PlanResumed {
        conductor: InstanceId,
    },
    PlanCompleted {
        tally: Tally,
    },
    PlanFailed {
        tally: Tally,
    },
    PlanCancelled {
        tally: Tally,
    },
    TaskCreated {
        position: u32,
        stages: Vec<StageName>,
    },
    TaskStarted(Begun),
    StageStarted(At),
    StageCompleted {
        at: At,
        took_ms: u64,
    },
    StageFailed {
        at: At,
        failure: Failure,
    },
    StageSkipped(At),
    TaskPauseRequested,
    TaskPaused {
        cause: Cause,
    },
    TaskResumed(Begun),
    TaskCompleted {
        #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
        context: Option<Json>,
    },
    TaskFailed {
        failure: Failure,
    },
    TaskCancelRequested,
    TaskCancelled {
        cause: Cause,
    },
    TaskRetryRequested,
    TaskRetryStarted(Begun),
    TaskRollbackRequested,
    TaskRollingBack(Begun),
    TaskRolledBack,
    TaskRollbackFailed {
        failure: Failure,
    },
    ApprovalWanted {
        at: At,
        message: String,
    },
    Approved(At),
    Rejected(At),
    LockForceReleased {
        fence: Fence,
    },
    TenantFrozen,
    TenantUnfrozen,
}

impl Fact {
    /// The name, as JSON and people write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Fact::PlanCreated { .. } => "PlanCreated",
            Fact::PlanStarted { .. } => "PlanStarted",
            Fact::PlanPaused => "PlanPaused",
            Fact::PlanResumed { .. } => "PlanResumed",
            Fact::PlanCompleted { .. } => "PlanCompleted",
            Fact::PlanFailed { .. } => "PlanFailed",
            Fact::PlanCancelled { .. } => "PlanCancelled",
            Fact::TaskCreated { .. } => "TaskCreated",
            Fact::TaskStarted(_) => "TaskStarted",
            Fact::StageStarted(_) => "StageStarted",
            Fact::StageCompleted { .. } => "StageCompleted",
            Fact::StageFailed { .. } => "StageFailed",
            Fact::StageSkipped(_) => "StageSkipped",
            Fact::TaskPauseRequested => "TaskPauseRequested",
            Fact::TaskPaused { .. } => "TaskPaused",
            Fact::TaskResumed(_) => "TaskResumed",
            Fact::TaskCompleted { .. } => "TaskCompleted",
            Fact::TaskFailed { .. } => "TaskFailed",
            Fact::TaskCancelRequested => "TaskCancelRequested",
            Fact::TaskCancelled { .. } => "TaskCancelled",
            Fact::TaskRetryRequested => "TaskRetryRequested",
            Fact::TaskRetryStarted(_) => "TaskRetryStarted",
            Fact::TaskRollbackRequested => "TaskRollbackRequested",
            Fact::TaskRollingBack(_) => "TaskRollingBack",
            Fact::TaskRolledBack => "TaskRolledBack",
            Fact::TaskRollbackFailed { .. } => "TaskRollbackFailed",
            Fact::ApprovalWanted { .. } => "ApprovalWanted",
            Fact::Approved(_) => "Approved",
            Fact::Rejected(_) => "Rejected",
            Fact::LockForceReleased { .. } => "LockForceReleased",
            Fact::TenantFrozen => "TenantFrozen",
            Fact::TenantUnfrozen => "TenantUnfrozen",
        }
    }

    /// Whether it is about a task or its tenant, not about a plan.
    #[must_use]
    pub fn is_about_task(&self) -> bool {
        !self.name().starts_with("Plan")
    }

    /// Whether it only says that something was asked for: the task stands where it stood.
    #[must_use]
    pub fn is_request(&self) -> bool {
        matches!(
            self,
            Fact::TaskPauseRequested
                | Fact::TaskCancelRequested
                | Fact::TaskRetryRequested
                | Fact::TaskRollbackRequested
        )
    }

    /// The fact that begins what a person asked for.
    #[must_use]
    pub fn begins(kind: StartKind, begun: Begun) -> Fact {
        match kind {
            StartKind::Resume => Fact::TaskResumed(begun),
            StartKind::Retry => Fact::TaskRetryStarted(begun),
            StartKind::Rollback => Fact::TaskRollingBack(begun),
        }
    }
}
