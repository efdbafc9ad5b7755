//! Plans.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use windlass_core::plan::spec::{OnConflict, OnFailure, Recovery};
use windlass_core::plan::{self, Tally};
use windlass_core::task::status::TaskStatus;
use windlass_engine::command::create::Created as Made;
use windlass_engine::query::inbox::Item as Waiting;
use windlass_engine::query::view::PlanView;
use windlass_engine::query::why;

use crate::schema::{Id, Time};

/// A plan as it is listed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Plan {
    plan_id: String,
    name: String,
    /// READY, RUNNING, PAUSED, COMPLETED, FAILED or CANCELLED.
    status: &'static str,
    /// How many tasks it has; to a key that is limited to tenants, how many of theirs.
    tasks: u32,
    max_concurrency: u32,
    #[schemars(with = "String")]
    on_failure: OnFailure,
    #[schemars(with = "String")]
    on_conflict: OnConflict,
    #[schemars(with = "String")]
    recovery: Recovery,
    #[serde(skip_serializing_if = "Option::is_none")]
    conductor: Option<String>,
    /// A person cancelled it.
    cancelled: bool,
    created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    updated_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
}

impl From<&plan::Plan> for Plan {
    fn from(plan: &plan::Plan) -> Plan {
        Plan {
            plan_id: plan.id.to_string(),
            name: plan.name.to_string(),
            status: plan.status.name(),
            tasks: plan.tasks,
            max_concurrency: plan.max_concurrency,
            on_failure: plan.on_failure,
            on_conflict: plan.on_conflict,
            recovery: plan.recovery,
            conductor: plan.conductor.as_ref().map(ToString::to_string),
            cancelled: plan.cancelled,
            created_at: Time(plan.created_at),
            started_at: plan.started_at.map(Time),
            updated_at: Time(plan.updated_at),
            ended_at: plan.ended_at.map(Time),
        }
    }
}

impl Plan {
    /// With so many tasks: those of some tenants.
    pub(crate) fn with_tasks(self, tasks: u32) -> Plan {
        Plan { tasks, ..self }
    }
}

/// A plan and how far it is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanDetail {
    #[serde(flatten)]
    plan: Plan,
    /// How many of its tasks stand where.
    tally: BTreeMap<&'static str, u32>,
    /// Tasks that need nothing more.
    ended: u32,
    /// RUNNING, and nobody alive conducts it.
    interrupted: bool,
}

impl PlanDetail {
    /// With these tasks counted: all of them, or only some tenants'.
    pub(crate) fn new(view: &PlanView, tally: &Tally) -> PlanDetail {
        PlanDetail {
            plan: Plan { tasks: tally.total(), ..Plan::from(&view.plan) },
            tally: counts(tally),
            ended: tally.total() - tally.active(),
            interrupted: view.interrupted,
        }
    }
}

/// By name, every status.
pub(crate) fn counts(tally: &Tally) -> BTreeMap<&'static str, u32> {
    TaskStatus::ALL.into_iter().map(|status| (status.name(), tally.of(status))).collect()
}

/// A plan that was created.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Created {
    #[schemars(with = "Id")]
    plan: String,
    task_count: usize,
    /// Its tasks, in order.
    tasks: Vec<String>,
    started: bool,
    /// Nothing was written: this is what would be.
    dry_run: bool,
}

impl Created {
    pub(crate) fn new(made: &Made, dry_run: bool) -> Created {
        Created {
            plan: made.plan.to_string(),
            task_count: made.tasks.len(),
            tasks: made.tasks.iter().map(ToString::to_string).collect(),
            started: made.started,
            dry_run,
        }
    }
}

/// Why something does not move, and what to do.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Why {
    /// A word for programs.
    pub(crate) cause: &'static str,
    /// For people.
    pub(crate) text: String,
    /// Operations that would be taken now.
    pub(crate) possible: Vec<&'static str>,
}

impl From<why::Why> for Why {
    fn from(why: why::Why) -> Why {
        Why { cause: why.cause, text: why.text, possible: why.possible }
    }
}

/// One thing that waits for a person.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    /// What sort: interruptedPlan, interruptedTask, approval, pausedTask, pausedPlan, frozenTask, failure,
    /// failedRollback, heldOccurrence, deadOccurrence or deadJob.
    #[schemars(with = "String")]
    kind: windlass_engine::query::inbox::Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    text: String,
}

impl From<Waiting> for Item {
    fn from(item: Waiting) -> Item {
        Item {
            kind: item.kind,
            plan: item.plan.map(|id| id.to_string()),
            task: item.task.map(|id| id.to_string()),
            job: item.job.map(|id| id.to_string()),
            trigger: item.trigger.map(|id| id.to_string()),
            tenant: item.tenant.map(|id| id.to_string()),
            text: item.text,
        }
    }
}

/// What waits for a person.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Inbox {
    pub(crate) items: Vec<Item>,
    /// There is more than is listed.
    pub(crate) more: bool,
}
