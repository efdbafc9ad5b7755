//! The table.

use axum::http::Method;

use super::{Gives, Handler, Kind, Param, Route, Takes, schema};
use crate::api::claim::{self, Claim, Claimed};
use crate::api::event;
use crate::api::inbox;
use crate::api::job::{self, AskedJob, Bulk, BulkAsk, NewId, NewJob, OneOrMany};
use crate::api::meta::{self, Alive, Ready, WhoAmI};
use crate::api::plan;
use crate::api::queue::{self, Bounds, SetBounds};
use crate::api::task::{self, RetryTask, RollbackTask, SkipStage};
use crate::api::tenant;
use crate::api::trigger::{self, Preview, Removed, SaveTrigger};
use crate::auth::Need::{self, Admin, Key, Operate, Public, View, ViewOrWork, Work};
use crate::call::{List, Operation};
use crate::schema::Time;
use crate::view::event::Event;
use crate::view::job::{Job, Queue};
use crate::view::lock::{Instance, Tenant};
use crate::view::plan::{Created, Inbox, Plan, PlanDetail, Why};
use crate::view::task::{Checkpoint, Done, Task, TaskDetail};
use crate::view::trigger::{Note, Trigger};

const fn param(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, kind, about }
}

const LIMIT: Param = param("limit", Kind::Limit, "Items, at most");
const AFTER: Param = param("after", Kind::Text, "`next` of the page before");
const WAIT: Param = param("wait", Kind::Span, "How long to wait, at most a minute: 30s, or milliseconds");
const DRY_RUN: Param = param("dryRun", Kind::Flag, "Only say what would happen");
const BY: Param = param("by", Kind::Text, "Who asks; only without API keys, otherwise it is the key's name");
const REASON: Param = param("reason", Kind::Text, "Why; kept with the event");
const START: Param = param("start", Kind::Flag, "Start it, too");
const PLAN: Param = param("plan", Kind::Id, "Of this plan");
const TASK: Param = param("task", Kind::Id, "Of this task");
const TENANT: Param = param("tenant", Kind::Id, "Of this tenant");
const QUEUE: Param = param("queue", Kind::Id, "In this queue");
const INTERRUPTED: Param = param("interrupted", Kind::Flag, "Only those whose instance is gone");
const WAITING: Param = param("waiting", Kind::Flag, "Only those that wait for a person");
const PLAN_STATUS: Param =
    param("status", Kind::Words(&["READY", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "CANCELLED"]), "Standing here");
const TASK_STATUS: Param = param(
    "status",
    Kind::Words(&[
        "PENDING",
        "RUNNING",
        "PAUSED",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "ROLLING_BACK",
        "ROLLED_BACK",
        "ROLLBACK_FAILED",
    ]),
    "Standing here",
);
const JOB_STATUS: Param =
    param("status", Kind::Words(&["PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"]), "Standing here");
const TRIGGER_STATUS: Param =
    param("status", Kind::Words(&["PENDING", "PROCESSING", "COMPLETED", "DEAD"]), "Standing here");

/// How a list may be refused.
const LISTS: &[u16] = &[400, 401, 403, 503];
/// How reading one thing may be refused.
const READS: &[u16] = &[400, 401, 403, 404, 429, 503];
/// How a change may be refused.
const WRITES: &[u16] = &[400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503];

macro_rules! to {
    ($handler:path) => {
        |call| Box::pin($handler(call))
    };
}

