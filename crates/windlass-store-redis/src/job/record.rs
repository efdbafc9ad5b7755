//! A job's keys, put together.

use redis::{Pipeline, Value};
use serde::Deserialize;
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::{Asker, Backoff, Job, JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::Inner;
use crate::error::corrupt;
use crate::reply::{array, parts, text};

/// What a job consists of, each part under its own key.
const PARTS: [&str; 8] = ["status", "meta", "payload", "submitted_at", "started_at", "completed_at", "result", "error"];

/// Jobs that are read with one command.
const CHUNK: usize = 500;

/// The part of a job that has no key of its own. Scripts take it apart in this order.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Meta {
    version: u64,
    attempt: u32,
    deliveries: u32,
    fence: u64,
    worker: String,
    lease_until: Ms,
    run_at: Ms,
    queue: QueueName,
    tenant: String,
    priority: i8,
    seq: u64,
    max_attempts: u32,
    first_ms: u64,
    max_ms: u64,
    timeout_ms: u64,
    digest: u64,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    cancel: Option<Asker>,
    #[serde(default)]
    asked: Option<Asker>,
}

/// Everything but what has keys of its own.
fn base(id: JobId, meta: &str, status: JobStatus, submitted_at: Ms) -> Result<Job, PortError> {
    let meta: Meta = serde_json::from_str(meta).map_err(|error| corrupt("a job", error))?;
    let id_of = |text: &str| if text.is_empty() { None } else { Some(text.to_owned()) };
    Ok(Job {
        id,
        queue: meta.queue,
        status,
        payload: None,
        result: None,
        error: None,
        submitted_at,
        started_at: None,
        completed_at: None,
        version: meta.version,
        seq: meta.seq,
        tenant: id_of(&meta.tenant).map(|id| id.parse()).transpose().map_err(|error| corrupt("a tenant", error))?,
        priority: meta.priority,
        run_at: meta.run_at,
        attempt: meta.attempt,
        max_attempts: meta.max_attempts,
        deliveries: meta.deliveries,
        backoff: Backoff { first_ms: meta.first_ms, max_ms: meta.max_ms },
        timeout_ms: Some(meta.timeout_ms).filter(|ms| *ms > 0),
        worker: id_of(&meta.worker).map(|id| id.parse()).transpose().map_err(|error| corrupt("a worker", error))?,
        fence: Fence(meta.fence),
        lease_until: meta.lease_until,
        key: meta.key,
        digest: meta.digest,
        cancel: meta.cancel,
        asked: meta.asked,
    })
}

fn json(value: Value) -> Result<Option<Json>, PortError> {
    match value {
        Value::Nil => Ok(None),
        value => Json::parse(&text(value)?).map(Some).map_err(|error| corrupt("a job's JSON", error)),
    }
}

fn error(value: Value) -> Result<Option<Box<JobError>>, PortError> {
    match value {
        Value::Nil => Ok(None),
        value => serde_json::from_str(&text(value)?).map(Some).map_err(|error| corrupt("a job's error", error)),
    }
}

fn at(value: Value) -> Result<Option<Ms>, PortError> {
    match value {
        Value::Nil => Ok(None),
        value => text(value)?.parse().map(|ms| Some(Ms::new(ms))).map_err(|error| corrupt("a time", error)),
    }
}

/// A job as a claim gives it.
pub(super) fn claimed(value: Value) -> Result<Job, PortError> {
    let parts = &mut parts(value)?;
    let (id, meta, payload): (JobId, String, Value) = (parts.parse()?, parts.text()?, parts.value()?);
    let submitted_at = parts.at()?;
    Ok(Job {
        payload: json(payload)?,
        started_at: Some(parts.at()?),
        error: error(parts.value()?)?,
        ..base(id, &meta, JobStatus::Running, submitted_at)?
    })
}

/// Jobs by their ids, those that are there.
pub(super) async fn load(inner: &Inner, ids: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
    let mut pipe = Pipeline::new();
    for chunk in ids.chunks(CHUNK) {
        let cmd = pipe.cmd("MGET");
        for id in chunk {
            let key = inner.keys.of("job", &id.to_string());
            PARTS.iter().for_each(|part| _ = cmd.arg(format!("{key}:{part}")));
        }
    }
    let mut jobs = Vec::with_capacity(ids.len());
    for (chunk, values) in ids.chunks(CHUNK).zip(inner.link.read(&pipe, ids.len().div_ceil(CHUNK)).await?) {
        let mut values = array(values)?.into_iter();
        for id in chunk {
            jobs.push(job(*id, &mut || values.next().unwrap_or(Value::Nil))?);
        }
    }
    Ok(jobs)
}

fn job(id: JobId, next: &mut dyn FnMut() -> Value) -> Result<Option<Job>, PortError> {
    let (status, meta, payload) = (next(), next(), next());
    let (submitted, started, completed, result, why) = (next(), next(), next(), next(), next());
    if meta == Value::Nil {
        return Ok(None);
    }
    let submitted_at = at(submitted)?.ok_or_else(|| corrupt("a job", "it has no time of submission"))?;
    let status = super::status(&text(status)?)?;
    Ok(Some(Job {
        payload: json(payload)?,
        result: json(result)?,
        error: error(why)?,
        started_at: at(started)?,
        completed_at: at(completed)?,
        ..base(id, &text(meta)?, status, submitted_at)?
    }))
}
