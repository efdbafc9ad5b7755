//! A job as it is stored: numbers and names in bytes, because every job is written three times and read once by
//! the one writer. What users wrote stands behind it as they wrote it, and apart if it is large, so that it is not
//! written again each time.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use windlass_core::fence::Fence;
use windlass_core::id::JobId;
use windlass_core::job::{Asker, Backoff, Job, JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::time::Ms;

use crate::key;
use crate::kv::{KvError, Read, Value};
use crate::record::{self, HEAD_BYTES, JOB};
use crate::tx::Records as _;

/// Beside its job, at most.
const BESIDE_BYTES_MAX: usize = 4 * 1024;

/// A job with its payload and its result as they are stored: its own two fields are empty.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) job: Job,
    pub(super) payload: Text,
    pub(super) result: Text,
}

/// What a user wrote.
#[derive(Clone, Default)]
pub(super) enum Text {
    #[default]
    None,
    /// Given just now.
    New(Json),
    /// In a stored record.
    In(Value, Range<usize>),
    /// In a record of its own.
    Apart,
}

/// Which text of a job, in keys of those that stand apart.
pub(super) const PAYLOAD: u8 = 0;
pub(super) const RESULT: u8 = 1;

impl Text {
    /// How a text is kept, and its own record if it is to stand apart.
    pub(super) fn of(given: Option<Json>) -> Result<(Text, Option<Value>), KvError> {
        match given {
            None => Ok((Text::None, None)),
            Some(json) if json.as_str().len() > BESIDE_BYTES_MAX => Ok((Text::Apart, Some(record::encode(&json)?))),
            Some(json) => Ok((Text::New(json), None)),
        }
    }

    pub(super) fn is_apart(&self) -> bool {
        matches!(self, Text::Apart)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Text::New(json) => json.as_str().as_bytes(),
            Text::In(record, range) => record.get(range.clone()).unwrap_or_default(),
            Text::None | Text::Apart => &[],
        }
    }

    /// How it stands, in two bits.
    fn mode(&self) -> u8 {
        match self {
            Text::None => 0,
            Text::New(_) | Text::In(..) => 1,
            Text::Apart => 2,
        }
    }

    fn json(self, read: &(impl Read + ?Sized), id: &JobId, part: u8) -> Result<Option<Json>, KvError> {
        match self {
            Text::None => Ok(None),
            Text::New(json) => Ok(Some(json)),
            Text::Apart => match read.record(&key::job_text(id, part))? {
                Some(json) => Ok(Some(json)),
                None => Err(KvError::Corrupt(format!("a text of job {id} is missing"))),
            },
            Text::In(..) => {
                let text = std::str::from_utf8(self.bytes()).map_err(|_| damaged())?;
                Json::parse(text).map(Some).map_err(|_| damaged())
            }
        }
    }
}

impl Kept {
    /// The job whole, with what stands apart read from where it stands.
    pub(super) fn whole(self, read: &(impl Read + ?Sized)) -> Result<Job, KvError> {
        let Kept { mut job, payload, result } = self;
        job.payload = payload.json(read, &job.id, PAYLOAD)?;
        job.result = result.json(read, &job.id, RESULT)?;
        Ok(job)
    }

    pub(super) fn encode(&self) -> Result<Value, KvError> {
        let Kept { job, payload, result } = self;
        let (payload_bytes, result_bytes) = (payload.bytes(), result.bytes());
        let mut out = Out(Vec::with_capacity(192 + payload_bytes.len() + result_bytes.len()));
        out.0.extend_from_slice(&[JOB, 0, 0, 0, 0]);
        out.0.extend_from_slice(&[status_byte(job.status), payload.mode() | result.mode() << 2, job.priority as u8]);
        out.0.extend_from_slice(job.id.bytes());
        out.0.extend_from_slice(&job.digest.to_le_bytes());
        let option = |at: Option<Ms>| at.map_or(0, |at| at.get() + 1);
        for number in [
            job.version,
            job.seq,
            job.submitted_at.get(),
            option(job.started_at),
            option(job.completed_at),
            job.run_at.get(),
            job.lease_until.get(),
            job.fence.0,
            u64::from(job.attempt),
            u64::from(job.max_attempts),
            u64::from(job.deliveries),
            job.backoff.first_ms,
            job.backoff.max_ms,
            job.timeout_ms.map_or(0, |ms| ms + 1),
        ] {
            out.number(number);
        }
        out.text(job.queue.as_str().as_bytes());
        out.text(job.tenant.as_ref().map_or(&[], |tenant| tenant.as_str().as_bytes()));
        out.text(job.worker.as_ref().map_or(&[], |worker| worker.as_str().as_bytes()));
        out.text(job.key.as_ref().map_or(&[], |key| key.as_bytes()));
        out.text(&More::of(job)?);
        out.text(result_bytes);
        out.0.extend_from_slice(payload_bytes);
        Ok(record::sealed(out.0))
    }

