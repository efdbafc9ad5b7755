//! Jobs: a payload that waits in a queue for a worker, and a result to wait for. The record and its own
//! rules are here; what may happen to one is in [`rules`].

pub mod error;
pub mod limit;
pub mod locked;
pub mod recent;
pub mod rules;
pub mod submission;

use serde::{Deserialize, Serialize};

use crate::by::{By, Reason};
use crate::fence::Fence;
use crate::id::{JobId, QueueName, TenantId, WorkerId};
use crate::json::{Json, given};
use crate::port::Refusal;
use crate::retry::Retry;
use crate::time::Ms;

pub use error::JobError;

/// The largest payload and the largest result, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 1024 * 1024;
/// The longest idempotency key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;
/// Attempts that may be asked for, at most.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// A job that was delivered this often without an answer is lost.
pub const DELIVERIES_MAX: u32 = 3;
/// The longest timeout of an attempt, and the longest delay: a year.
pub const DURATION_MS_MAX: u64 = 366 * 24 * 3_600_000;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobStatus {
    /// Waits for a worker, or for its time.
    Pending,
    /// Delivered to a worker.
    Running,
    /// Done, with a result.
    Completed,
    /// Not done, with an error: dead until a person requeues it.
    Failed,
    /// Taken back before it began.
    Cancelled,
}

impl JobStatus {
    /// Every one.
    pub const ALL: [JobStatus; 5] =
        [JobStatus::Pending, JobStatus::Running, JobStatus::Completed, JobStatus::Failed, JobStatus::Cancelled];

    /// Its name, as people and stores write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            JobStatus::Pending => "PENDING",
            JobStatus::Running => "RUNNING",
            JobStatus::Completed => "COMPLETED",
            JobStatus::Failed => "FAILED",
            JobStatus::Cancelled => "CANCELLED",
        }
    }

    /// Nothing happens to it any more by itself.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)
    }
}

impl std::fmt::Display for JobStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A job as it is submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Made by whoever submits, so that a submission can be repeated when its answer was lost.
    pub id: JobId,
    /// Where it waits.
    pub queue: QueueName,
    /// What for.
    pub payload: Option<Json>,
    /// For whom; jobs without a tenant take turns as if they had one of their own.
    pub tenant: Option<TenantId>,
    /// Higher ones go first among the jobs of a tenant in a queue.
    pub priority: i8,
    /// When it may begin.
    pub when: When,
    /// How often it is tried.
    pub max_attempts: u32,
    /// The pause between two attempts.
    pub backoff: Backoff,
    /// How long one attempt may take; `None`: as long as its worker says it is alive.
    pub timeout_ms: Option<u64>,
    /// With the tenant and the queue: as long as a job with it is stored, the same key is the same job.
    pub key: Option<String>,
}

/// When a job may begin, by the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// So many milliseconds after it was submitted.
    In(u64),
    /// Not before this moment.
    At(Ms),
}

/// Pauses between attempts: doubled from one to the next, up to the maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Backoff {
    /// The first.
    pub first_ms: u64,
    /// The longest.
    pub max_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first_ms: 1_000, max_ms: 300_000 }
    }
}

impl Backoff {
    /// The pause after `tried` attempts; `spread` of 0 to 999 takes up to half of it away, so that what failed
    /// together does not come back together.
    #[must_use]
    pub fn delay_ms(self, tried: u32, spread: u16) -> u64 {
        let retry = Retry { max: u32::MAX, backoff_ms: self.first_ms, max_backoff_ms: self.max_ms };
        retry.delay_ms(tried.max(1), f64::from(spread.min(999)) / 1_000.0).unwrap_or(self.max_ms)
    }
}

/// A job as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// Which.
    pub id: JobId,
    /// Where it waits.
    pub queue: QueueName,
    /// Where it stands.
    pub status: JobStatus,
    /// What for.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// What came of it; JSON `null` is a result.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub result: Option<Json>,
    /// What went wrong: with it FAILED; while it waits for or runs another attempt, in the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<JobError>>,
    /// When it was submitted.
    pub submitted_at: Ms,
    /// When its newest delivery began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Ms>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Ms>,
    /// Grows with every write.
    pub version: u64,
    /// Its place in the order of submission; drawn by the store.
    pub seq: u64,
    /// For whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Higher ones go first.
    pub priority: i8,
    /// Not before.
    pub run_at: Ms,
    /// Attempts that have begun.
    pub attempt: u32,
    /// Attempts there may be.
    pub max_attempts: u32,
    /// Deliveries since a worker last answered.
    pub deliveries: u32,
    /// The pause between two attempts.
    pub backoff: Backoff,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerId>,
    /// Of its newest delivery.
    pub fence: Fence,
    /// Until when the worker is believed to be alive.
    pub lease_until: Ms,
    /// See [`NewJob::key`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A digest of what was submitted: the same id or key with another one is refused.
    pub digest: u64,
    /// Who asked for its end while it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Asker>,
    /// Who last cancelled or requeued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Asker>,
}

