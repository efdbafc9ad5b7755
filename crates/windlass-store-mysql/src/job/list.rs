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
use crate::Inner;
use crate::cell::{Cells, one};
use crate::pool::Pool;
use crate::state::list::with_one_more;
use crate::text::{Script, list as listed, literal};

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

/// Three walks, merged: what may be claimed, what waits for its time, and what runs.
async fn live(pool: &Pool, filter: &JobFilter, place: &Place, look: usize) -> Result<Vec<Looked>, PortError> {
    let Place::Live { queue, tenant, priority, run_at, seq } = place else { return Ok(Vec::new()) };
    let lanes = [(JobStatus::Pending, 1), (JobStatus::Pending, 2), (JobStatus::Running, 3)];
    let lanes = lanes.into_iter().filter(|(status, _)| is_wanted(filter, *status)).map(|(_, live)| live);
    let fits =
        filter.tenant.as_ref().map_or_else(|| "1".to_owned(), |t| format!("tenant_id = {}", literal(t.as_str())));
    let (queue, tenant, rank, run_at) = (literal(queue), literal(tenant), -i32::from(*priority), literal(*run_at));
    // Written out, step by step, so that the walk begins at its place.
    let after = format!(
        "(queue > {queue} OR (queue = {queue} AND (tenant_id > {tenant} OR (tenant_id = {tenant} AND (`rank` > {rank} OR (`rank` = {rank} \
         AND (run_at > {run_at} OR (run_at = {run_at} AND seq > {seq}))))))))"
    );
    let of = match &filter.queue {
        Some(queue) => format!("queue = {}", literal(queue.as_str())),
        None => format!("queue >= {queue}"),
    };
    let walks = lanes.map(|live| {
        format!(
            "(SELECT task_id, queue, tenant_id, priority, run_at, seq, {fits} AS fits, `rank` FROM async_tasks \
             FORCE INDEX (async_tasks_live) WHERE live = {live} AND {of} AND {after} \
             ORDER BY queue, tenant_id, `rank`, run_at, seq LIMIT {look})"
        )
    });
    let walks: Vec<String> = walks.collect();
    if walks.is_empty() {
        return Ok(Vec::new());
    }
    let sql = format!("{} ORDER BY queue, tenant_id, `rank`, run_at, seq LIMIT {look}", walks.join(" UNION ALL "));
    let rows = pool.ask(&sql).await?;
    let looked = rows.iter().map(|row| {
        let cells = &mut Cells::of(row);
        let id = cells.parse()?;
        let place = Place::Live {
            queue: cells.text()?.to_owned(),
            tenant: cells.text()?.to_owned(),
            priority: cells.parse()?,
            run_at: cells.at()?,
            seq: cells.parse()?,
        };
        Ok(Looked { id, place, fits: cells.flag()? })
    });
    looked.collect()
}

async fn ended(pool: &Pool, filter: &JobFilter, place: &Place, look: usize) -> Result<Vec<Looked>, PortError> {
    let Place::Ended { which, at, seq } = *place else { return Ok(Vec::new()) };
    let mut fits = vec!["1".to_owned()];
    fits.extend(filter.queue.as_ref().map(|queue| format!("queue = {}", literal(queue.as_str()))));
    fits.extend(filter.tenant.as_ref().map(|tenant| format!("tenant_id = {}", literal(tenant.as_str()))));
    let (fits, at) = (fits.join(" AND "), literal(at));
    let sql = format!(
        "SELECT task_id, completed_at, seq, {fits} FROM async_tasks FORCE INDEX (async_tasks_ended) WHERE ended_as = {} \
         AND completed_at <= {at} AND (completed_at < {at} OR seq < {seq}) ORDER BY completed_at DESC, seq DESC LIMIT {look}",
        literal(ENDS[which].name())
    );
    let rows = pool.ask(&sql).await?;
    let looked = rows.iter().map(|row| {
        let cells = &mut Cells::of(row);
        let id = cells.parse()?;
        let place = Place::Ended { which, at: cells.at()?, seq: cells.parse()? };
        Ok(Looked { id, place, fits: cells.flag()? })
    });
    looked.collect()
}

