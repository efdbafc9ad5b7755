//! What may happen to a job. Each rule takes the stored job and answers what it becomes, or why not; the
//! store's clock, its fences and chance come from outside.

use super::error::{CANCELLED, LOST, TIMEOUT};
use super::{Asker, DELIVERIES_MAX, Job, JobError, JobStatus, NewJob, PAYLOAD_BYTES_MAX, When};
use crate::fence::Fence;
use crate::id::WorkerId;
use crate::json::Json;
use crate::port::Refusal;
use crate::time::Ms;

/// What a worker says of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Completed(Json),
    /// Not done.
    Failed {
        /// Why.
        error: Box<JobError>,
        /// Whether another attempt makes sense, if there is one left.
        retry: bool,
        /// Chance of 0 to 999, for the pause before it.
        spread: u16,
    },
    /// Not begun, or not to be finished here: it waits again, and the attempt does not count.
    Released,
}

/// What a person does to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobAsk {
    /// It shall not run, or not go on.
    Cancel,
    /// It shall run again: FAILED becomes PENDING, with all its attempts before it.
    Requeue,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It is CANCELLED.
    Cancelled,
    /// It runs; its worker is told with its next heartbeat.
    Requested,
    /// It had ended before.
    Ended(JobStatus),
    /// It is PENDING.
    Requeued,
}

/// The job that a submission makes.
#[must_use]
pub fn accept(new: &NewJob, seq: u64, now: Ms) -> Job {
    stamp(draft(new), new.when, seq, now)
}

/// All of a submission that is known before the store has taken it: what whoever submits can work out for itself.
#[must_use]
pub fn draft(new: &NewJob) -> Job {
    Job {
        id: new.id,
        queue: new.queue.clone(),
        status: JobStatus::Pending,
        payload: new.payload.clone(),
        result: None,
        error: None,
        submitted_at: Ms::ZERO,
        started_at: None,
        completed_at: None,
        version: 1,
        seq: 0,
        tenant: new.tenant.clone(),
        priority: new.priority,
        run_at: Ms::ZERO,
        attempt: 0,
        max_attempts: new.max_attempts,
        deliveries: 0,
        backoff: new.backoff,
        timeout_ms: new.timeout_ms,
        worker: None,
        fence: Fence::NONE,
        lease_until: Ms::ZERO,
        key: new.key.clone(),
        digest: new.digest(),
        cancel: None,
        asked: None,
    }
}

/// The rest: its place in the order of submission, and its times.
#[must_use]
pub fn stamp(mut job: Job, when: When, seq: u64, now: Ms) -> Job {
    job.seq = seq;
    job.submitted_at = now;
    job.run_at = match when {
        When::Now => now,
        When::In(ms) => now.plus(ms),
        When::At(at) => at.max(now),
    };
    job
}

/// Whether it can be delivered now: it waits and its time has come, or its worker has not been heard of.
#[must_use]
pub fn is_claimable(job: &Job, now: Ms) -> bool {
    match job.status {
        JobStatus::Pending => job.run_at <= now,
        JobStatus::Running => job.lease_until <= now,
        _ => false,
    }
}

/// What claiming a job comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivered {
    /// It runs under the new fence.
    Claimed(Job),
    /// Its worker was lost once too often, it took too long, or it was to end: it is FAILED or waits for its
    /// next attempt, and is not delivered now.
    Settled(Job),
}

/// Delivers a claimable job to `worker`. A job whose worker was not heard of stays RUNNING, under the higher fence.
#[must_use]
pub fn deliver(mut job: Job, worker: &WorkerId, fence: Fence, lease_ms: u64, now: Ms) -> Delivered {
    if job.status == JobStatus::Running {
        match expire(job, now) {
            Expired::Settled(job) => return Delivered::Settled(job),
            Expired::Again(again) => job = again,
        }
    } else {
        job.attempt += 1;
    }
    job.status = JobStatus::Running;
    job.deliveries += 1;
    job.worker = Some(worker.clone());
    job.fence = fence;
    job.started_at = Some(now.max(job.submitted_at));
    job.lease_until = now.plus(lease_ms);
    job.version += 1;
    Delivered::Claimed(job)
}

/// What the end of a lease comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expired {
    /// It may be delivered again.
    Again(Job),
    /// It is FAILED, or waits for its next attempt.
    Settled(Job),
}

/// Judges a RUNNING job whose lease has run out.
#[must_use]
pub fn expire(job: Job, now: Ms) -> Expired {
    if job.cancel.is_some() {
        let error = JobError::of(CANCELLED, "its end was asked for, and its worker was not heard of again");
        return Expired::Settled(failed(job, error, now));
    }
    if job.deadline().is_some_and(|deadline| deadline <= now) {
        let error = JobError::of(TIMEOUT, format!("no answer within {} ms", job.timeout_ms.unwrap_or(0)));
        return Expired::Settled(again_or_failed(job, error, true, 0, now));
    }
    if job.deliveries >= DELIVERIES_MAX {
        let error = JobError::of(LOST, format!("delivered {} times, and no worker answered", job.deliveries));
        return Expired::Settled(failed(job, error, now));
    }
    Expired::Again(job)
}

