//! Jobs as rows.

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, TenantId};
use windlass_core::job::{Backoff, Job, JobStatus};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::cell::{Cells, json};
use crate::error::corrupt;
use crate::text::{Script, row};

/// What [`job`] reads, of a table `t`.
pub(super) const JOB: &str = "t.task_id, t.queue, t.tenant_id, t.status, t.payload, t.result, t.error, t.submitted_at, t.started_at, \
     t.completed_at, t.version, t.seq, t.priority, t.run_at, t.attempt, t.max_attempts, t.deliveries, t.backoff_first_ms, \
     t.backoff_max_ms, t.timeout_ms, t.worker, t.fence, t.lease_until, t.`key`, t.digest, t.cancel, t.asked";

/// What stands for no tenant.
pub(super) fn tenant_text(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

pub(super) fn tenant_of(text: &str) -> Result<Option<TenantId>, PortError> {
    match text {
        "" => Ok(None),
        tenant => tenant.parse().map(Some).map_err(|why| corrupt("tenant_id", why)),
    }
}

pub(super) fn job(cells: &mut Cells<'_>) -> Result<Job, PortError> {
    let (id, queue): (JobId, _) = (cells.parse()?, cells.parse()?);
    let tenant = tenant_of(cells.text()?)?;
    let status = status(cells.text()?)?;
    let (payload, result) = (user_json(cells)?, user_json(cells)?);
    let error = cells.json_or_none()?;
    Ok(Job {
        id,
        queue,
        status,
        payload,
        result,
        error,
        submitted_at: cells.at()?,
        started_at: cells.at_or_none()?,
        completed_at: cells.at_or_none()?,
        version: cells.parse()?,
        seq: cells.parse()?,
        tenant,
        priority: cells.parse()?,
        run_at: cells.at()?,
        attempt: cells.parse()?,
        max_attempts: cells.parse()?,
        deliveries: cells.parse()?,
        backoff: Backoff { first_ms: cells.parse()?, max_ms: cells.parse()? },
        timeout_ms: cells.parse_or_none()?,
        worker: cells.parse_or_none()?,
        fence: Fence(cells.parse()?),
        lease_until: cells.at_or_none()?.unwrap_or(Ms::ZERO),
        key: cells.text_or_none()?.map(str::to_owned),
        digest: cells.parse()?,
        cancel: cells.json_or_none()?,
        asked: cells.json_or_none()?,
    })
}

/// What users wrote was checked when it came, so it is only wrapped.
fn user_json(cells: &mut Cells<'_>) -> Result<Option<Json>, PortError> {
    cells.text_or_none()?.map(Json::parse).transpose().map_err(|why| corrupt("a job's payload or result", why))
}

fn status(text: &str) -> Result<JobStatus, PortError> {
    let known = JobStatus::ALL.into_iter().find(|status| status.name() == text);
    known.ok_or_else(|| corrupt("status", format!("{text:?} is none")))
}

/// Where a live job is looked for, and when somebody must look at it.
fn lane(job: &Job, now: Ms) -> (Option<u8>, Option<Ms>) {
    match job.status {
        JobStatus::Pending if job.run_at <= now => (Some(1), None),
        JobStatus::Pending => (Some(2), Some(job.run_at)),
        JobStatus::Running => (Some(3), Some(job.lease_until)),
        _ => (None, None),
    }
}

/// New jobs, in this order.
pub(super) fn insert(script: &mut Script, jobs: &[Job], now: Ms) {
    let rows = jobs.iter().map(|job| {
        let (live, wake_at) = lane(job, now);
        row![
            job.id.to_string(),
            job.queue.as_str(),
            tenant_text(job.tenant.as_ref()),
            job.status.name(),
            job.payload.as_ref().map(Json::as_str),
            job.submitted_at,
            job.version,
            job.priority,
            -i16::from(job.priority),
            live,
            job.run_at,
            wake_at,
            job.max_attempts,
            job.backoff.first_ms,
            job.backoff.max_ms,
            job.timeout_ms,
            job.key.as_deref(),
            job.digest,
        ]
    });
    let head = "INSERT INTO async_tasks (task_id, queue, tenant_id, status, payload, submitted_at, version, priority, `rank`, live, \
                run_at, wake_at, max_attempts, backoff_first_ms, backoff_max_ms, timeout_ms, `key`, digest) VALUES ";
    script.rows(head, rows, "");
}

/// Writes what may have changed of jobs that were locked before: they are there.
pub(super) fn update(script: &mut Script, mut jobs: Vec<&Job>, now: Ms) -> Result<(), PortError> {
    jobs.sort_unstable_by_key(|job| job.seq);
    let rows = jobs.into_iter().map(|job| {
        let (live, wake_at) = lane(job, now);
        Ok(row![
            job.seq,
            job.id.to_string(),
            job.status.name(),
            job.result.as_ref().map(Json::as_str),
            job.error.as_ref().map(json).transpose()?,
            job.started_at,
            job.completed_at,
            job.version,
            live,
            job.run_at,
            wake_at,
            job.attempt,
            job.deliveries,
            job.worker.as_ref().map(|worker| worker.as_str()),
            Some(job.lease_until).filter(|until| *until > Ms::ZERO),
            job.cancel.as_ref().map(json).transpose()?,
            job.asked.as_ref().map(json).transpose()?,
            job.status.is_ended().then(|| job.status.name()),
        ])
    });
    script.rows(
        "INSERT INTO async_tasks (seq, task_id, status, result, error, started_at, completed_at, version, live, run_at, wake_at, \
         attempt, deliveries, worker, lease_until, cancel, asked, ended_as) VALUES ",
        rows.collect::<Result<Vec<_>, PortError>>()?,
        "ON DUPLICATE KEY UPDATE status = VALUES(status), result = VALUES(result), error = VALUES(error), \
         started_at = VALUES(started_at), completed_at = VALUES(completed_at), version = VALUES(version), live = VALUES(live), \
         run_at = VALUES(run_at), wake_at = VALUES(wake_at), attempt = VALUES(attempt), deliveries = VALUES(deliveries), \
         worker = VALUES(worker), lease_until = VALUES(lease_until), cancel = VALUES(cancel), asked = VALUES(asked), \
         ended_as = VALUES(ended_as)",
    );
    Ok(())
}
