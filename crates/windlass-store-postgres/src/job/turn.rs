//! Turns of many workers as one statement. What is plain (completed, alive, claimed) is done by a function of the
//! migrations; a turn of which something is not plain is done whole in a transaction, judged by the core's rules.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio_postgres::Row;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::rules::{Outcome, check_result};
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::PortError;
use windlass_core::port::job::{Beaten, Turn, Turned};
use windlass_core::time::Ms;

use super::row::{self, tenant_text};
use super::{judge, ring::Ring};
use crate::cell::{Cells, Id, Params, params, signed};
use crate::line::{Line, Work};
use crate::pool::Call;
use crate::state::one;
use crate::wake::Port;
use crate::{Inner, sql};

/// Jobs that one statement speaks of, and that it claims, at most.
const JOBS_MAX: usize = 4_000;
/// Results of one statement, in bytes, at most.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The turns of one caller.
pub(crate) struct Turns(pub(super) Vec<Turn>);

#[derive(Default)]
pub(crate) struct Batch {
    jobs: HashSet<JobId>,
    wanted: usize,
    bytes: usize,
}

impl Work for Turns {
    /// A worker's next turn waits here, and goes at once: two of them would wait for each other's rows in the server.
    const AT_ONCE: usize = 1;
    type Answer = Vec<Turned>;
    type Batch = Batch;

    fn line(inner: &Inner) -> &Line<Turns> {
        &inner.turns
    }

    /// What is said twice of a job is said one after the other.
    fn join(&self, batch: &mut Batch) -> bool {
        if self.0.iter().flat_map(jobs_of).any(|job| batch.jobs.contains(&job)) {
            return false;
        }
        batch.jobs.extend(self.0.iter().flat_map(jobs_of));
        batch.wanted += self.0.iter().map(wanted_of).sum::<usize>();
        batch.bytes += self.0.iter().flat_map(|turn| &turn.settle).map(|(_, outcome)| bytes_of(outcome)).sum::<usize>();
        batch.jobs.len() <= JOBS_MAX && batch.wanted <= JOBS_MAX && batch.bytes <= BYTES_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &mut Vec<Turns>) -> Result<Vec<Vec<Turned>>, PortError> {
        let sizes: Vec<usize> = batch.iter().map(|turns| turns.0.len()).collect();
        let callers = sizes.iter().enumerate().flat_map(|(caller, size)| std::iter::repeat_n(caller, *size)).collect();
        let turns: Vec<Turn> = batch.drain(..).flat_map(|turns| turns.0).collect();
        let mut answers = all(inner, &turns, callers).await?.into_iter();
        Ok(sizes.into_iter().map(|size| answers.by_ref().take(size).collect()).collect())
    }
}

pub(super) fn jobs_of(turn: &Turn) -> impl Iterator<Item = JobId> + '_ {
    turn.settle.iter().map(|(delivery, _)| delivery.job).chain(turn.beat.iter().map(|delivery| delivery.job))
}

fn wanted_of(turn: &Turn) -> usize {
    turn.want.iter().map(|(_, n)| *n as usize).sum()
}

fn bytes_of(outcome: &Outcome) -> usize {
    if let Outcome::Completed(result) = outcome { result.as_str().len() } else { 0 }
}

/// Does the turns of callers all of whose turns are plain together, then the others: turns of one call claim in order.
async fn all(inner: &Inner, turns: &[Turn], callers: Vec<usize>) -> Result<Vec<Turned>, PortError> {
    let mut seen = HashSet::new();
    // The first of two that speak of one job is not plain either: the second is judged on what it left.
    let twice: HashSet<JobId> = turns.iter().flat_map(jobs_of).filter(|job| !seen.insert(*job)).collect();
    let is_plain = |turn: &Turn| {
        turn.settle.iter().all(|(_, outcome)| is_plain(outcome)) && !jobs_of(turn).any(|job| twice.contains(&job))
    };
    let mut judged: HashSet<usize> =
        turns.iter().zip(&callers).filter(|(turn, _)| !is_plain(turn)).map(|(_, caller)| *caller).collect();
    let mut answers: Vec<Option<Turned>> = turns.iter().map(|_| None).collect();
    loop {
        let plain: Vec<usize> = (0..turns.len()).filter(|n| !judged.contains(&callers[*n])).collect();
        if plain.is_empty() {
            break;
        }
        let some: Vec<&Turn> = plain.iter().map(|n| &turns[*n]).collect();
        match plainly(inner, &some).await? {
            Plainly::Done(done) => {
                plain.into_iter().zip(done).for_each(|(n, turned)| answers[n] = Some(turned));
                break;
            }
            Plainly::Left(left) => judged.extend(left.into_iter().map(|place| callers[plain[place]])),
        }
    }
    let judged: Vec<usize> = (0..turns.len()).filter(|n| judged.contains(&callers[*n])).collect();
    if !judged.is_empty() {
        let some: Vec<&Turn> = judged.iter().map(|n| &turns[*n]).collect();
        let done = judge::turns(inner, &some).await?;
        judged.into_iter().zip(done).for_each(|(n, turned)| answers[n] = Some(turned));
    }
    let missing = || PortError::Corrupt("a turn was not answered".to_owned());
    answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
}

