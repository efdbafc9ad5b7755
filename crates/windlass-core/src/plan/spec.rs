//! What a plan asks for, as its author wrote it and as it is stored: it does not change afterwards,
//! except that a retry may bring a new `config`.

use serde::{Deserialize, Serialize};

use crate::id::{PlanId, PlanName, TenantId};
use crate::json::{Json, given};
use crate::stage::Stage;

/// Tasks in one plan, at most.
pub const TASKS_MAX: usize = 10_000;
/// Tasks at once unless the plan says otherwise.
pub const CONCURRENCY: u32 = 10;
/// Retries of one task unless somebody says otherwise; 0 is no limit.
pub const RETRY_LIMIT: u32 = 3;

/// A whole plan file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFile {
    /// What it is called.
    pub name: PlanName,
    /// The id, if the author chose one.
    pub id: Option<PlanId>,
    /// What holds for all its tasks.
    pub spec: PlanSpec,
    /// One for each tenant, in order.
    pub tasks: Vec<TaskFile>,
}

/// One tenant in a plan file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFile {
    /// Whose.
    pub tenant: TenantId,
    /// What is particular to it.
    pub spec: TaskSpec,
}

/// What holds for all tasks of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PlanSpec {
    /// Tasks at once, over all instances.
    pub max_concurrency: u32,
    /// A tenant is locked by another plan.
    pub on_conflict: OnConflict,
    /// A task failed.
    pub on_failure: OnFailure,
    /// After a crash.
    pub recovery: Recovery,
    /// Retries of one task; the server's default unless given; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_limit: Option<u32>,
    /// The stages of every task that has none of its own.
    pub stages: Vec<Stage>,
}

/// What is particular to one task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskSpec {
    /// What the stages work with.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub config: Option<Json>,
    /// What they worked with before: a rollback runs with it.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub previous: Option<Json>,
    /// Over the plan's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_limit: Option<u32>,
    /// Instead of the plan's stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<Vec<Stage>>,
}

/// A tenant is locked by another plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnConflict {
    /// The task is cancelled; it may be retried.
    #[default]
    Skip,
    /// The task waits for the lock.
    Wait,
    /// The plan does not start.
    Refuse,
}

/// A task failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnFailure {
    /// The others go on.
    #[default]
    Continue,
    /// No further task starts.
    Stop,
    /// The rest is paused.
    Pause,
}

/// After a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Recovery {
    /// Nothing moves until a person says so.
    #[default]
    Manual,
    /// Any instance takes up what was interrupted.
    Auto,
}
