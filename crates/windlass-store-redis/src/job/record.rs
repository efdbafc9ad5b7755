//! A job's keys, put together.

use redis::{Pipeline, Value};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::{Asker, Backoff, Job, JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::Inner;
use crate::error::corrupt;
use crate::reply::{Parts, array, text};

/// What of a job is read, each part under its own key; when it was submitted and began is in `meta` too.
const PARTS: [&str; 6] = ["status", "meta", "payload", "completed_at", "result", "error"];

/// Jobs that are read with one command.
const CHUNK: usize = 500;

/// The part of a job that has no key of its own: a JSON array, in this order, with an object behind it for each of the
/// things that few jobs have. Scripts take it apart.
struct Meta {
    version: u64,
    attempt: u32,
    deliveries: u32,
    fence: u64,
    worker: String,
    lease_until: Ms,
    run_at: Ms,
    submitted_at: Ms,
    started_at: Ms,
    queue: QueueName,
    tenant: String,
    priority: i8,
    seq: u64,
    max_attempts: u32,
    first_ms: u64,
    max_ms: u64,
    timeout_ms: u64,
    digest: u64,
    more: More,
}

/// What few jobs have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct More {
    key: Option<String>,
    cancel: Option<Asker>,
    asked: Option<Asker>,
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Array;
        impl<'de> Visitor<'de> for Array {
            type Value = Meta;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the parts of a job")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Meta, A::Error> {
                let mut at = 0;
                macro_rules! next {
                    () => {{
                        at += 1;
                        seq.next_element()?.ok_or_else(|| serde::de::Error::invalid_length(at, &"more of them"))?
                    }};
                }
                let mut meta = Meta {
                    version: next!(),
                    attempt: next!(),
                    deliveries: next!(),
                    fence: next!(),
                    worker: next!(),
                    lease_until: next!(),
                    run_at: next!(),
                    submitted_at: next!(),
                    started_at: next!(),
                    queue: next!(),
                    tenant: next!(),
                    priority: next!(),
                    seq: next!(),
                    max_attempts: next!(),
                    first_ms: next!(),
                    max_ms: next!(),
                    timeout_ms: next!(),
                    digest: next!(),
                    more: More::default(),
                };
                while let Some(More { key, cancel, asked }) = seq.next_element()? {
                    let more = &mut meta.more;
                    (more.key, more.cancel) = (more.key.take().or(key), more.cancel.take().or(cancel));
                    more.asked = more.asked.take().or(asked);
                }
                Ok(meta)
            }
        }
        from.deserialize_seq(Array)
    }
}

/// Everything but what has keys of its own. A job that was completed keeps the record it ran with: nobody runs it, and
/// its version is one more.
fn base(id: JobId, meta: &str, status: JobStatus) -> Result<Job, PortError> {
    let mut meta: Meta = serde_json::from_str(meta).map_err(|error| corrupt("a job", error))?;
    if status == JobStatus::Completed && !meta.worker.is_empty() {
        meta = Meta { version: meta.version + 1, worker: String::new(), deliveries: 0, lease_until: Ms::ZERO, ..meta };
    }
    let id_of = |text: &str| if text.is_empty() { None } else { Some(text.to_owned()) };
    Ok(Job {
        id,
        queue: meta.queue,
        status,
        payload: None,
        result: None,
        error: None,
        submitted_at: meta.submitted_at,
        started_at: Some(meta.started_at).filter(|at| *at != Ms::ZERO),
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
        key: meta.more.key,
        digest: meta.digest,
        cancel: meta.more.cancel,
        asked: meta.more.asked,
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

/// Jobs as a claim gives them, part after part.
pub(super) fn claimed(mut parts: Parts) -> Result<Vec<Job>, PortError> {
    let mut jobs = Vec::new();
    while let Some(id) = parts.next() {
        let id: JobId = text(id)?.parse().map_err(|error| corrupt("a job's id", error))?;
        let (meta, payload, why) = (parts.text()?, parts.value()?, parts.value()?);
        jobs.push(Job { payload: json(payload)?, error: error(why)?, ..base(id, &meta, JobStatus::Running)? });
    }
    Ok(jobs)
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
    let (completed, result, why) = (next(), next(), next());
    if meta == Value::Nil {
        return Ok(None);
    }
    let status = super::status(&text(status)?)?;
    Ok(Some(Job {
        payload: json(payload)?,
        result: json(result)?,
        error: error(why)?,
        completed_at: at(completed)?,
        ..base(id, &text(meta)?, status)?
    }))
}