fn is_plain(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Completed(result) if check_result(result).is_ok())
}

enum Plainly {
    Done(Vec<Turned>),
    /// Places of those that are not plain; nothing was done.
    Left(HashSet<usize>),
}

async fn plainly(inner: &Inner, turns: &[&Turn]) -> Result<Plainly, PortError> {
    let wants = Wants::of(turns, &inner.ring);
    let rows = inner.pool.query(&Call::new(sql::TURN, params_of(turns, &wants, inner.ahead_ms))).await?;
    let mut left = HashSet::new();
    for row in &rows {
        let cells = &mut Cells::of(row);
        match cells.get::<&str>()? {
            "LEFT" => drop(left.insert(place(cells.get::<i32>()?))),
            "JUDGE" => left.extend((0..turns.len()).filter(|n| !turns[*n].want.is_empty())),
            _ => break,
        }
    }
    if !left.is_empty() {
        return Ok(Plainly::Left(left));
    }
    let (at, room) = head(&rows)?;
    let mut done: Vec<Turned> = turns
        .iter()
        .map(|turn| Turned {
            settled: turn.settle.iter().map(|_| Ok(JobStatus::Completed)).collect(),
            beaten: turn.beat.iter().map(|_| Ok(Beaten { until: at.plus(turn.lease_ms), cancel: false })).collect(),
            claimed: Vec::new(),
            next: None,
            at,
        })
        .collect();
    // Beats are numbered over all turns.
    let beats: Vec<(usize, usize)> =
        turns.iter().enumerate().flat_map(|(n, turn)| (0..turn.beat.len()).map(move |i| (n, i))).collect();
    for row in &rows {
        let cells = &mut Cells::of(row);
        if cells.get::<&str>()? == "BEAT" {
            let (_, nth): (i32, i32) = (cells.get()?, cells.get()?);
            if let Some(Ok(beaten)) = beats.get(place(nth)).and_then(|(n, i)| done[*n].beaten.get_mut(*i)) {
                beaten.cancel = true;
            }
        }
    }
    wants.claimed(&rows, turns, &mut done, &inner.ring)?;
    let ended: Vec<JobId> =
        turns.iter().flat_map(|turn| turn.settle.iter().map(|(delivery, _)| delivery.job)).collect();
    inner.feed.ended(&ended);
    if room {
        inner.wake.tell(Port::Jobs);
    } else if !ended.is_empty() {
        inner.wake.tell_ended();
    }
    Ok(Plainly::Done(done))
}

/// The time of a statement's turns, and whether a limit may have room again.
fn head(rows: &[Row]) -> Result<(Ms, bool), PortError> {
    for row in rows {
        let cells = &mut Cells::of(row);
        if cells.get::<&str>()? == "TURN" {
            let (_, room): (Option<i32>, i32) = (cells.get()?, cells.get()?);
            return Ok((cells.at()?, room != 0));
        }
    }
    Err(PortError::Corrupt("turns were not answered".to_owned()))
}

/// From a place counted from 1.
fn place(nth: i32) -> usize {
    usize::try_from(nth - 1).unwrap_or(usize::MAX)
}

fn params_of(turns: &[&Turn], wants: &Wants, ahead_ms: i64) -> Params {
    // In the order of their ids, so that two statements do not wait for each other.
    let mut settle: Vec<_> = turns
        .iter()
        .enumerate()
        .flat_map(|(n, turn)| turn.settle.iter().map(move |(delivery, outcome)| (n, delivery, outcome)))
        .collect();
    settle.sort_unstable_by_key(|(_, delivery, _)| delivery.job);
    let beat: Vec<_> =
        turns.iter().enumerate().flat_map(|(n, turn)| turn.beat.iter().map(move |delivery| (n, delivery))).collect();
    let result = |outcome: &Outcome| match outcome {
        Outcome::Completed(result) => result.as_str().to_owned(),
        _ => String::new(),
    };
    let mut params = params![
        ahead_ms,
        wants.workers.clone(),
        wants.leases.clone(),
        settle.iter().map(|(n, ..)| nth(*n)).collect::<Vec<_>>(),
        settle.iter().map(|(_, delivery, _)| Id(delivery.job)).collect::<Vec<_>>(),
        settle.iter().map(|(_, delivery, _)| signed(delivery.fence.0)).collect::<Vec<_>>(),
        settle.iter().map(|(.., outcome)| result(outcome)).collect::<Vec<_>>(),
        beat.iter().map(|(n, _)| nth(*n)).collect::<Vec<_>>(),
        beat.iter().map(|(_, delivery)| Id(delivery.job)).collect::<Vec<_>>(),
        beat.iter().map(|(_, delivery)| signed(delivery.fence.0)).collect::<Vec<_>>(),
    ];
    params.extend(wants.params());
    params
}