/// Who asked for something, when and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Asker {
    /// Who.
    pub by: By,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// When.
    pub at: Ms,
}

impl NewJob {
    /// A job with nothing particular about it.
    #[must_use]
    pub fn new(id: JobId, queue: QueueName, payload: Option<Json>) -> NewJob {
        NewJob {
            id,
            queue,
            payload,
            tenant: None,
            priority: 0,
            when: When::Now,
            max_attempts: 1,
            backoff: Backoff::default(),
            timeout_ms: None,
            key: None,
        }
    }

    /// What holds whatever is stored. Every store asks this first.
    pub fn check(&self) -> Result<(), Refusal> {
        let bound = |what: &str, found: String, most: String| {
            Err(Refusal::Invalid(format!("{what} of job {} is {found}; at most {most}", self.id)))
        };
        let bytes = self.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        if bytes > PAYLOAD_BYTES_MAX {
            return bound("the payload", format!("{bytes} bytes"), format!("{PAYLOAD_BYTES_MAX} are allowed"));
        }
        if let Some(key) = &self.key
            && (key.is_empty() || key.len() > KEY_BYTES_MAX || key.chars().any(char::is_control))
        {
            return Err(Refusal::Invalid(format!(
                "the idempotency key of job {} must be 1 to {KEY_BYTES_MAX} bytes of printable text",
                self.id
            )));
        }
        if self.max_attempts == 0 || self.max_attempts > ATTEMPTS_MAX {
            return Err(Refusal::Invalid(format!(
                "maxAttempts of job {} is {}; 1 to {ATTEMPTS_MAX} are allowed",
                self.id, self.max_attempts
            )));
        }
        if self.timeout_ms == Some(0) {
            return Err(Refusal::Invalid(format!(
                "timeout of job {} is 0; leave it out for none, or give at least 1 ms",
                self.id
            )));
        }
        let delay = if let When::In(delay) = self.when { delay } else { 0 };
        let longest =
            [delay, self.timeout_ms.unwrap_or(0), self.backoff.first_ms, self.backoff.max_ms].into_iter().max();
        if longest.is_some_and(|longest| longest > DURATION_MS_MAX) {
            return bound("a duration", format!("{} ms", longest.unwrap_or(0)), format!("{DURATION_MS_MAX} ms"));
        }
        Ok(())
    }

    /// What makes a repeat the same submission: everything but the id and the clock.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let when = match self.when {
            When::Now => "now".to_owned(),
            When::In(ms) => format!("in {ms}"),
            When::At(at) => format!("at {}", at.get()),
        };
        let text = [
            self.queue.as_str(),
            self.tenant.as_ref().map_or("", TenantId::as_str),
            self.payload.as_ref().map_or("-", Json::as_str),
            &format!("{} {when} {}", self.priority, self.max_attempts),
            &format!("{:?} {:?} {:?}", self.backoff, self.timeout_ms, self.key),
        ];
        text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, part| fold(fold(hash, part.as_bytes()), &[0]))
    }
}

/// FNV-1a.
fn fold(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Job {
    /// What holds of every stored job.
    pub fn check(&self) -> Result<(), Refusal> {
        let no = |why: &str| Err(Refusal::Invalid(format!("job {} is {} {why}", self.id, self.status)));
        match self.status {
            JobStatus::Completed if self.result.is_none() => return no("without a result"),
            JobStatus::Failed if self.error.is_none() => return no("without an error"),
            JobStatus::Cancelled if self.result.is_some() || self.error.is_some() => {
                return no("with a result or an error");
            }
            JobStatus::Running if self.worker.is_none() || self.started_at.is_none() => return no("without a worker"),
            JobStatus::Pending | JobStatus::Running if self.completed_at.is_some() || self.result.is_some() => {
                return no("with an end");
            }
            status if status.is_ended() && self.completed_at.is_none() => return no("without an end"),
            status if status != JobStatus::Running && self.worker.is_some() => return no("with a worker"),
            _ => {}
        }
        if self.started_at.is_some_and(|at| at < self.submitted_at) {
            return no("and started before it was submitted");
        }
        if self.completed_at.is_some_and(|at| at < self.started_at.unwrap_or(self.submitted_at)) {
            return no("and ended before it started");
        }
        Ok(())
    }

    /// The moment its attempt has taken too long.
    #[must_use]
    pub fn deadline(&self) -> Option<Ms> {
        Some(self.started_at?.plus(self.timeout_ms?))
    }
}

#[cfg(test)]
mod tests;
