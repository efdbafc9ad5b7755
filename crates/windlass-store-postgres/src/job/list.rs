//! Lists of jobs, by keyset: what is live, then each end. A page looks at a bounded number of records and is filled from those
//! that fit.

use std::collections::HashMap;

use windlass_core::id::JobId;
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::job::{DEPTH_MAX, JobFilter, LOOK_MAX, QueueView};
use windlass_core::port::page::job::{ENDS, Place};
use windlass_core::port::page::{page, parts};
use windlass_core::port::{Cursor, Page, PortError};

use super::row;
use crate::cell::{Cells, Id, Stamp, params, signed};
use crate::pool::{Call, Pool};
use crate::sql;
use crate::state::list::with_one_more;

/// A record that was looked at.
struct Looked {
    id: JobId,
    place: Place,
    fits: bool,
}

fn is_wanted(filter: &JobFilter, status: JobStatus) -> bool {
    filter.statuses.is_empty() || filter.statuses.contains(&status)
}

pub(super) async fn list(
    pool: &Pool,
    filter: &JobFilter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Job>, PortError> {
    let place = Place::of(after)?;
    let narrow = match place {
        // The queue is where the walk begins, so what it leaves out is not looked at.
        Place::Live { .. } => filter.tenant.is_some(),
        Place::Ended { .. } => filter.tenant.is_some() || filter.queue.is_some(),
    };
    let look = if narrow { LOOK_MAX } else { limit as usize };
    let looked = match &place {
        Place::Live { .. } => live(pool, filter, &place, look).await?,
        Place::Ended { which, .. } if is_wanted(filter, ENDS[*which]) => ended(pool, filter, &place, look).await?,
        Place::Ended { .. } => Vec::new(),
    };
    let mut last = None;
    let (mut ids, mut all) = (Vec::new(), looked.len() < look);
    for record in looked {
        if ids.len() == limit as usize {
            all = false;
            break;
        }
        if record.fits {
            ids.push(record.id);
        }
        last = Some(record.place);
    }
    let from = match &place {
        Place::Live { .. } => 0,
        Place::Ended { which, .. } => which + 1,
    };
    let then = (from..ENDS.len()).find(|which| is_wanted(filter, ENDS[*which])).map(Place::ended);
    let next = if all { then } else { last };
    // What has moved on since it was looked at does not stay where it is.
    let jobs = load(pool, &ids).await?.into_iter().flatten().filter(|job| fits(filter, job, &place)).collect();
    Ok(Page { items: jobs, next: next.map(|place| place.cursor()) })
}

fn fits(filter: &JobFilter, job: &Job, place: &Place) -> bool {
    let here = match place {
        Place::Live { .. } => !job.status.is_ended(),
        Place::Ended { which, .. } => job.status == ENDS[*which],
    };
    here && is_wanted(filter, job.status)
}

async fn live(pool: &Pool, filter: &JobFilter, place: &Place, look: usize) -> Result<Vec<Looked>, PortError> {
    let Place::Live { queue, tenant, priority, run_at, seq } = place else { return Ok(Vec::new()) };
    let wanted = [JobStatus::Pending, JobStatus::Running].into_iter().filter(|status| is_wanted(filter, *status));
    let statuses: Vec<&str> = wanted.map(JobStatus::name).collect();
    if statuses.is_empty() {
        return Ok(Vec::new());
    }
    let params = params![
        statuses,
        queue.clone(),
        tenant.clone(),
        *priority,
        Stamp(*run_at),
        signed(*seq),
        filter.queue.as_ref().map(ToString::to_string),
        filter.tenant.as_ref().map(ToString::to_string),
        look as i64
    ];
    let rows = pool.query(&Call::new(sql::LIST_LIVE, params)).await?;
    let looked = rows.iter().map(|row| {
        let cells = &mut Cells::of(row);
        let id = cells.get::<Id>()?.0;
        let place = Place::Live {
            queue: cells.get()?,
            tenant: cells.get()?,
            priority: cells.get()?,
            run_at: cells.at()?,
            seq: cells.count()?,
        };
        Ok(Looked { id, place, fits: cells.get()? })
    });
    looked.collect()
}

async fn ended(pool: &Pool, filter: &JobFilter, place: &Place, look: usize) -> Result<Vec<Looked>, PortError> {
    let Place::Ended { which, at, seq } = *place else { return Ok(Vec::new()) };
    let params = params![
        ENDS[which].name(),
        Stamp(at),
        signed(seq),
        filter.queue.as_ref().map(ToString::to_string),
        filter.tenant.as_ref().map(ToString::to_string),
        look as i64
    ];
    let rows = pool.query(&Call::new(sql::LIST_ENDED, params)).await?;
    let looked = rows.iter().map(|row| {
        let cells = &mut Cells::of(row);
        let id = cells.get::<Id>()?.0;
        let place = Place::Ended { which, at: cells.at()?, seq: cells.count()? };
        Ok(Looked { id, place, fits: cells.get()? })
    });
    looked.collect()
}

pub(super) async fn load(pool: &Pool, ids: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let params = params![ids.iter().copied().map(Id).collect::<Vec<_>>()];
    let rows = pool.query(&Call::new(sql::LOAD_JOBS, params)).await?;
    let jobs = rows.iter().map(|row| row::job(&mut Cells::of(row)).map(|job| (job.id, job)));
    let jobs: HashMap<JobId, Job> = jobs.collect::<Result<_, _>>()?;
    Ok(ids.iter().map(|id| jobs.get(id).cloned()).collect())
}

pub(super) async fn queues(
    pool: &Pool,
    after: Option<&Cursor>,
    limit: u32,
    ahead_ms: i64,
) -> Result<Page<QueueView>, PortError> {
    let after = match after {
        None => String::new(),
        Some(cursor) => {
            let [queue] = parts::<1>(cursor, "queue")?;
            queue.to_owned()
        }
    };
    let params = params![after, with_one_more(limit), i64::from(DEPTH_MAX), ahead_ms];
    let rows = pool.query(&Call::new(sql::QUEUES, params)).await?;
    let views = rows.iter().map(|row| {
        let cells = &mut Cells::of(row);
        Ok(QueueView {
            queue: cells.parse()?,
            waiting: cells.count()?,
            running: cells.count()?,
            oldest: cells.at_or_none()?,
            worker_until: cells.at_or_none()?,
        })
    });
    Ok(page(views.collect::<Result<_, PortError>>()?, limit, |last: &QueueView| {
        Cursor(format!("queue.{}", last.queue))
    }))
}