/// A place, counted from 1 as arrays there are.
fn nth(n: usize) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX).saturating_add(1)
}

/// What all turns want, queue by queue.
pub(super) struct Wants {
    pub(super) workers: Vec<String>,
    pub(super) leases: Vec<i64>,
    pub(super) queues: Vec<QueueName>,
    wanted: Vec<i64>,
    after: Vec<String>,
    slots: Vec<i32>,
    asked: Vec<i64>,
}

impl Wants {
    pub(super) fn of(turns: &[&Turn], ring: &Ring) -> Wants {
        let mut queues: Vec<QueueName> = Vec::new();
        let mut places: HashMap<&QueueName, usize> = HashMap::new();
        let mut slots: Vec<Vec<i32>> = Vec::new();
        let mut asked: Vec<i64> = Vec::new();
        for (n, turn) in turns.iter().enumerate() {
            for (queue, wanted) in &turn.want {
                let place = *places.entry(queue).or_insert_with(|| {
                    queues.push(queue.clone());
                    slots.push(Vec::new());
                    asked.push(0);
                    queues.len() - 1
                });
                slots[place].extend(std::iter::repeat_n(nth(n), *wanted as usize));
                asked[place] = asked[place].max(signed(turn.lease_ms));
            }
        }
        Wants {
            workers: turns.iter().map(|turn| turn.worker.to_string()).collect(),
            leases: turns.iter().map(|turn| signed(turn.lease_ms)).collect(),
            wanted: slots.iter().map(|slots| slots.len() as i64).collect(),
            after: queues.iter().map(|queue| ring.after(queue)).collect(),
            slots: slots.concat(),
            queues,
            asked,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// Queues, wanted, after, slots, asked: the last parameters of both statements.
    pub(super) fn params(&self) -> Params {
        params![
            self.queues.iter().map(ToString::to_string).collect::<Vec<_>>(),
            self.wanted.clone(),
            self.after.clone(),
            self.slots.clone(),
            self.asked.clone()
        ]
    }

    /// Hands out what a claim answered.
    pub(super) fn claimed(
        &self,
        rows: &[Row],
        turns: &[&Turn],
        done: &mut [Turned],
        ring: &Ring,
    ) -> Result<(), PortError> {
        let mut jobs: Vec<(i32, usize, Job)> = Vec::new();
        let mut next: HashMap<&QueueName, Ms> = HashMap::new();
        for row in rows {
            let cells = &mut Cells::of(row);
            let what: &str = cells.get()?;
            let (turn, nth): (Option<i32>, Option<i32>) = (cells.get()?, cells.get()?);
            let at = cells.at_or_none()?;
            match (what, turn, nth, at) {
                ("JOB", Some(turn), Some(nth), _) => jobs.push((nth, place(turn), row::job(cells)?)),
                ("NEXT", _, Some(queue), Some(at)) => {
                    next.extend(self.queues.get(place(queue)).map(|queue| (queue, at)));
                }
                _ => {}
            }
        }
        jobs.sort_unstable_by_key(|(nth, ..)| *nth);
        for (_, turn, job) in jobs {
            // What was delivered again is not a tenant's turn.
            if job.deliveries == 1 {
                ring.served(&job.queue, tenant_text(job.tenant.as_ref()));
            }
            if let Some(turned) = done.get_mut(turn) {
                turned.claimed.push(job);
            }
        }
        for (turn, turned) in turns.iter().zip(done) {
            if turn.want.len() > 1 {
                turned.claimed = in_order(turn, std::mem::take(&mut turned.claimed));
            }
            if turned.claimed.len() < wanted_of(turn) {
                turned.next = turn.want.iter().filter_map(|(queue, _)| next.get(queue).copied()).min();
            }
        }
        Ok(())
    }
}

/// Jobs in the order in which a turn asked its queues; one that it asked twice gave to the first first.
fn in_order(turn: &Turn, claimed: Vec<Job>) -> Vec<Job> {
    let mut queues: HashMap<QueueName, VecDeque<Job>> = HashMap::new();
    for job in claimed {
        queues.entry(job.queue.clone()).or_default().push_back(job);
    }
    let mut ordered = Vec::new();
    for (queue, n) in &turn.want {
        if let Some(jobs) = queues.get_mut(queue) {
            let given = jobs.len().min(*n as usize);
            ordered.extend(jobs.drain(..given));
        }
    }
    ordered
}

/// The time that a transaction is judged by.
pub(super) fn now_in(rows: &[Row]) -> Result<Ms, PortError> {
    one(rows)?.at()
}
