//! What the core's rules judge: jobs are locked and read in one trip, judged, and written with the commit in a second.

use std::collections::{BTreeMap, HashSet};

use windlass_core::id::JobId;
use windlass_core::job::rules::{Asked, Expired, JobAsk, ask, beat, expire, settle};
use windlass_core::job::{Asker, Job, JobStatus};
use windlass_core::port::job::{Beaten, Delivery, Turn, Turned};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::time::Ms;

use super::row;
use super::turn::{Wants, jobs_of, now_in};
use crate::cell::{Cells, Id, Stamp, params};
use crate::error::Failure;
use crate::pool::{Call, Tx};
use crate::{Inner, sql};

/// Expired leases that one transaction judges, at most.
const OVER_MAX: i64 = 1_000;

/// Jobs that were locked, and which of them have changed.
struct Locked {
    jobs: BTreeMap<JobId, Job>,
    changed: HashSet<JobId>,
    now: Ms,
}

impl Locked {
    fn of(rows: &[tokio_postgres::Row], now: Ms) -> Result<Locked, PortError> {
        let jobs = rows.iter().map(|row| row::job(&mut Cells::of(row)).map(|job| (job.id, job)));
        Ok(Locked { jobs: jobs.collect::<Result<_, _>>()?, changed: HashSet::new(), now })
    }

    fn get(&self, id: JobId) -> Result<Job, Refusal> {
        self.jobs.get(&id).cloned().ok_or_else(|| Refusal::NotFound(format!("job {id}")))
    }

    fn put(&mut self, job: Job) {
        self.changed.insert(job.id);
        self.jobs.insert(job.id, job);
    }

    /// Ends what ran out and is not delivered again; answers how many.
    fn expire(&mut self) -> u32 {
        let over: Vec<Job> = self.jobs.values().filter(|job| is_over(job, self.now)).cloned().collect();
        let mut judged = 0;
        for job in over {
            if let Expired::Settled(job) = expire(job, self.now) {
                judged += 1;
                self.put(job);
            }
        }
        judged
    }

    fn changed(&self) -> Vec<&Job> {
        self.changed.iter().filter_map(|id| self.jobs.get(id)).collect()
    }

    fn ended(&self) -> Vec<JobId> {
        self.changed().into_iter().filter(|job| job.status.is_ended()).map(|job| job.id).collect()
    }

    fn waits(&self) -> bool {
        self.changed().into_iter().any(|job| job.status == JobStatus::Pending)
    }

    fn writes(&self) -> Result<Vec<Call>, PortError> {
        let changed = self.changed();
        let mut writes = Vec::new();
        if !changed.is_empty() {
            writes.push(row::update(&changed, self.now)?);
        }
        match self.ended().len() {
            0 => {}
            ended => writes.push(Call::new(sql::ENDED, params![ended as i64])),
        }
        if self.waits() {
            writes.push(Call::bare(sql::JOBS_CHANGED));
        }
        Ok(writes)
    }

    /// After the commit: those who wait are told.
    fn tell(&self, inner: &Inner) {
        let ended = self.ended();
        inner.feed.ended(&ended);
        // An end may have made room under a limit.
        if !ended.is_empty() || self.waits() {
            inner.wake.tell();
        }
    }
}

fn is_over(job: &Job, now: Ms) -> bool {
    job.status == JobStatus::Running && job.lease_until <= now
}

/// Does turns one after the other, in one transaction.
pub(super) async fn turns(inner: &Inner, turns: &[&Turn]) -> Result<Vec<Turned>, PortError> {
    let mut races = 0;
    loop {
        let tx = inner.pool.begin().await?;
        let done = attempt(&tx, inner, turns).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            let (turned, locked) = done?;
            locked.tell(inner);
            return Ok(turned);
        }
    }
}

