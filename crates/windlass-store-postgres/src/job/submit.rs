//! Submissions. What is new and not limited is one statement; the rest is judged here, on what was read in the
//! same transaction.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::job::submission::{Key, Room, Seen, Stored, key_of};
use windlass_core::job::{NewJob, When};
use windlass_core::port::job::Submitted;
use windlass_core::port::{Mark, PortError, Refusal};

use super::row::tenant_text;
use crate::cell::{Cells, Id, Stamp, params, signed};
use crate::error::{Failure, corrupt};
use crate::line::{Line, Work};
use crate::pool::{Call, Tx};
use crate::wake::Port;
use crate::{Inner, sql};

/// Jobs of one statement, at most, and their payloads, in bytes.
const JOBS_MAX: usize = 5_000;
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The submissions of one caller.
pub(crate) struct Submit(pub(super) Vec<Vec<NewJob>>);

type Answers = Vec<Result<Vec<Submitted>, Refusal>>;

#[derive(Default)]
pub(crate) struct Batch {
    jobs: usize,
    bytes: usize,
}

impl Work for Submit {
    type Answer = Answers;
    type Batch = Batch;

    fn line(inner: &Inner) -> &Line<Submit> {
        &inner.submits
    }

    fn join(&self, batch: &mut Batch) -> bool {
        let jobs = self.0.iter().flatten();
        batch.jobs += self.0.iter().map(Vec::len).sum::<usize>();
        batch.bytes += jobs.filter_map(|job| job.payload.as_ref()).map(|payload| payload.as_str().len()).sum::<usize>();
        batch.jobs <= JOBS_MAX && batch.bytes <= BYTES_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &mut Vec<Submit>) -> Result<Vec<Answers>, PortError> {
        let sizes: Vec<usize> = batch.iter().map(|submit| submit.0.len()).collect();
        let callers = sizes.iter().enumerate().flat_map(|(caller, size)| std::iter::repeat_n(caller, *size)).collect();
        let groups: Vec<Vec<NewJob>> = batch.drain(..).flat_map(|submit| submit.0).collect();
        let mut answers = all(inner, &groups, callers).await?.into_iter();
        Ok(sizes.into_iter().map(|size| answers.by_ref().take(size).collect()).collect())
    }
}

/// Takes what callers submit that is plain together, then the rest: groups of one call are taken in order.
async fn all(inner: &Inner, groups: &[Vec<NewJob>], callers: Vec<usize>) -> Result<Answers, PortError> {
    let mut answers: Vec<Option<Result<Vec<Submitted>, Refusal>>> =
        groups.iter().map(|group| group.iter().try_for_each(NewJob::check).err().map(Err)).collect();
    let good: Vec<usize> = (0..groups.len()).filter(|n| answers[*n].is_none()).collect();
    let mut seen = Seen::default();
    let mut left: HashSet<usize> = HashSet::new();
    for n in &good {
        if groups[*n].iter().any(|job| !seen.is_new(job)) {
            left.insert(callers[*n]);
        }
    }
    let (plain, mut judged) = good.into_iter().partition::<Vec<usize>, _>(|n| !left.contains(&callers[*n]));
    let new = |n: usize| groups[n].iter().map(|job| Submitted { id: job.id, existing: false }).collect();
    if !plain.is_empty() {
        let jobs: Vec<(usize, &NewJob)> =
            plain.iter().flat_map(|n| groups[*n].iter().map(|job| (callers[*n], job))).collect();
        let (mut left, mut counted) = (HashSet::new(), None);
        for row in inner.pool.query(&insert(&jobs, false, inner.ahead_ms)).await? {
            let cells = &mut Cells::of(&row);
            match cells.get::<Option<i32>>()? {
                Some(caller) => drop(left.insert(caller)),
                None => counted = Some(Mark(cells.count()?)),
            }
        }
        for n in plain {
            match left.contains(&(callers[n] as i32)) {
                true => judged.push(n),
                false => answers[n] = Some(Ok(new(n))),
            }
        }
        if let Some(mark) = counted {
            inner.wake.tell_counted(Port::Jobs, mark);
        }
    }
    if !judged.is_empty() {
        judged.sort_unstable();
        let mut races = 0;
        loop {
            let tx = inner.pool.begin().await?;
            let done = attempt(&tx, groups, &judged, inner.ahead_ms).await;
            if let Some(done) = tx.settle(done, &mut races).await {
                for (n, answer) in judged.iter().zip(done?) {
                    answers[*n] = Some(answer);
                }
                break;
            }
        }
        inner.wake.tell(Port::Jobs);
    }
    let missing = || PortError::Corrupt("a submission was not answered".to_owned());
    answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
}

