//! What the core's rules judge: jobs are locked and read in one trip, judged, and written with the commit in a second.

use windlass_core::id::JobId;
use windlass_core::job::Asker;
use windlass_core::job::locked::Locked;
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::port::job::{Turn, Turned};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::time::Ms;

use super::row;
use super::turn::{Wants, jobs_of, now_in};
use crate::cell::{Cells, Id, Stamp, params};
use crate::error::Failure;
use crate::pool::{Call, Tx};
use crate::wake::Port;
use crate::{Inner, sql};

/// Expired leases that one transaction judges, at most.
const OVER_MAX: i64 = 1_000;

fn read(rows: &[tokio_postgres::Row], now: Ms) -> Result<Locked, PortError> {
    let jobs = rows.iter().map(|row| row::job(&mut Cells::of(row)));
    Ok(Locked::new(jobs.collect::<Result<Vec<_>, _>>()?, now))
}

fn writes(locked: &Locked) -> Result<Vec<Call>, PortError> {
    let changed = locked.changed();
    let mut writes = Vec::new();
    if !changed.is_empty() {
        writes.push(row::update(&changed, locked.now())?);
    }
    match locked.ended().len() {
        0 => {}
        ended => writes.push(Call::new(sql::ENDED, params![ended as i64])),
    }
    if locked.waits() {
        writes.push(Call::bare(sql::JOBS_CHANGED));
    }
    Ok(writes)
}

/// After the commit: those who wait are told.
fn tell(locked: &Locked, inner: &Inner) {
    let ended = locked.ended();
    inner.feed.ended(&ended);
    // An end may have made room under a limit.
    if !ended.is_empty() || locked.waits() {
        inner.wake.tell(Port::Jobs);
    }
}

/// Does turns one after the other, in one transaction.
pub(super) async fn turns(inner: &Inner, turns: &[&Turn]) -> Result<Vec<Turned>, PortError> {
    let mut races = 0;
    loop {
        let tx = inner.pool.begin().await?;
        let done = attempt(&tx, inner, turns).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            let (turned, locked) = done?;
            tell(&locked, inner);
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
    let answers = tx.open(sql::BEGIN, calls).await?;
    let [own, over, now] = &answers[..] else {
        return Err(PortError::Corrupt("three answers were expected".to_owned()).into());
    };
    let now = now_in(now)?;
    let mut locked = read(own, now)?;
    let mut done: Vec<Turned> = turns.iter().map(|turn| locked.turn(turn)).collect();
    let mut over = read(over, now)?;
    over.expire();
    for job in over.changed() {
        locked.put(job.clone());
    }
    let mut writes = writes(&locked)?;
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

/// What a person does.
pub(super) async fn asks(inner: &Inner, ids: &[JobId], what: JobAsk, asker: &Asker) -> Each<Asked> {
    let mut races = 0;
    loop {
        let tx = inner.pool.begin().await?;
        let done = attempt_asks(&tx, inner, ids, what, asker).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            let (answers, locked) = done?;
            tell(&locked, inner);
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
    let answers = ids.iter().map(|id| locked.ask(*id, what, asker)).collect();
    tx.commit(writes(&locked)?).await?;
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
            tell(&locked, inner);
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
    tx.commit(writes(&locked)?).await?;
    Ok((judged, locked))
}

/// Begins: jobs, locked, and the time.
async fn open(tx: &Tx<'_>, calls: Vec<Call>) -> Result<Locked, Failure> {
    let answers = tx.open(sql::BEGIN, calls).await?;
    let [jobs, now] = &answers[..] else {
        return Err(PortError::Corrupt("two answers were expected".to_owned()).into());
    };
    Ok(read(jobs, now_in(now)?)?)
}