async fn attempt(tx: &Tx<'_>, inner: &Inner, turns: &[&Turn]) -> Result<(Vec<Turned>, Locked), Failure> {
    let ids: Vec<Id> = turns.iter().copied().flat_map(jobs_of).map(Id).collect();
    let wants = Wants::of(turns, &inner.ring);
    let queues: Vec<String> = wants.queues.iter().map(ToString::to_string).collect();
    let calls = vec![
        Call::new(sql::LOCK_JOBS, params![ids.clone()]),
        Call::new(sql::LOCK_OVER, params![inner.ahead_ms, queues, ids, OVER_MAX]),
        Call::new(sql::NOW, params![inner.ahead_ms]),
    ];
    let read = tx.open(sql::BEGIN, calls).await?;
    let [own, over, now] = &read[..] else {
        return Err(PortError::Corrupt("three answers were expected".to_owned()).into());
    };
    let now = now_in(now)?;
    let mut locked = Locked::of(own, now)?;
    let mut done: Vec<Turned> = turns.iter().map(|turn| answer(turn, &mut locked)).collect();
    let mut over = Locked::of(over, now)?;
    over.expire();
    for job in over.changed() {
        locked.put(job.clone());
    }
    let mut writes = locked.writes()?;
    if !wants.is_empty() {
        let mut params = params![Stamp(now), wants.workers.clone(), wants.leases.clone()];
        params.extend(wants.params());
        writes.push(Call::new(sql::CLAIM, params));
    }
    let mut written = tx.commit(writes).await?;
    written.pop();
    if let (false, Some(rows)) = (wants.is_empty(), written.pop()) {
        wants.claimed(&rows, turns, &mut done, &inner.ring)?;
    }
    Ok((done, locked))
}

/// What a turn says, judged on what the turns before it left.
fn answer(turn: &Turn, locked: &mut Locked) -> Turned {
    let now = locked.now;
    let settled = turn.settle.iter().map(|(delivery, outcome)| {
        let job = locked.get(delivery.job)?;
        let stands = job.status;
        match settle(job, delivery.fence, outcome.clone(), now)? {
            None => Ok(stands),
            Some(job) => {
                let stands = job.status;
                locked.put(job);
                Ok(stands)
            }
        }
    });
    let settled = settled.collect();
    let beaten = turn.beat.iter().map(|delivery| beaten(turn, *delivery, locked)).collect();
    Turned { settled, beaten, claimed: Vec::new(), next: None, at: now }
}

fn beaten(turn: &Turn, delivery: Delivery, locked: &mut Locked) -> Result<Beaten, Refusal> {
    let job = beat(locked.get(delivery.job)?, delivery.fence, turn.lease_ms, locked.now)?;
    let beaten = Beaten { until: job.lease_until, cancel: job.cancel.is_some() };
    locked.put(job);
    Ok(beaten)
}

/// What a person does.
pub(super) async fn asks(inner: &Inner, ids: &[JobId], what: JobAsk, asker: &Asker) -> Each<Asked> {
    let mut races = 0;
    loop {
        let tx = inner.pool.begin().await?;
        let done = attempt_asks(&tx, inner, ids, what, asker).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            let (answers, locked) = done?;
            locked.tell(inner);
            return Ok(answers);
        }
    }
}

async fn attempt_asks(
    tx: &Tx<'_>,
    inner: &Inner,
    ids: &[JobId],
    what: JobAsk,
    asker: &Asker,
) -> Result<(Vec<Result<Asked, Refusal>>, Locked), Failure> {
    let calls = vec![
        Call::new(sql::LOCK_JOBS, params![ids.iter().copied().map(Id).collect::<Vec<_>>()]),
        Call::new(sql::NOW, params![inner.ahead_ms]),
    ];
    let mut locked = open(tx, calls).await?;
    let asker = Asker { at: locked.now, ..asker.clone() };
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let answer = locked.get(*id).and_then(|job| ask(job, what, asker.clone())).map(|(asked, job)| {
            if let Some(job) = job {
                locked.put(job);
            }
            asked
        });
        answers.push(answer);
    }
    tx.commit(locked.writes()?).await?;
    Ok((answers, locked))
}

/// Ends what ran out, in all queues.
pub(super) async fn sweep(inner: &Inner, limit: u32) -> Result<u32, PortError> {
    let mut races = 0;
    loop {
        let tx = inner.pool.begin().await?;
        let done = attempt_sweep(&tx, inner, limit).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            let (judged, locked) = done?;
            locked.tell(inner);
            return Ok(judged);
        }
    }
}

async fn attempt_sweep(tx: &Tx<'_>, inner: &Inner, limit: u32) -> Result<(u32, Locked), Failure> {
    let calls = vec![
        Call::new(sql::SWEEP, params![inner.ahead_ms, i64::from(limit)]),
        Call::new(sql::NOW, params![inner.ahead_ms]),
    ];
    let mut locked = open(tx, calls).await?;
    let judged = locked.expire();
    tx.commit(locked.writes()?).await?;
    Ok((judged, locked))
}

/// Begins: jobs, locked, and the time.
async fn open(tx: &Tx<'_>, calls: Vec<Call>) -> Result<Locked, Failure> {
    let read = tx.open(sql::BEGIN, calls).await?;
    let [jobs, now] = &read[..] else {
        return Err(PortError::Corrupt("two answers were expected".to_owned()).into());
    };
    Ok(Locked::of(jobs, now_in(now)?)?)
}