    pub(super) fn decode(value: &Value) -> Result<Kept, KvError> {
        let body = match record::body(value)? {
            (JOB, body) => body,
            _ => return Err(damaged()),
        };
        let mut from = In { bytes: body, at: 0 };
        let [status, modes, priority] = from.fixed::<3>()?;
        let id = JobId::of_bytes(from.fixed::<16>()?).ok_or_else(damaged)?;
        let digest = u64::from_le_bytes(from.fixed::<8>()?);
        let option = |n: u64| n.checked_sub(1).map(Ms::new);
        let mut job = Job {
            id,
            digest,
            status: status_of(status).ok_or_else(damaged)?,
            priority: priority as i8,
            version: from.number()?,
            seq: from.number()?,
            submitted_at: Ms::new(from.number()?),
            started_at: option(from.number()?),
            completed_at: option(from.number()?),
            run_at: Ms::new(from.number()?),
            lease_until: Ms::new(from.number()?),
            fence: Fence(from.number()?),
            attempt: from.small()?,
            max_attempts: from.small()?,
            deliveries: from.small()?,
            backoff: Backoff { first_ms: from.number()?, max_ms: from.number()? },
            timeout_ms: from.number()?.checked_sub(1),
            queue: from.text()?.parse().map_err(|_| damaged())?,
            tenant: from.name()?,
            worker: from.name()?,
            key: Some(from.text()?).filter(|key| !key.is_empty()).map(str::to_owned),
            payload: None,
            result: None,
            error: None,
            cancel: None,
            asked: None,
        };
        More::into(from.text()?, &mut job)?;
        let result = from.text()?.len();
        let at = HEAD_BYTES + from.at;
        let text = |mode: u8, range: Range<usize>| match mode {
            0 => Ok(Text::None),
            1 => Ok(Text::In(value.clone(), range)),
            2 => Ok(Text::Apart),
            _ => Err(damaged()),
        };
        if modes >> 4 != 0 {
            return Err(damaged());
        }
        Ok(Kept { job, payload: text(modes & 3, at..value.len())?, result: text(modes >> 2, at - result..at)? })
    }
}

/// The status of a stored job, without reading the rest.
pub(super) fn status(value: &[u8]) -> Result<JobStatus, KvError> {
    value.get(HEAD_BYTES).and_then(|byte| status_of(*byte)).ok_or_else(damaged)
}

/// What few jobs have.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct More<E, A> {
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    error: Option<E>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    cancel: Option<A>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    asked: Option<A>,
}

impl More<Box<JobError>, Asker> {
    fn into(text: &str, job: &mut Job) -> Result<(), KvError> {
        if !text.is_empty() {
            let more: Self = serde_json::from_str(text).map_err(|_| damaged())?;
            (job.error, job.cancel, job.asked) = (more.error, more.cancel, more.asked);
        }
        Ok(())
    }
}

impl<'a> More<&'a JobError, &'a Asker> {
    fn of(job: &'a Job) -> Result<Vec<u8>, KvError> {
        let more = More { error: job.error.as_deref(), cancel: job.cancel.as_ref(), asked: job.asked.as_ref() };
        if more.error.is_none() && more.cancel.is_none() && more.asked.is_none() {
            return Ok(Vec::new());
        }
        serde_json::to_vec(&more).map_err(|error| KvError::Corrupt(error.to_string()))
    }
}

fn status_byte(status: JobStatus) -> u8 {
    match status {
        JobStatus::Pending => 0,
        JobStatus::Running => 1,
        JobStatus::Completed => 2,
        JobStatus::Failed => 3,
        JobStatus::Cancelled => 4,
    }
}

fn status_of(byte: u8) -> Option<JobStatus> {
    JobStatus::ALL.get(usize::from(byte)).copied()
}

fn damaged() -> KvError {
    KvError::Corrupt("a job does not decode".into())
}

/// Numbers of seven bits a byte, the lowest first; texts behind their length.
pub(super) struct Out(pub(super) Vec<u8>);

impl Out {
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text);
    }
}

pub(super) struct In<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> In<'a> {
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], KvError> {
        let found = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()).ok_or_else(damaged)?;
        self.at += N;
        Ok(*found)
    }

    pub(super) fn number(&mut self) -> Result<u64, KvError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.fixed::<1>()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    fn small(&mut self) -> Result<u32, KvError> {
        u32::try_from(self.number()?).map_err(|_| damaged())
    }

    pub(super) fn slice(&mut self) -> Result<&'a [u8], KvError> {
        let bytes = usize::try_from(self.number()?).map_err(|_| damaged())?;
        let end = self.at.checked_add(bytes).ok_or_else(damaged)?;
        let found = self.bytes.get(self.at..end).ok_or_else(damaged)?;
        self.at = end;
        Ok(found)
    }

    fn text(&mut self) -> Result<&'a str, KvError> {
        std::str::from_utf8(self.slice()?).map_err(|_| damaged())
    }

    fn name<T: std::str::FromStr>(&mut self) -> Result<Option<T>, KvError> {
        match self.text()? {
            "" => Ok(None),
            name => name.parse().map(Some).map_err(|_| damaged()),
        }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

#[cfg(test)]
mod tests;