pub(super) async fn load(pool: &Pool, ids: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let names = listed(ids.iter().map(|id| id.to_string()));
    let rows = pool.ask(&format!("SELECT {} FROM async_tasks t WHERE t.task_id IN ({names})", row::JOB)).await?;
    let jobs = rows.iter().map(|row| row::job(&mut Cells::of(row)).map(|job| (job.id, job)));
    let jobs: HashMap<JobId, Job> = jobs.collect::<Result<_, _>>()?;
    Ok(ids.iter().map(|id| jobs.get(id).cloned()).collect())
}

pub(super) async fn queues(inner: &Inner, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
    let after = match after {
        None => String::new(),
        Some(cursor) => {
            let [queue] = parts::<1>(cursor, "queue")?;
            queue.to_owned()
        }
    };
    let (after, now, more) = (literal(after), inner.clock.now(), with_one_more(limit));
    let live = |live: u8| {
        format!(
            "(SELECT queue AS name FROM async_tasks FORCE INDEX (async_tasks_live) WHERE live = {live} AND queue > {after} \
             GROUP BY live, queue ORDER BY live, queue LIMIT {more})"
        )
    };
    let sql = format!(
        "{} UNION {} UNION {} UNION (SELECT name FROM job_rule WHERE scope = 'queue' AND name > {after} ORDER BY name LIMIT {more}) \
         UNION (SELECT DISTINCT queue FROM job_asker WHERE queue > {after} AND until > {now} ORDER BY queue LIMIT {more}) \
         ORDER BY name LIMIT {more}",
        live(1),
        live(2),
        live(3)
    );
    let names = inner.pool.ask(&sql).await?;
    let names: Vec<&str> = names.iter().map(|row| Cells::of(row).text()).collect::<Result<_, _>>()?;
    let mut script = Script::default();
    for name in &names {
        script.ask(&view(&literal(*name), now));
    }
    if names.is_empty() {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let mut answers = inner.pool.run(&script).await?;
    let mut views = Vec::with_capacity(names.len());
    for name in names {
        let rows = answers.next()?;
        let cells = &mut one(&rows)?;
        let (first, second, running): (u32, u32, u32) = (cells.parse()?, cells.parse()?, cells.parse()?);
        let oldest = [cells.at_or_none()?, cells.at_or_none()?].into_iter().flatten().min();
        views.push(QueueView {
            queue: name.parse().map_err(|why| crate::error::corrupt("queue", why))?,
            waiting: (first + second).min(DEPTH_MAX),
            running,
            oldest,
            worker_until: cells.at_or_none()?,
        });
    }
    Ok(page(views, limit, |last: &QueueView| Cursor(format!("queue.{}", last.queue))))
}

/// What is in a queue, counted no further than that is said.
fn view(queue: &str, now: &str) -> String {
    let count = |live: u8| {
        format!(
            "(SELECT COUNT(*) FROM (SELECT 1 FROM async_tasks FORCE INDEX (async_tasks_wake) WHERE live = {live} AND queue = {queue} \
             LIMIT {DEPTH_MAX}) c{live})"
        )
    };
    format!(
        "SELECT {}, {}, {}, \
         (SELECT MIN(run_at) FROM (SELECT run_at FROM async_tasks FORCE INDEX (async_tasks_live) WHERE live = 1 AND queue = {queue} \
           AND run_at <= {now} LIMIT {DEPTH_MAX}) r), \
         (SELECT wake_at FROM async_tasks FORCE INDEX (async_tasks_wake) WHERE live = 2 AND queue = {queue} AND wake_at <= {now} \
           ORDER BY wake_at LIMIT 1), \
         (SELECT MAX(until) FROM job_asker WHERE queue = {queue} AND until > {now})",
        count(1),
        count(2),
        count(3)
    )
}
