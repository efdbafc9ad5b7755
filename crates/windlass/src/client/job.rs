//! Jobs: submit, ask, cancel, requeue; and what a worker says.

use std::time::Duration;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use windlass_core::id::{JobId, QueueName, TenantId, WorkerId};
use windlass_core::job::{JobError, JobStatus};
use windlass_core::json::Json;
use windlass_core::time::Ms;

use super::plan::listed;
use super::send::Call;
use super::{Answer, Ask, Client, Error, JobHandle, Page, view};

/// A job to submit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// Where it waits.
    pub queue: QueueName,
    /// What for.
    pub payload: Json,
    /// For whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Higher ones go first among the jobs of a tenant in a queue.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i8,
    /// Not before this moment …
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text")]
    pub run_at: Option<Ms>,
    /// … or not before so long after it was submitted, as `90s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// How often it is tried; once unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long one attempt may take, as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// As long as a job with it is stored, the same key is the same job, within its tenant and queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde asks for")]
fn is_zero(n: &i8) -> bool {
    *n == 0
}

fn text<S: serde::Serializer>(at: &Option<Ms>, to: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => to.collect_str(at),
        None => to.serialize_none(),
    }
}

impl JobSpec {
    /// A job with nothing particular about it.
    #[must_use]
    pub fn new(queue: QueueName, payload: Json) -> JobSpec {
        let (tenant, run_at, delay, max_attempts, timeout, key) = (None, None, None, None, None, None);
        JobSpec { queue, payload, tenant, priority: 0, run_at, delay, max_attempts, timeout, key }
    }
}

/// Which jobs to list, or to change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Jobs {
    /// In this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueName>,
    /// Of this tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// Standing here; empty is anywhere.
    #[serde(rename = "status", skip_serializing_if = "Vec::is_empty")]
    pub statuses: Vec<JobStatus>,
    /// On a page, at most.
    #[serde(skip)]
    pub limit: Option<u32>,
    /// After this place.
    #[serde(skip)]
    pub after: Option<String>,
}

/// What a bulk operation came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Bulk {
    /// Jobs that were changed.
    pub count: u32,
    /// There are more that fit.
    #[serde(default)]
    pub more: bool,
}

/// What is to bound a queue, or a tenant's jobs. What is not given stays as it is; `Some(None)` takes a bound away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SetLimits {
    /// Jobs that run at once, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Option<u32>>,
    /// Jobs that wait, at most: further ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Option<u32>>,
    /// Nothing of it is claimed until this is lifted. A tenant is held by freezing it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
}

/// Everything a worker has to say at one moment, in one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The queues it works on, in the order in which they are asked.
    pub queues: Vec<QueueName>,
    /// Who.
    pub worker: WorkerId,
    /// What it has room for.
    pub max: u32,
    /// How long what it claims stays its own without a sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long the server may wait for something to claim, as `20s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// What is done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub complete: Vec<Finished>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fail: Vec<Failed>,
    /// What goes back unworked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub release: Vec<Held>,
    /// What goes on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub heartbeat: Vec<Held>,
}

/// A job in a worker's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[expect(missing_docs, reason = "which, and under which fence")]
pub struct Held {
    pub job: JobId,
    pub fence: u64,
}

/// A job that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "which, under which fence, and what came of it")]
pub struct Finished {
    pub job: JobId,
    pub fence: u64,
    pub result: Json,
}

/// A job that is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Which.
    pub job: JobId,
    /// Under which fence.
    pub fence: u64,
    /// What went wrong.
    pub error: JobError,
    /// Whether another attempt could help; it may unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<bool>,
}

/// What a claim came to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claimed {
    /// Jobs that are this worker's now.
    #[serde(default)]
    pub claimed: Vec<view::Job>,
    /// For each thing that was said, in the order complete, fail, release, heartbeat.
    #[serde(default)]
    pub answers: Vec<Settled>,
    /// Jobs of this worker whose end was asked for.
    #[serde(default)]
    pub cancel_requested: Vec<JobId>,
}

/// What was said of one job came to this.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Settled {
    /// Which.
    pub job: JobId,
    /// It was taken.
    pub ok: bool,
    /// Why not.
    #[serde(default)]
    pub code: Option<String>,
    /// In words.
    #[serde(default)]
    pub detail: Option<String>,
}

impl Client {
    /// Submits one job. Await the handle for its result.
    pub async fn submit(&self, job: &JobSpec) -> Result<JobHandle, Error> {
        Ok(self.handle(self.submit_with(job, &Ask::default()).await?.id))
    }

    /// Submits one job, and answers whether it was there before.
    pub async fn submit_with(&self, job: &JobSpec, ask: &Ask) -> Result<Answer<view::Submitted>, Error> {
        let call = Call::write(Method::POST, "v1/jobs", ask.key.as_ref()).flag("dryRun", ask.dry_run);
        self.call(call.json(job)?).await
    }

