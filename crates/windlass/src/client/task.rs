//! Tasks: steer, ask; by their own id or by their tenant's.

use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde::ser::SerializeMap as _;
use windlass_core::id::{PlanId, StageName, TaskId, TenantId};
use windlass_core::json::Json;
use windlass_core::task::status::TaskStatus;

use super::send::Call;
use super::{Answer, Ask, Client, Error, Page, view};

/// Which task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// This one.
    Task(TaskId),
    /// The tenant's latest.
    Tenant(TenantId),
}

impl Which {
    fn path(&self) -> String {
        match self {
            Which::Task(task) => format!("v1/tasks/{task}"),
            Which::Tenant(tenant) => format!("v1/tenants/{tenant}/task"),
        }
    }

    /// What is asked about it: of a tenant beside its task, not below it.
    fn about(&self, what: &str) -> String {
        match self {
            Which::Task(task) => format!("v1/tasks/{task}/{what}"),
            Which::Tenant(tenant) => format!("v1/tenants/{tenant}/{what}"),
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Which::Task(task) => write!(f, "task {task}"),
            Which::Tenant(tenant) => write!(f, "the latest task of tenant {tenant}"),
        }
    }
}

/// Which tasks to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tasks {
    /// Of this plan.
    pub plan: Option<PlanId>,
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Standing here; empty is anywhere.
    pub statuses: Vec<TaskStatus>,
    /// Only those that nobody alive runs.
    pub interrupted: bool,
    /// On a page, at most.
    pub limit: Option<u32>,
    /// After this place.
    pub after: Option<String>,
}

/// Where a retry begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RetryFrom {
    /// After the last completed stage.
    #[default]
    Checkpoint,
    /// At the first stage.
    Start,
    /// At this one.
    Stage(StageName),
}

impl Serialize for RetryFrom {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            RetryFrom::Checkpoint => to.serialize_str("checkpoint"),
            RetryFrom::Start => to.serialize_str("start"),
            RetryFrom::Stage(stage) => {
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry("stage", stage)?;
                map.end()
            }
        }
    }
}

/// What can be done to a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the operations of a task")]
pub enum TaskVerb {
    Pause,
    Resume,
    Cancel,
    Retry {
        from: RetryFrom,
        /// What its stages work with from now on.
        config: Option<Json>,
        /// Begin at the first stage if work cannot resume from the checkpoint.
        restart_if_invalid: bool,
        /// Also if a newer task of the tenant has started; needs a reason.
        force: bool,
    },
    Rollback {
        /// As with a retry.
        force: bool,
    },
    Approve,
    Reject,
    SkipStage,
}

impl TaskVerb {
    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            TaskVerb::Pause => "pause",
            TaskVerb::Resume => "resume",
            TaskVerb::Cancel => "cancel",
            TaskVerb::Retry { .. } => "retry",
            TaskVerb::Rollback { .. } => "rollback",
            TaskVerb::Approve => "approve",
            TaskVerb::Reject => "reject",
            TaskVerb::SkipStage => "skip-stage",
        }
    }
}

/// What an operation says beside who and why.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct More<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a RetryFrom>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_invalid: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    force: bool,
}

impl Client {
    /// A task as it stands.
    pub async fn task(&self, which: &Which) -> Result<Answer<view::Task>, Error> {
        self.call(Call::get(which.path())).await
    }

    /// A task when nothing of it moves any more without a person, or when the wait is over (60 seconds at most).
    pub async fn wait_task(&self, which: &Which, wait: Duration) -> Result<Answer<view::Task>, Error> {
        self.call(Call::get(which.path()).waiting(wait)).await
    }

    /// A page of tasks.
    pub async fn tasks(&self, which: &Tasks) -> Result<Page<view::Task>, Error> {
        self.page(which.ask(Call::get("v1/tasks"))).await
    }

    /// What happened to a task, oldest first.
    pub async fn task_history(&self, which: &Which) -> Result<Page<view::Event>, Error> {
        self.page(Call::get(which.about("history"))).await
    }

    /// What a task has finished.
    pub async fn checkpoint(&self, which: &Which) -> Result<Answer<view::Checkpoint>, Error> {
        self.call(Call::get(which.about("checkpoint"))).await
    }

    /// Why a task is not moving.
    pub async fn why_task(&self, which: &Which) -> Result<Answer<view::Why>, Error> {
        self.call(Call::get(which.about("why"))).await
    }

    /// Does something to a task.
    pub async fn do_task(&self, which: &Which, verb: &TaskVerb, ask: &Ask) -> Result<Answer<view::Done>, Error> {
        let more = match verb {
            TaskVerb::Retry { from, config, restart_if_invalid, force } => More {
                from: Some(from),
                config: config.as_ref(),
                on_invalid: restart_if_invalid.then_some("restart"),
                force: *force,
            },
            TaskVerb::Rollback { force } => More { force: *force, ..More::default() },
            _ => More::default(),
        };
        self.operation(Method::POST, format!("{}/{}", which.path(), verb.name()), ask, more).await
    }
}
