//! A job in somebody's hands: await it, look at it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::{JobError, JobStatus};
use windlass_core::json::Json;

use super::{Answer, Client, Error, view};

/// How long one call waits.
const LOOK: Duration = Duration::from_secs(30);

/// A job that was submitted. Awaiting it gives its result; dropping it changes nothing about the job.
#[derive(Clone)]
pub struct JobHandle {
    client: Client,
    job: JobId,
    limit: Option<Duration>,
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotDone {
    /// It failed as often as it may.
    #[error("job {0} failed: {1}")]
    Failed(JobId, Box<JobError>),
    /// Somebody cancelled it.
    #[error("job {0} was cancelled")]
    Cancelled(JobId),
    /// The time is over. The job goes on: a time-out never cancels.
    #[error("job {0} has not ended yet")]
    TimedOut(JobId),
    /// The server could not say.
    #[error(transparent)]
    Client(#[from] Error),
}

impl JobHandle {
    pub(super) fn new(client: Client, job: JobId) -> JobHandle {
        JobHandle { client, job, limit: None }
    }

    /// Which.
    #[must_use]
    pub fn id(&self) -> JobId {
        self.job
    }

    /// Awaiting it takes no longer than this.
    #[must_use]
    pub fn within(self, limit: Duration) -> JobHandle {
        JobHandle { limit: Some(limit), ..self }
    }

    /// The job as it stands.
    pub async fn now(&self) -> Result<Answer<view::Job>, Error> {
        self.client.job(self.job, Duration::ZERO).await
    }

    /// Waits until the job has ended; `None` when the time is over.
    pub async fn wait(&self, limit: Option<Duration>) -> Result<Option<Answer<view::Job>>, Error> {
        let end = limit.map(|limit| tokio::time::Instant::now() + limit);
        loop {
            let left = end.map_or(LOOK, |end| end.saturating_duration_since(tokio::time::Instant::now()));
            let job = self.client.job(self.job, left.min(LOOK)).await?;
            if job.status.is_ended() {
                return Ok(Some(job));
            }
            if end.is_some_and(|end| tokio::time::Instant::now() >= end) {
                return Ok(None);
            }
        }
    }

    async fn result(self) -> Result<Json, NotDone> {
        let Some(job) = self.wait(self.limit).await? else { return Err(NotDone::TimedOut(self.job)) };
        let job = job.view;
        match job.status {
            JobStatus::Completed => Ok(job.result.unwrap_or_else(Json::null)),
            JobStatus::Cancelled => Err(NotDone::Cancelled(self.job)),
            _ => Err(NotDone::Failed(self.job, job.error.unwrap_or_default())),
        }
    }
}

impl IntoFuture for JobHandle {
    type Output = Result<Json, NotDone>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.result())
    }
}
