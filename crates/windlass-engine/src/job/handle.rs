//! A job in somebody's hands: wait for it, look at it, cancel it.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::rules::Asked;
use windlass_core::job::{Job, JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::port::Refusal;

use super::Queues;
use super::wait::{Known, Seat};
use crate::command::Caller;
use crate::error::Error;

/// A job that was submitted. Dropping it changes nothing about the job. It remembers how the job ended: what another
/// instance requeues after that is another handle's to wait for.
pub struct Handle {
    queues: Queues,
    job: JobId,
    seat: Seat,
    /// It may have ended before anybody listened.
    old: bool,
}

/// What a wait came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// It ended. Its version may be lower than the stored one's, if a worker of this process completed it.
    Ended(Arc<Job>),
    /// The time was over; the job goes on.
    TimedOut,
}

impl Handle {
    pub(super) fn new(queues: Queues, job: JobId, seat: Seat, old: bool) -> Handle {
        Handle { queues, job, seat, old }
    }

    /// Which.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job
    }

    /// Whether the job may have been there before it was submitted.
    #[must_use]
    pub fn is_old(&self) -> bool {
        self.old
    }

    /// Waits until the job has ended, at most `timeout`; without one, as long as it takes. A time-out never cancels.
    /// A job that is not stored is an error: it never was, or its retention is over.
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<Waited, Error> {
        if self.old {
            self.seat.look().await?;
        }
        let known = async {
            tokio::select! { biased;
                known = self.seat.known() => Ok(known),
                // Nobody listens any more.
                () = self.queues.0.over.until(|over| *over) => Err(Error::Stopping),
            }
        };
        let known = match timeout {
            None => known.await?,
            Some(timeout) => match tokio::time::timeout(timeout, known).await {
                Ok(known) => known?,
                Err(_) => return Ok(Waited::TimedOut),
            },
        };
        match known {
            Known::Ended(job) => Ok(Waited::Ended(job)),
            Known::Gone { was_there: true } => {
                let text = format!("job {} has ended, its retention is over, and it", self.job);
                Err(Refusal::NotFound(text).into())
            }
            Known::Gone { was_there: false } | Known::Nothing => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> Error {
        Refusal::NotFound(format!("job {}", self.job)).into()
    }

    /// Its result: waits for it, and a job that did not complete is an error.
    pub async fn result(self) -> Result<Json, JobFailed> {
        match self.wait(None).await? {
            Waited::Ended(job) => outcome(&job),
            // Without a time-out there is none.
            Waited::TimedOut => Err(JobFailed::Unknown(self.unknown())),
        }
    }

    /// The job as it is stored now.
    pub async fn now(&self) -> Result<Job, Error> {
        self.queues.get(self.job).await
    }

    /// Asks for its end.
    pub async fn cancel(&self, caller: &Caller) -> Result<Asked, Error> {
        self.queues.cancel(self.job, caller).await
    }
}

/// Why a job has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobFailed {
    /// It failed.
    #[error("the job failed: {0}")]
    Failed(Box<JobError>),
    /// It was cancelled before it began.
    #[error("the job was cancelled")]
    Cancelled,
    /// Nobody can say.
    #[error(transparent)]
    Unknown(#[from] Error),
}

/// The result of a job that has ended.
pub fn outcome(job: &Job) -> Result<Json, JobFailed> {
    match (job.status, &job.result, &job.error) {
        (JobStatus::Completed, Some(result), _) => Ok(result.clone()),
        (JobStatus::Failed, _, Some(error)) => Err(JobFailed::Failed(error.clone())),
        (JobStatus::Cancelled, ..) => Err(JobFailed::Cancelled),
        (status, ..) => {
            Err(JobFailed::Unknown(Error::Invalid(format!("job {} is {status} and has no outcome", job.id))))
        }
    }
}

impl IntoFuture for Handle {
    type Output = Result<Json, JobFailed>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.result())
    }
}