/// One row: how, where, name, role, handler, parameters, body, answer, refusals, and what it is for people.
type Row =
    (Method, &'static str, &'static str, Need, Handler, &'static [Param], Takes, Gives, &'static [u16], &'static str);

pub(super) fn routes() -> Vec<Route> {
    rows()
        .into_iter()
        .flatten()
        .map(|(method, path, id, need, handler, query, takes, gives, statuses, summary)| Route {
            method,
            path,
            id,
            need,
            summary,
            handler,
            query,
            takes,
            gives,
            statuses,
        })
        .collect()
}

fn rows() -> [Vec<Row>; 8] {
    [plans(), tasks(), tenant_tasks(), tenants(), jobs(), queues(), triggers(), meta_rows()]
}

#[rustfmt::skip]
fn plans() -> Vec<Row> {
    vec![
        (Method::POST, "/v1/plans", "createPlan", Operate, to!(plan::create), &[START, DRY_RUN, BY, REASON], Takes::Plan, Gives::Json(201, schema::<Created>), WRITES,
            "Create a plan from a file in YAML, TOML or JSON, and start it if asked to"),
        (Method::GET, "/v1/plans", "listPlans", View, to!(plan::list), &[PLAN_STATUS, LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Plan>>), LISTS,
            "Plans, the newest first"),
        (Method::GET, "/v1/plans/{plan}", "getPlan", View, to!(plan::get), &[WAIT], Takes::Nothing, Gives::Json(200, schema::<PlanDetail>), READS,
            "A plan and how far it is; waits until it rests if asked to"),
        (Method::GET, "/v1/plans/{plan}/tasks", "listPlanTasks", View, to!(plan::tasks), &[TASK_STATUS, TENANT, INTERRUPTED, LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Task>>), READS,
            "The tasks of a plan, in its order"),
        (Method::GET, "/v1/plans/{plan}/history", "getPlanHistory", View, to!(plan::history), &[], Takes::Nothing, Gives::Json(200, schema::<List<Event>>), READS,
            "What happened to a plan, the newest 200 events, the oldest first"),
        (Method::GET, "/v1/plans/{plan}/why", "whyPlan", View, to!(plan::why), &[], Takes::Nothing, Gives::Json(200, schema::<Why>), READS,
            "Why a plan does not move, and what to do"),
        (Method::POST, "/v1/plans/{plan}/start", "startPlan", Operate, to!(plan::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Start a plan"),
        (Method::POST, "/v1/plans/{plan}/pause", "pausePlan", Operate, to!(plan::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Pause a plan: what runs pauses at its boundary"),
        (Method::POST, "/v1/plans/{plan}/resume", "resumePlan", Operate, to!(plan::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Resume a plan; also what moves an interrupted one"),
        (Method::POST, "/v1/plans/{plan}/cancel", "cancelPlan", Operate, to!(plan::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Cancel a plan"),
    ]
}

#[rustfmt::skip]
fn tasks() -> Vec<Row> {
    vec![
        (Method::GET, "/v1/tasks", "listTasks", View, to!(task::list), &[PLAN, TENANT, TASK_STATUS, INTERRUPTED, LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Task>>), LISTS,
            "Tasks: those of newer plans first"),
        (Method::GET, "/v1/tasks/{task}", "getTask", View, to!(task::get), &[WAIT], Takes::Nothing, Gives::Json(200, schema::<TaskDetail>), READS,
            "A task, what is wanted of it, and what it has; waits until it rests if asked to"),
        (Method::GET, "/v1/tasks/{task}/history", "getTaskHistory", View, to!(task::history), &[], Takes::Nothing, Gives::Json(200, schema::<List<Event>>), READS,
            "What happened to a task, the newest 200 events, the oldest first"),
        (Method::GET, "/v1/tasks/{task}/checkpoint", "getTaskCheckpoint", View, to!(task::checkpoint), &[], Takes::Nothing, Gives::Json(200, schema::<Checkpoint>), READS,
            "Where a task would go on"),
        (Method::GET, "/v1/tasks/{task}/why", "whyTask", View, to!(task::why), &[], Takes::Nothing, Gives::Json(200, schema::<Why>), READS,
            "Why a task does not move, and what to do"),
        (Method::POST, "/v1/tasks/{task}/pause", "pauseTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Pause a task at the next boundary"),
        (Method::POST, "/v1/tasks/{task}/resume", "resumeTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Resume a task"),
        (Method::POST, "/v1/tasks/{task}/cancel", "cancelTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Cancel a task at the next boundary"),
        (Method::POST, "/v1/tasks/{task}/approve", "approveTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Approve a task: say yes to the stage that waits"),
        (Method::POST, "/v1/tasks/{task}/reject", "rejectTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Reject a task: say no to the stage that waits"),
        (Method::POST, "/v1/tasks/{task}/retry", "retryTask", Operate, to!(task::retry), &[DRY_RUN], Takes::Maybe(schema::<RetryTask>), Gives::Json(200, schema::<Done>), WRITES,
            "Retry a task"),
        (Method::POST, "/v1/tasks/{task}/rollback", "rollbackTask", Operate, to!(task::rollback), &[DRY_RUN], Takes::Maybe(schema::<RollbackTask>), Gives::Json(200, schema::<Done>), WRITES,
            "Take a task back"),
        (Method::POST, "/v1/tasks/{task}/skip-stage", "skipStageOfTask", Operate, to!(task::skip_stage), &[DRY_RUN], Takes::Maybe(schema::<SkipStage>), Gives::Json(200, schema::<Done>), WRITES,
            "Count the next stage of a task as completed without running it"),
    ]
}

#[rustfmt::skip]
fn tenant_tasks() -> Vec<Row> {
    vec![
        (Method::GET, "/v1/tenants/{tenant}/task", "getTenantTask", View, to!(task::get), &[WAIT], Takes::Nothing, Gives::Json(200, schema::<TaskDetail>), READS,
            "A tenant's latest task, what is wanted of it, and what it has; waits until it rests if asked to"),
        (Method::GET, "/v1/tenants/{tenant}/history", "getTenantTaskHistory", View, to!(task::history), &[], Takes::Nothing, Gives::Json(200, schema::<List<Event>>), READS,
            "What happened to a tenant's latest task, the newest 200 events, the oldest first"),
        (Method::GET, "/v1/tenants/{tenant}/checkpoint", "getTenantTaskCheckpoint", View, to!(task::checkpoint), &[], Takes::Nothing, Gives::Json(200, schema::<Checkpoint>), READS,
            "Where a tenant's latest task would go on"),
        (Method::GET, "/v1/tenants/{tenant}/why", "whyTenantTask", View, to!(task::why), &[], Takes::Nothing, Gives::Json(200, schema::<Why>), READS,
            "Why a tenant's latest task does not move, and what to do"),
        (Method::POST, "/v1/tenants/{tenant}/task/pause", "pauseTenantTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Pause a tenant's latest task at the next boundary"),
        (Method::POST, "/v1/tenants/{tenant}/task/resume", "resumeTenantTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Resume a tenant's latest task"),
        (Method::POST, "/v1/tenants/{tenant}/task/cancel", "cancelTenantTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Cancel a tenant's latest task at the next boundary"),
        (Method::POST, "/v1/tenants/{tenant}/task/approve", "approveTenantTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Approve a tenant's latest task: say yes to the stage that waits"),
        (Method::POST, "/v1/tenants/{tenant}/task/reject", "rejectTenantTask", Operate, to!(task::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Done>), WRITES,
            "Reject a tenant's latest task: say no to the stage that waits"),
        (Method::POST, "/v1/tenants/{tenant}/task/retry", "retryTenantTask", Operate, to!(task::retry), &[DRY_RUN], Takes::Maybe(schema::<RetryTask>), Gives::Json(200, schema::<Done>), WRITES,
            "Retry a tenant's latest task"),
        (Method::POST, "/v1/tenants/{tenant}/task/rollback", "rollbackTenantTask", Operate, to!(task::rollback), &[DRY_RUN], Takes::Maybe(schema::<RollbackTask>), Gives::Json(200, schema::<Done>), WRITES,
            "Take a tenant's latest task back"),
        (Method::POST, "/v1/tenants/{tenant}/task/skip-stage", "skipStageOfTenantTask", Operate, to!(task::skip_stage), &[DRY_RUN], Takes::Maybe(schema::<SkipStage>), Gives::Json(200, schema::<Done>), WRITES,
            "Count the next stage of a tenant's latest task as completed without running it"),
    ]
}

#[rustfmt::skip]
fn tenants() -> Vec<Row> {
    vec![
        (Method::GET, "/v1/tenants/{tenant}/lock", "getTenantLock", View, to!(tenant::get), &[], Takes::Nothing, Gives::Json(200, schema::<Tenant>), READS,
            "Who holds a tenant"),
        (Method::DELETE, "/v1/tenants/{tenant}/lock", "releaseTenantLock", Admin, to!(tenant::release), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Tenant>), WRITES,
            "Take a tenant's lock from whoever holds it; answers what it was before"),
        (Method::GET, "/v1/tenants/{tenant}/freeze", "getTenantFreeze", View, to!(tenant::get), &[], Takes::Nothing, Gives::Json(200, schema::<Tenant>), READS,
            "Whether a tenant is frozen"),
        (Method::PUT, "/v1/tenants/{tenant}/freeze", "freezeTenant", Operate, to!(tenant::freeze), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Tenant>), WRITES,
            "Freeze a tenant: nothing of it starts, resumes or is claimed; answers what it was before"),
        (Method::DELETE, "/v1/tenants/{tenant}/freeze", "unfreezeTenant", Operate, to!(tenant::unfreeze), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Tenant>), WRITES,
            "Unfreeze a tenant; answers what it was before"),
        (Method::GET, "/v1/tenants/{tenant}/limits", "getTenantLimits", View, to!(queue::limits), &[], Takes::Nothing, Gives::Json(200, schema::<Bounds>), READS,
            "The limits of a tenant's jobs"),
        (Method::PUT, "/v1/tenants/{tenant}/limits", "setTenantLimits", Admin, to!(queue::set_limits), &[DRY_RUN], Takes::Json(schema::<SetBounds>), Gives::Json(200, schema::<Bounds>), WRITES,
            "Limit a tenant's jobs"),
        (Method::GET, "/v1/locks", "listLocks", View, to!(tenant::locks), &[LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Tenant>>), LISTS,
            "Tenants that are held or frozen"),
        (Method::GET, "/v1/instances", "listInstances", View, to!(tenant::instances), &[LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Instance>>), LISTS,
            "Running servers, and those that are gone"),
        (Method::GET, "/v1/inbox", "getInbox", View, to!(inbox::list), &[], Takes::Nothing, Gives::Json(200, schema::<Inbox>), LISTS,
            "What waits for a person"),
    ]
}

#[rustfmt::skip]
fn jobs() -> Vec<Row> {
    vec![
        (Method::POST, "/v1/jobs", "submitJobs", Operate, to!(job::submit), &[DRY_RUN], Takes::Json(schema::<OneOrMany<NewJob>>), Gives::Json(201, schema::<OneOrMany<NewId>>), WRITES,
            "Submit one job, or up to 1,000, all or none"),
        (Method::GET, "/v1/jobs", "listJobs", View, to!(job::list), &[QUEUE, TENANT, JOB_STATUS, LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Job<'static>>>), LISTS,
            "Jobs: live ones first, then those that ended"),
        (Method::POST, "/v1/jobs/cancel", "cancelJobs", Operate, to!(job::cancel_many), &[DRY_RUN], Takes::Json(schema::<BulkAsk>), Gives::Json(200, schema::<Bulk>), WRITES,
            "Cancel the jobs that fit a filter, up to 1,000 at a time"),
        (Method::POST, "/v1/jobs/requeue", "requeueJobs", Operate, to!(job::requeue_many), &[DRY_RUN], Takes::Json(schema::<BulkAsk>), Gives::Json(200, schema::<Bulk>), WRITES,
            "Put the dead jobs that fit a filter back to work, up to 1,000 at a time"),
        (Method::GET, "/v1/jobs/{job}", "getJob", ViewOrWork, to!(job::get), &[WAIT], Takes::Nothing, Gives::Json(200, schema::<Job<'static>>), READS,
            "A job; waits until it has ended if asked to"),
        (Method::POST, "/v1/jobs/{job}/cancel", "cancelJob", Operate, to!(job::cancel), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<AskedJob>), WRITES,
            "Cancel a job: one that waits is cancelled, one that runs is asked to end"),
        (Method::POST, "/v1/jobs/{job}/requeue", "requeueJob", Operate, to!(job::requeue), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<AskedJob>), WRITES,
            "Put a dead job back to work"),
    ]
}

#[rustfmt::skip]
fn queues() -> Vec<Row> {
    vec![
        (Method::GET, "/v1/queues", "listQueues", View, to!(queue::list), &[LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Queue>>), LISTS,
            "Queues, how much waits in them, and whether a worker is there"),
        (Method::GET, "/v1/queues/{queue}/limits", "getQueueLimits", View, to!(queue::limits), &[], Takes::Nothing, Gives::Json(200, schema::<Bounds>), READS,
            "The limits of a queue"),
        (Method::PUT, "/v1/queues/{queue}/limits", "setQueueLimits", Operate, to!(queue::set_limits), &[DRY_RUN], Takes::Json(schema::<SetBounds>), Gives::Json(200, schema::<Bounds>), WRITES,
            "Limit a queue, hold it, or let it go on"),
        (Method::POST, "/v1/queues/{queue}/claim", "claimFromQueue", Work, to!(claim::claim_queue), &[], Takes::Json(schema::<Claim>), Gives::Json(200, schema::<Claimed<'static>>), WRITES,
            "What a worker has to say and to ask for, about one queue"),
        (Method::POST, "/v1/claim", "claim", Work, to!(claim::claim_many), &[], Takes::Json(schema::<Claim>), Gives::Json(200, schema::<Claimed<'static>>), WRITES,
            "What a worker has to say and to ask for, about several queues"),
    ]
}

#[rustfmt::skip]
fn triggers() -> Vec<Row> {
    vec![
        (Method::POST, "/v1/triggers", "createTrigger", Operate, to!(trigger::create), &[DRY_RUN], Takes::Json(schema::<SaveTrigger>), Gives::Json(201, schema::<Trigger<'static>>), WRITES,
            "Create a trigger"),
        (Method::GET, "/v1/triggers", "listTriggers", View, to!(trigger::list), &[TENANT, TRIGGER_STATUS, WAITING, LIMIT, AFTER], Takes::Nothing, Gives::Json(200, schema::<List<Trigger<'static>>>), LISTS,
            "Triggers, by id"),
        (Method::POST, "/v1/triggers/preview", "previewTrigger", View, to!(trigger::preview), &[], Takes::Json(schema::<Preview>), Gives::Json(200, schema::<List<Time>>), WRITES,
            "When a schedule would fire if it were saved now"),
        (Method::GET, "/v1/triggers/{trigger}", "getTrigger", View, to!(trigger::get), &[], Takes::Nothing, Gives::Json(200, schema::<Trigger<'static>>), READS,
            "A trigger"),
        (Method::PUT, "/v1/triggers/{trigger}", "saveTrigger", Operate, to!(trigger::replace), &[DRY_RUN], Takes::Json(schema::<SaveTrigger>), Gives::Json(200, schema::<Trigger<'static>>), WRITES,
            "Create or replace a trigger"),
        (Method::DELETE, "/v1/triggers/{trigger}", "removeTrigger", Operate, to!(trigger::remove), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Removed>), WRITES,
            "Remove a trigger"),
        (Method::GET, "/v1/triggers/{trigger}/notes", "listTriggerNotes", View, to!(trigger::notes), &[], Takes::Nothing, Gives::Json(200, schema::<List<Note<'static>>>), READS,
            "What became of a trigger's occurrences, the oldest first"),
        (Method::POST, "/v1/triggers/{trigger}/fire", "fireTrigger", Operate, to!(trigger::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Trigger<'static>>), WRITES,
            "Fire a trigger now"),
        (Method::POST, "/v1/triggers/{trigger}/skip", "skipTrigger", Operate, to!(trigger::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Trigger<'static>>), WRITES,
            "Leave out the occurrence that is held, dead, or next"),
        (Method::POST, "/v1/triggers/{trigger}/pause", "pauseTrigger", Operate, to!(trigger::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Trigger<'static>>), WRITES,
            "Pause a trigger"),
        (Method::POST, "/v1/triggers/{trigger}/resume", "resumeTrigger", Operate, to!(trigger::operate), &[DRY_RUN], Takes::Maybe(schema::<Operation>), Gives::Json(200, schema::<Trigger<'static>>), WRITES,
            "Resume a trigger"),
    ]
}

#[rustfmt::skip]
fn meta_rows() -> Vec<Row> {
    vec![
        (Method::GET, "/v1/events", "streamEvents", View, to!(event::stream), &[PLAN, TASK], Takes::Nothing, Gives::Events, READS,
            "Events as they happen (server-sent); of a plan or a task after Last-Event-ID"),
        (Method::GET, "/v1/whoami", "whoAmI", Key, to!(meta::whoami), &[], Takes::Nothing, Gives::Json(200, schema::<WhoAmI>), LISTS,
            "Who asks, and what they may"),
        (Method::GET, "/metrics", "getMetrics", View, to!(meta::metrics), &[], Takes::Nothing, Gives::Text("text/plain"), LISTS,
            "What is measured, for Prometheus"),
        (Method::GET, "/healthz", "isAlive", Public, to!(meta::healthz), &[], Takes::Nothing, Gives::Json(200, schema::<Alive>), &[],
            "Whether the process lives"),
        (Method::GET, "/readyz", "isReady", Public, to!(meta::readyz), &[], Takes::Nothing, Gives::Json(200, schema::<Ready>), &[503],
            "Whether it can work: its store answers and its loops come round"),
        (Method::GET, "/openapi.json", "getOpenApi", Public, to!(meta::openapi), &[], Takes::Nothing, Gives::Text("application/json"), &[],
            "This document"),
        (Method::GET, "/docs", "getDocs", Public, to!(meta::docs), &[], Takes::Nothing, Gives::Text("text/html"), &[],
            "This document, readable"),
        (Method::GET, "/docs/errors/{code}", "getErrorPage", Public, to!(meta::error_page), &[], Takes::Nothing, Gives::Text("text/markdown"), &[404],
            "What an error code means, and what to do"),
    ]
}
