//! What answers hold, as far as this client knows it. What a newer server says beyond that is passed over here, and still
//! in the JSON of the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use windlass_core::by::{By, Reason};
use windlass_core::failure::FailureKind;
use windlass_core::id::{
    InstanceId, JobId, PlanId, PlanName, QueueName, StageName, TaskId, TenantId, TriggerId, WorkerId,
};
use windlass_core::job::{JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::plan::PlanStatus;
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{AttemptKind, Cause};
use windlass_core::time::Ms;
use windlass_core::trigger::TriggerStatus;
use windlass_core::trigger::schedule::Schedule;

/// A plan, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the records in `windlass_core`, and mean the same")]
pub struct Plan {
    #[serde(rename = "planId")]
    pub id: PlanId,
    pub name: PlanName,
    pub status: PlanStatus,
    pub tasks: u32,
    pub max_concurrency: u32,
    #[serde(default)]
    pub conductor: Option<InstanceId>,
    #[serde(default)]
    pub cancelled: bool,
    #[serde(deserialize_with = "moment")]
    pub created_at: Ms,
    #[serde(default, deserialize_with = "maybe")]
    pub started_at: Option<Ms>,
    #[serde(default, deserialize_with = "maybe")]
    pub ended_at: Option<Ms>,
    /// How many of its tasks stand where.
    #[serde(default)]
    pub tally: Tally,
    /// RUNNING, and nobody alive conducts it.
    #[serde(default)]
    pub interrupted: bool,
}

impl Plan {
    /// Whether nothing of it may be moving. A retry that was asked for and has not begun does not show here.
    #[must_use]
    pub fn may_rest(&self) -> bool {
        let moves = [TaskStatus::Pending, TaskStatus::Running, TaskStatus::RollingBack];
        match self.status {
            PlanStatus::Ready => false,
            PlanStatus::Running if !self.interrupted => moves.iter().all(|status| self.tally.of(*status) == 0),
            _ => true,
        }
    }
}

/// How many tasks stand where.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Tally(BTreeMap<TaskStatus, u32>);

impl Tally {
    /// How many stand there.
    #[must_use]
    pub fn of(&self, status: TaskStatus) -> u32 {
        self.0.get(&status).copied().unwrap_or_default()
    }

    /// Where any stand, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (TaskStatus, u32)> {
        self.0.iter().map(|(status, n)| (*status, *n)).filter(|(_, n)| *n > 0)
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    /// How many need nothing more.
    #[must_use]
    pub fn ended(&self) -> u32 {
        self.iter().filter(|(status, _)| !status.is_active()).map(|(_, n)| n).sum()
    }
}

/// What creating a plan came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "as in `windlass_engine::command::create::Created`")]
pub struct Created {
    pub plan: PlanId,
    #[serde(default)]
    pub task_count: Option<u32>,
    #[serde(default)]
    pub tasks: Vec<TaskId>,
    #[serde(default)]
    pub started: bool,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the records in `windlass_core`, and mean the same")]
pub struct Task {
    #[serde(rename = "taskId")]
    pub id: TaskId,
    #[serde(rename = "tenantId")]
    pub tenant: TenantId,
    #[serde(rename = "planId")]
    pub plan: PlanId,
    pub position: u32,
    pub status: TaskStatus,
    pub stages: u32,
    pub completed: u32,
    #[serde(default)]
    pub stage: Option<u32>,
    #[serde(default)]
    pub stage_names: Vec<StageName>,
    #[serde(default)]
    pub attempt: Option<Attempt>,
    #[serde(default)]
    pub retries: u32,
    #[serde(default)]
    pub hold: Option<Hold>,
    #[serde(default)]
    pub owner: Option<InstanceId>,
    #[serde(default, deserialize_with = "maybe")]
    pub started_at: Option<Ms>,
    #[serde(deserialize_with = "moment")]
    pub updated_at: Ms,
    #[serde(default, deserialize_with = "maybe")]
    pub ended_at: Option<Ms>,
    #[serde(default)]
    pub failure: Option<Failure>,
    #[serde(default)]
    pub pause_requested: bool,
    #[serde(default)]
    pub interrupted: bool,
    #[serde(default = "yes")]
    pub durable: bool,
    #[serde(default)]
    pub lock: Option<Holder>,
    #[serde(default)]
    pub freeze: Option<Freeze>,
}

fn yes() -> bool {
    true
}

/// One run of a task over a range of its stages.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::task::Attempt`")]
pub struct Attempt {
    pub number: u32,
    pub kind: AttemptKind,
}

/// Why a task is held, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::task::Hold`")]
pub struct Hold {
    pub cause: Cause,
    #[serde(default)]
    pub by: Option<By>,
    #[serde(default)]
    pub reason: Option<Reason>,
}

/// What went wrong in a stage.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::failure::Failure`")]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    pub stage: StageName,
    pub attempt: u32,
}

/// What a task has finished.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "as in `windlass_core::checkpoint::Checkpoint`")]
pub struct Checkpoint {
    pub last_completed_stage_index: i32,
    pub completed_stages: Vec<StageName>,
    pub context_data: Json,
    #[serde(deserialize_with = "moment")]
    pub saved_at: Ms,
    #[serde(default)]
    pub version: u64,
    #[serde(default)]
    pub fence: u64,
    #[serde(default)]
    pub pass: u32,
}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_engine::command::Done`")]
pub struct Done {
    pub plan: PlanId,
    #[serde(default)]
    pub task: Option<TaskId>,
    pub state: String,
    #[serde(default)]
    pub asked: bool,
    #[serde(default)]
    pub discarded: Option<String>,
    #[serde(default)]
    pub preview: Option<Preview>,
}

/// What a dry run shows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_engine::command::Preview`")]
pub struct Preview {
    pub stages: Vec<StageName>,
    #[serde(default)]
    pub lock: Option<Holder>,
}

/// Who holds a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::lock::Holder`")]
pub struct Holder {
    #[serde(rename = "planId")]
    pub plan: PlanId,
    #[serde(rename = "taskId")]
    pub task: TaskId,
    pub fence: u64,
    #[serde(deserialize_with = "moment")]
    pub since: Ms,
    #[serde(deserialize_with = "moment")]
    pub until: Ms,
}

/// Since when, by whom and why a tenant is frozen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::lock::Freeze`")]
pub struct Freeze {
    pub by: By,
    #[serde(default)]
    pub reason: Option<Reason>,
    #[serde(deserialize_with = "moment")]
    pub at: Ms,
}

/// A tenant that is held or frozen.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::port::lock::Tenant`")]
pub struct Tenant {
    #[serde(rename = "tenantId")]
    pub tenant: TenantId,
    #[serde(default)]
    pub holder: Option<Holder>,
    #[serde(default)]
    pub freeze: Option<Freeze>,
}

/// Why something is not moving, and what can be done.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_engine::query::why::Why`")]
pub struct Why {
    pub cause: String,
    pub text: String,
    #[serde(default)]
    pub possible: Vec<String>,
}

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_engine::query::inbox::Item`")]
pub struct Item {
    pub kind: String,
    #[serde(default)]
    pub plan: Option<PlanId>,
    #[serde(default)]
    pub task: Option<TaskId>,
    #[serde(default)]
    pub job: Option<JobId>,
    #[serde(default)]
    pub trigger: Option<TriggerId>,
    #[serde(default)]
    pub tenant: Option<TenantId>,
    pub text: String,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::event::Event`")]
pub struct Event {
    #[serde(default)]
    pub seq: u64,
    #[serde(deserialize_with = "moment")]
    pub at: Ms,
    #[serde(default)]
    pub plan: Option<PlanId>,
    #[serde(default)]
    pub task: Option<TaskId>,
    #[serde(default)]
    pub tenant: Option<TenantId>,
    #[serde(default)]
    pub by: Option<By>,
    #[serde(default)]
    pub reason: Option<Reason>,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: String,
    /// What else is said about it.
    #[serde(default = "Json::null")]
    pub data: Json,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the records in `windlass_core`, and mean the same")]
pub struct Job {
    pub id: JobId,
    pub queue: QueueName,
    pub status: JobStatus,
    #[serde(default, deserialize_with = "given")]
    pub payload: Option<Json>,
    #[serde(default, deserialize_with = "given")]
    pub result: Option<Json>,
    #[serde(default)]
    pub error: Option<Box<JobError>>,
    #[serde(deserialize_with = "moment")]
    pub submitted_at: Ms,
    #[serde(default, deserialize_with = "maybe")]
    pub started_at: Option<Ms>,
    #[serde(default, deserialize_with = "maybe")]
    pub completed_at: Option<Ms>,
    #[serde(default)]
    pub tenant: Option<TenantId>,
    #[serde(default)]
    pub priority: i8,
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub max_attempts: u32,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub worker: Option<WorkerId>,
    #[serde(default)]
    pub fence: u64,
    #[serde(default, deserialize_with = "maybe")]
    pub lease_until: Option<Ms>,
    #[serde(default)]
    pub key: Option<String>,
}

/// A queue at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "as in `windlass_core::port::job::QueueView`")]
pub struct Queue {
    pub queue: QueueName,
    pub waiting: u32,
    pub running: u32,
    #[serde(default, deserialize_with = "maybe")]
    pub oldest: Option<Ms>,
    #[serde(default, deserialize_with = "maybe")]
    pub worker_until: Option<Ms>,
}

/// What bounds a queue or a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::job::limit::Rule`")]
pub struct Limits {
    #[serde(default)]
    pub running: Option<u32>,
    #[serde(default)]
    pub waiting: Option<u32>,
    #[serde(default)]
    pub held: Option<Freeze>,
}

/// A running server, or one that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Instance {
    /// Which.
    pub id: InstanceId,
    /// Up since.
    #[serde(deserialize_with = "moment")]
    pub since: Ms,
    /// Until when its lease runs; past, if it is gone.
    #[serde(deserialize_with = "moment")]
    pub until: Ms,
}

/// A job that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Submitted {
    /// Its id.
    pub id: JobId,
    /// It was there before, under the same key.
    #[serde(default)]
    pub existing: bool,
}

