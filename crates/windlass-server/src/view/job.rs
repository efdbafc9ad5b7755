//! Jobs and queues.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_core::id::JobId;
use windlass_core::job::{self, Backoff};
use windlass_core::json::Json;
use windlass_core::port::job::QueueView;

use crate::schema::{Any, Object, Time, Uuid};

/// A job.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Job<'a> {
    #[schemars(with = "Uuid")]
    id: JobId,
    queue: &'a str,
    /// PENDING, RUNNING, COMPLETED, FAILED or CANCELLED.
    status: &'static str,
    #[schemars(with = "Any")]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Json>,
    /// What came of it.
    #[schemars(with = "Any")]
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Json>,
    /// What went wrong: class, message, code, file, line, trace, previous.
    #[schemars(with = "Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a job::JobError>,
    submitted_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_at: Option<Time>,
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    priority: i8,
    run_at: Time,
    attempt: u32,
    max_attempts: u32,
    /// Deliveries since a worker last answered.
    deliveries: u32,
    #[schemars(with = "Object")]
    backoff: Backoff,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'a str>,
    /// Of its newest delivery; what its worker says of it carries this number.
    fence: u64,
    /// While it runs: until when its worker is believed to be alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// Who asked for its end while it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_requested: Option<Asker<'a>>,
    /// Who last cancelled or requeued it.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<Asker<'a>>,
}

impl<'a> From<&'a job::Job> for Job<'a> {
    fn from(job: &'a job::Job) -> Job<'a> {
        let running = job.status == job::JobStatus::Running;
        Job {
            id: job.id,
            queue: job.queue.as_str(),
            status: job.status.name(),
            payload: job.payload.as_ref(),
            result: job.result.as_ref(),
            error: job.error.as_deref(),
            submitted_at: Time(job.submitted_at),
            started_at: job.started_at.map(Time),
            completed_at: job.completed_at.map(Time),
            version: job.version,
            tenant: job.tenant.as_ref().map(|tenant| tenant.as_str()),
            priority: job.priority,
            run_at: Time(job.run_at),
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            deliveries: job.deliveries,
            backoff: job.backoff,
            timeout_ms: job.timeout_ms,
            worker: job.worker.as_ref().map(|worker| worker.as_str()),
            fence: job.fence.0,
            lease_until: running.then_some(Time(job.lease_until)),
            key: job.key.as_deref(),
            cancel_requested: job.cancel.as_ref().map(Asker::from),
            asked: job.asked.as_ref().map(Asker::from),
        }
    }
}

/// Who asked for something.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Asker<'a> {
    by: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    at: Time,
}

impl<'a> From<&'a job::Asker> for Asker<'a> {
    fn from(asker: &'a job::Asker) -> Asker<'a> {
        Asker { by: asker.by.as_str(), reason: asker.reason.as_ref().map(|reason| reason.as_str()), at: Time(asker.at) }
    }
}

/// A queue at a moment.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Queue {
    queue: String,
    /// PENDING, also those whose time has not come.
    waiting: u32,
    running: u32,
    /// Since when the job that could have begun first waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest: Option<Time>,
    /// Until when a worker is believed to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    worker_until: Option<Time>,
}

impl From<&QueueView> for Queue {
    fn from(view: &QueueView) -> Queue {
        Queue {
            queue: view.queue.to_string(),
            waiting: view.waiting,
            running: view.running,
            oldest: view.oldest.map(Time),
            worker_until: view.worker_until.map(Time),
        }
    }
}