/// The statement for jobs, each with who submits it: what is left alone is all of a caller's.
fn insert(jobs: &[(usize, &NewJob)], judged: bool, ahead_ms: i64) -> Call {
    let text = |of: fn(&NewJob) -> &str| jobs.iter().map(|(_, job)| of(job).to_owned()).collect::<Vec<_>>();
    let ms = |of: fn(&NewJob) -> u64| jobs.iter().map(|(_, job)| signed(of(job))).collect::<Vec<_>>();
    let at = |job: &NewJob| if let When::At(at) = job.when { Some(Stamp(at)) } else { None };
    Call::new(
        sql::SUBMIT,
        params![
            ahead_ms,
            judged,
            jobs.iter().map(|(caller, _)| *caller as i32).collect::<Vec<_>>(),
            jobs.iter().map(|(_, job)| Id(job.id)).collect::<Vec<_>>(),
            text(|job| job.queue.as_str()),
            text(|job| tenant_text(job.tenant.as_ref())),
            jobs.iter().map(|(_, job)| job.payload.as_ref().map(|json| json.as_str().to_owned())).collect::<Vec<_>>(),
            jobs.iter().map(|(_, job)| i16::from(job.priority)).collect::<Vec<_>>(),
            ms(|job| if let When::In(ms) = job.when { ms } else { 0 }),
            jobs.iter().map(|(_, job)| at(job)).collect::<Vec<_>>(),
            jobs.iter().map(|(_, job)| job.max_attempts.cast_signed()).collect::<Vec<_>>(),
            ms(|job| job.backoff.first_ms),
            ms(|job| job.backoff.max_ms),
            jobs.iter().map(|(_, job)| job.timeout_ms.map(signed)).collect::<Vec<_>>(),
            jobs.iter().map(|(_, job)| job.key.clone()).collect::<Vec<_>>(),
            jobs.iter().map(|(_, job)| job.digest().cast_signed()).collect::<Vec<_>>()
        ],
    )
}

async fn attempt(tx: &Tx<'_>, groups: &[Vec<NewJob>], which: &[usize], ahead_ms: i64) -> Result<Answers, Failure> {
    let jobs: Vec<&NewJob> = which.iter().flat_map(|n| &groups[*n]).collect();
    let keys: Vec<Key<'_>> = jobs.iter().filter_map(|job| key_of(job)).collect();
    let column = |of: fn(&Key<'_>) -> String| keys.iter().map(of).collect::<Vec<_>>();
    let queues: HashSet<String> = jobs.iter().map(|job| job.queue.to_string()).collect();
    let tenants: HashSet<String> = jobs.iter().filter_map(|job| job.tenant.as_ref()).map(ToString::to_string).collect();
    let (queues, tenants): (Vec<_>, Vec<_>) = (queues.into_iter().collect(), tenants.into_iter().collect());
    let calls = vec![
        Call::new(sql::WAITING_LIMITS, params![queues, tenants]),
        Call::new(
            sql::JOBS_STORED,
            params![
                jobs.iter().map(|job| Id(job.id)).collect::<Vec<_>>(),
                column(|key| key.0.to_owned()),
                column(|key| key.1.to_owned()),
                column(|key| key.2.to_owned())
            ],
        ),
    ];
    let read = tx.open(sql::BEGIN, calls).await?;
    let mut stored = stored(&read)?;
    let mut new = Vec::new();
    let answers = which.iter().map(|n| stored.group(*n, &groups[*n], &mut new)).collect();
    let writes = if new.is_empty() { Vec::new() } else { vec![insert(&new, true, ahead_ms)] };
    tx.commit(writes).await?;
    Ok(answers)
}

fn stored(read: &[Vec<tokio_postgres::Row>]) -> Result<Stored, PortError> {
    let [limits, jobs] = read else { return Err(PortError::Corrupt("two answers were expected".to_owned())) };
    let mut stored = Stored::default();
    for row in limits {
        let cells = &mut Cells::of(row);
        let (scope, name): (&str, &str) = (cells.get()?, cells.get()?);
        let room = Room { limit: cells.count()?, waiting: cells.count()? };
        match scope {
            "queue" => stored.queues.insert(name.parse().map_err(|why| corrupt("name", why))?, room),
            _ => stored.tenants.insert(name.parse().map_err(|why| corrupt("name", why))?, room),
        };
    }
    for row in jobs {
        let cells = &mut Cells::of(row);
        let id = cells.get::<Id>()?.0;
        let (queue, tenant, key): (String, String, Option<String>) = (cells.get()?, cells.get()?, cells.get()?);
        let digest = cells.get::<i64>()?.cast_unsigned();
        stored.ids.insert(id, digest);
        if let Some(key) = key {
            stored.keys.insert((queue, tenant, key), (id, digest));
        }
    }
    Ok(stored)
}