/// A worker says it is alive. Answers the job with its lease prolonged; late is refused.
pub fn beat(mut job: Job, fence: Fence, lease_ms: u64, now: Ms) -> Result<Job, Refusal> {
    holds(&job, fence)?;
    if job.deadline().is_some_and(|deadline| deadline <= now) {
        return Err(Refusal::TimedOut { timeout_ms: job.timeout_ms.unwrap_or(0) });
    }
    job.lease_until = now.plus(lease_ms);
    job.version += 1;
    Ok(job)
}

/// A worker answers. `None`: this delivery has been answered before, and that stands. An answer after the lease
/// ran out is taken as long as nobody else has got the job: its fence is still the highest.
pub fn settle(mut job: Job, fence: Fence, outcome: Outcome, now: Ms) -> Result<Option<Job>, Refusal> {
    if job.status != JobStatus::Running && job.fence == fence && fence != Fence::NONE {
        return Ok(None);
    }
    holds(&job, fence)?;
    match outcome {
        Outcome::Completed(result) => {
            check_result(&result)?;
            job.result = Some(result);
            job.error = None;
            Ok(Some(ended(job, JobStatus::Completed, now)))
        }
        Outcome::Failed { error, retry, spread } => {
            error.check()?;
            Ok(Some(again_or_failed(job, *error, retry, spread, now)))
        }
        Outcome::Released if job.cancel.is_some() => {
            Ok(Some(failed(job, JobError::of(CANCELLED, "its end was asked for while it ran"), now)))
        }
        Outcome::Released => {
            job.attempt = job.attempt.saturating_sub(1);
            Ok(Some(waits(job, now, now)))
        }
    }
}

/// Whether a result is within its bounds.
pub fn check_result(result: &Json) -> Result<(), Refusal> {
    match result.as_str().len() {
        bytes if bytes > PAYLOAD_BYTES_MAX => Err(Refusal::Invalid(format!(
            "the result is {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are kept: store it elsewhere and return where"
        ))),
        _ => Ok(()),
    }
}

/// A person asks. `None` beside the answer: nothing changes.
pub fn ask(mut job: Job, ask: JobAsk, asker: Asker) -> Result<(Asked, Option<Job>), Refusal> {
    let now = asker.at;
    match (ask, job.status) {
        (JobAsk::Cancel, JobStatus::Pending) => {
            job.asked = Some(asker);
            job.error = None;
            Ok((Asked::Cancelled, Some(ended(job, JobStatus::Cancelled, now))))
        }
        // Who asked first stays on record.
        (JobAsk::Cancel, JobStatus::Running) if job.cancel.is_some() => Ok((Asked::Requested, None)),
        (JobAsk::Cancel, JobStatus::Running) => {
            job.cancel = Some(asker);
            job.version += 1;
            Ok((Asked::Requested, Some(job)))
        }
        (JobAsk::Cancel, ended) => Ok((Asked::Ended(ended), None)),
        (JobAsk::Requeue, JobStatus::Failed) => {
            job.asked = Some(asker);
            job.attempt = 0;
            job.started_at = None;
            job.completed_at = None;
            job.error = None;
            Ok((Asked::Requeued, Some(waits(job, now, now))))
        }
        (JobAsk::Requeue, status) => Err(Refusal::State { status: status.name(), expected: "FAILED".into() }),
    }
}

fn holds(job: &Job, fence: Fence) -> Result<(), Refusal> {
    if job.fence != fence {
        return Err(Refusal::Stale { given: fence, stored: job.fence });
    }
    match job.status {
        JobStatus::Running => Ok(()),
        status => Err(Refusal::State { status: status.name(), expected: "RUNNING".into() }),
    }
}

/// After a failed attempt: the next one, if there is one and nobody asked for the end.
fn again_or_failed(mut job: Job, error: JobError, retry: bool, spread: u16, now: Ms) -> Job {
    if job.cancel.is_some() {
        let mut cancelled = JobError::of(CANCELLED, "its end was asked for while it ran");
        cancelled.previous = Some(Box::new(error));
        return failed(job, cancelled.cut(), now);
    }
    if !retry || job.attempt >= job.max_attempts {
        return failed(job, error, now);
    }
    let run_at = now.plus(job.backoff.delay_ms(job.attempt, spread));
    job.error = Some(Box::new(error));
    waits(job, run_at, now)
}

fn failed(mut job: Job, error: JobError, now: Ms) -> Job {
    job.error = Some(Box::new(error));
    ended(job, JobStatus::Failed, now)
}

fn ended(mut job: Job, status: JobStatus, now: Ms) -> Job {
    job.completed_at = Some(now.max(job.started_at.unwrap_or(job.submitted_at)));
    left(&mut job, status);
    job
}

fn waits(mut job: Job, run_at: Ms, now: Ms) -> Job {
    job.run_at = run_at.max(now);
    left(&mut job, JobStatus::Pending);
    job
}

/// Nobody runs it any more. Its fence stays: what comes late under it is known.
fn left(job: &mut Job, status: JobStatus) {
    job.status = status;
    job.worker = None;
    job.deliveries = 0;
    job.lease_until = Ms::ZERO;
    job.cancel = None;
    job.version += 1;
}
