//! Jobs as rows: read from what `job_columns!` selects, written by columns.

use windlass_core::fence::Fence;
use windlass_core::id::TenantId;
use windlass_core::job::{Backoff, Job, JobStatus};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::cell::{Cells, Id, Stamp, json, params, signed};
use crate::error::corrupt;
use crate::pool::Call;
use crate::sql;

/// What stands for no tenant.
pub(super) fn tenant_text(tenant: Option<&TenantId>) -> &str {
    tenant.map_or("", TenantId::as_str)
}

/// Reads what `job_columns!` selects.
pub(super) fn job(cells: &mut Cells<'_>) -> Result<Job, PortError> {
    let id = cells.get::<Id>()?.0;
    let queue = cells.parse()?;
    let tenant = match cells.get::<&str>()? {
        "" => None,
        tenant => Some(tenant.parse().map_err(|why| corrupt("tenant_id", why))?),
    };
    let status = status(cells.get()?)?;
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
        version: cells.count()?,
        seq: cells.count()?,
        tenant,
        priority: i8::try_from(cells.get::<i16>()?).map_err(|why| corrupt("priority", why))?,
        run_at: cells.at()?,
        attempt: cells.get::<i32>()?.cast_unsigned(),
        max_attempts: cells.get::<i32>()?.cast_unsigned(),
        deliveries: cells.get::<i32>()?.cast_unsigned(),
        backoff: Backoff { first_ms: cells.count()?, max_ms: cells.count()? },
        timeout_ms: cells.get::<Option<i64>>()?.map(i64::cast_unsigned),
        worker: cells.parse_or_none()?,
        fence: Fence(cells.count()?),
        lease_until: cells.at_or_none()?.unwrap_or(Ms::ZERO),
        key: cells.get()?,
        digest: cells.get::<i64>()?.cast_unsigned(),
        cancel: cells.json_or_none()?,
        asked: cells.json_or_none()?,
    })
}

/// What users wrote was checked when it came, so it is only wrapped.
fn user_json(cells: &mut Cells<'_>) -> Result<Option<Json>, PortError> {
    let text: Option<&str> = cells.get()?;
    text.map(Json::parse).transpose().map_err(|why| corrupt("a job's payload or result", why))
}

fn status(text: &str) -> Result<JobStatus, PortError> {
    let known = JobStatus::ALL.into_iter().find(|status| status.name() == text);
    known.ok_or_else(|| corrupt("status", format!("{text:?} is none")))
}

fn of_json<T: serde::Serialize>(value: Option<&T>) -> Result<Option<String>, PortError> {
    value.map(json).transpose()
}

/// Writes what may have changed of jobs that were locked before.
pub(super) fn update(jobs: &[&Job], now: Ms) -> Result<Call, PortError> {
    let each = |job: &&Job| (of_json(job.error.as_ref()), of_json(job.cancel.as_ref()), of_json(job.asked.as_ref()));
    let (mut errors, mut cancels, mut asked) = (Vec::new(), Vec::new(), Vec::new());
    for (error, cancel, ask) in jobs.iter().map(each) {
        errors.push(error?);
        cancels.push(cancel?);
        asked.push(ask?);
    }
    let stamps = |of: fn(&Job) -> Option<Ms>| jobs.iter().map(|job| of(job).map(Stamp)).collect::<Vec<_>>();
    let numbers = |of: fn(&Job) -> u32| jobs.iter().map(|job| of(job).cast_signed()).collect::<Vec<_>>();
    Ok(Call::new(
        sql::UPDATE_JOBS,
        params![
            jobs.iter().map(|job| Id(job.id)).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.status.name()).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.result.as_ref().map(|json| json.as_str().to_owned())).collect::<Vec<_>>(),
            errors,
            stamps(|job| job.started_at),
            stamps(|job| job.completed_at),
            jobs.iter().map(|job| signed(job.version)).collect::<Vec<_>>(),
            jobs.iter().map(|job| job.run_at <= now).collect::<Vec<_>>(),
            stamps(|job| Some(job.run_at)),
            numbers(|job| job.attempt),
            numbers(|job| job.deliveries),
            jobs.iter().map(|job| job.worker.as_ref().map(ToString::to_string)).collect::<Vec<_>>(),
            stamps(|job| Some(job.lease_until).filter(|until| *until > Ms::ZERO)),
            cancels,
            asked
        ],
    ))
}