    /// Whether a job would be taken, without submitting it.
    pub async fn check_job(&self, job: &JobSpec) -> Result<(), Error> {
        let call = Call::bare(Method::POST, "v1/jobs").flag("dryRun", true);
        self.call::<Json>(call.json(job)?).await.map(drop)
    }

    /// Submits up to 1,000 jobs, all or none.
    pub async fn submit_all(&self, jobs: &[JobSpec]) -> Result<Vec<JobHandle>, Error> {
        let call = Call::write(Method::POST, "v1/jobs", None).json(jobs)?;
        let stored: Answer<Vec<view::Submitted>> = self.call(call).await?;
        Ok(stored.view.into_iter().map(|job| self.handle(job.id)).collect())
    }

    /// A handle to a job that somebody submitted.
    #[must_use]
    pub fn handle(&self, job: JobId) -> JobHandle {
        JobHandle::new(self.clone(), job)
    }

    /// A job as it is stored; with a wait, when it has ended or the wait is over (60 seconds at most).
    pub async fn job(&self, job: JobId, wait: Duration) -> Result<Answer<view::Job>, Error> {
        self.call(Call::get(format!("v1/jobs/{job}")).waiting(wait)).await
    }

    /// A page of jobs.
    pub async fn jobs(&self, which: &Jobs) -> Result<Page<view::Job>, Error> {
        let call = Call::get("v1/jobs").with("queue", which.queue.as_ref()).with("tenant", which.tenant.as_ref());
        let call = call.with("status", listed(&which.statuses, JobStatus::name));
        self.page(call.with("limit", which.limit).with("after", which.after.as_ref())).await
    }

    /// Cancels a job: one that waits is CANCELLED, one that runs is asked to end.
    pub async fn cancel_job(&self, job: JobId, ask: &Ask) -> Result<Answer<view::Asked>, Error> {
        self.operation(Method::POST, format!("v1/jobs/{job}/cancel"), ask, ()).await
    }

    /// Puts a dead job back to work.
    pub async fn requeue_job(&self, job: JobId, ask: &Ask) -> Result<Answer<view::Asked>, Error> {
        self.operation(Method::POST, format!("v1/jobs/{job}/requeue"), ask, ()).await
    }

    /// Cancels what fits.
    pub async fn cancel_jobs(&self, which: &Jobs, ask: &Ask) -> Result<Answer<Bulk>, Error> {
        self.bulk("cancel", which, ask).await
    }

    /// Requeues what fits and is dead.
    pub async fn requeue_jobs(&self, which: &Jobs, ask: &Ask) -> Result<Answer<Bulk>, Error> {
        self.bulk("requeue", which, ask).await
    }

    async fn bulk(&self, verb: &str, which: &Jobs, ask: &Ask) -> Result<Answer<Bulk>, Error> {
        #[derive(Serialize)]
        struct More<'a> {
            filter: &'a Jobs,
        }
        self.operation(Method::POST, format!("v1/jobs/{verb}"), ask, More { filter: which }).await
    }

    /// A page of queues, by name.
    pub async fn queues(&self, limit: Option<u32>, after: Option<&str>) -> Result<Page<view::Queue>, Error> {
        self.page(Call::get("v1/queues").with("limit", limit).with("after", after)).await
    }

    /// What bounds a queue.
    pub async fn limits(&self, queue: &QueueName) -> Result<Answer<view::Limits>, Error> {
        self.call(Call::get(format!("v1/queues/{queue}/limits"))).await
    }

    /// Bounds a queue. One on hold gives out nothing.
    pub async fn set_limits(
        &self,
        queue: &QueueName,
        limits: &SetLimits,
        ask: &Ask,
    ) -> Result<Answer<view::Limits>, Error> {
        self.operation(Method::PUT, format!("v1/queues/{queue}/limits"), ask, limits).await
    }

    /// What bounds a tenant's jobs, in all queues.
    pub async fn tenant_limits(&self, tenant: &TenantId) -> Result<Answer<view::Limits>, Error> {
        self.call(Call::get(format!("v1/tenants/{tenant}/limits"))).await
    }

    /// Bounds a tenant's jobs, in all queues.
    pub async fn set_tenant_limits(
        &self,
        tenant: &TenantId,
        limits: &SetLimits,
        ask: &Ask,
    ) -> Result<Answer<view::Limits>, Error> {
        self.operation(Method::PUT, format!("v1/tenants/{tenant}/limits"), ask, limits).await
    }

    /// Says what ended and what goes on, and claims what there is room for.
    pub async fn claim(&self, claim: &Claim, wait: Duration) -> Result<Claimed, Error> {
        let call = Call::bare(Method::POST, "v1/claim").patient(wait);
        Ok(self.call(call.json(claim)?).await?.view)
    }
}