/// What cancelling or requeueing a job came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Asked {
    /// Which.
    pub job: JobId,
    /// `cancelled`, `requested`, `ended` or `requeued`.
    pub answer: String,
    /// Where it stands, if it had ended.
    #[serde(default)]
    pub status: Option<JobStatus>,
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "the names are those of the records in `windlass_core`, and mean the same")]
pub struct Trigger {
    pub id: TriggerId,
    #[serde(default)]
    pub parent: Option<TriggerId>,
    pub schedule: Schedule,
    pub target: Json,
    #[serde(default)]
    pub tenant: Option<TenantId>,
    #[serde(default)]
    pub paused: Option<Freeze>,
    pub status: TriggerStatus,
    #[serde(deserialize_with = "moment")]
    pub trigger_at: Ms,
    #[serde(default)]
    pub retry_count: u32,
    #[serde(default)]
    pub held: bool,
    #[serde(default)]
    pub error: Option<String>,
    #[serde(default)]
    pub made: Option<Json>,
}

/// Something that happened to a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[expect(missing_docs, reason = "as in `windlass_core::trigger::Note`")]
pub struct Note {
    #[serde(deserialize_with = "moment")]
    pub at: Ms,
    #[serde(deserialize_with = "moment")]
    pub occurrence: Ms,
    pub what: Json,
}

/// A moment on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Moment(#[serde(deserialize_with = "moment")] pub Ms);

/// RFC 3339.
fn moment<'de, D: Deserializer<'de>>(from: D) -> Result<Ms, D::Error> {
    let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
    Ms::parse(&text).ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not a time")))
}

fn maybe<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ms>, D::Error> {
    Ok(Option::<Moment>::deserialize(from)?.map(|Moment(ms)| ms))
}

/// A `null` that is there is a value.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}
