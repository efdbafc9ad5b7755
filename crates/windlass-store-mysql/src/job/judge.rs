//! What people do to jobs, and what ran out in queues that nobody asks: locked, judged by the core's rules, written.

use windlass_core::id::JobId;
use windlass_core::job::Asker;
use windlass_core::job::locked::Locked;
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::port::{Each, PortError, Refusal};

use super::{feed, row};
use crate::Inner;
use crate::cell::Cells;
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, list};
use crate::wake::{self, Port};

/// Locks jobs, in the order of their ids, and asks for them.
pub(super) fn lock(script: &mut Script, ids: impl IntoIterator<Item = JobId>) {
    script.ask(&format!(
        "SELECT {} FROM async_tasks t FORCE INDEX (async_tasks_id) WHERE t.task_id IN ({}) ORDER BY t.task_id FOR UPDATE",
        row::JOB,
        list(ids.into_iter().map(|id| id.to_string()))
    ));
}

/// What a person does.
pub(super) async fn asks(inner: &Inner, ids: &[JobId], what: JobAsk, asker: &Asker) -> Each<Asked> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_asks(&mut tx, inner, ids, what, asker).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_asks(
    tx: &mut Lent<'_>,
    inner: &Inner,
    ids: &[JobId],
    what: JobAsk,
    asker: &Asker,
) -> Result<Vec<Result<Asked, Refusal>>, Failure> {
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut script = Script::begin();
    lock(&mut script, sorted);
    let mut locked = read(tx, inner, script).await?;
    let answers = ids.iter().map(|id| locked.ask(*id, what, asker)).collect();
    write(tx, inner, &locked).await?;
    Ok(answers)
}

/// Ends what ran out, in all queues.
pub(super) async fn sweep(inner: &Inner, limit: u32) -> Result<u32, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_sweep(&mut tx, inner, limit).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_sweep(tx: &mut Lent<'_>, inner: &Inner, limit: u32) -> Result<u32, Failure> {
    let now = inner.clock.now();
    let mut script = Script::begin();
    // Only what will not be delivered again, so that what will does not use up the limit.
    script.ask(&format!(
        "SELECT {} FROM async_tasks t FORCE INDEX (async_tasks_wake) WHERE t.live = 3 AND t.wake_at <= {now} AND (t.cancel IS NOT NULL \
         OR t.deliveries >= {} OR t.started_at + INTERVAL t.timeout_ms * 1000 MICROSECOND <= {now}) \
         LIMIT {limit} FOR UPDATE SKIP LOCKED",
        row::JOB,
        windlass_core::job::DELIVERIES_MAX
    ));
    let mut locked = read(tx, inner, script).await?;
    let judged = locked.expire();
    write(tx, inner, &locked).await?;
    Ok(judged)
}

/// Begins: jobs, locked, and the time.
async fn read(tx: &mut Lent<'_>, inner: &Inner, mut script: Script) -> Result<Locked, Failure> {
    inner.clock.ask(&mut script);
    let mut answers = tx.run(&script).await?;
    let jobs = answers.next()?.iter().map(|row| row::job(&mut Cells::of(row))).collect::<Result<Vec<_>, _>>()?;
    Ok(Locked::new(jobs, answers.now()?))
}

async fn write(tx: &mut Lent<'_>, inner: &Inner, locked: &Locked) -> Result<(), Failure> {
    let mut script = Script::default();
    row::update(&mut script, locked.changed(), locked.now())?;
    let ended = locked.ended();
    feed::write(&mut script, &inner.feed, &ended);
    // An end may have made room under a limit.
    let wakes = locked.waits() || !ended.is_empty();
    if wakes {
        wake::count(&mut script, Port::Jobs);
    }
    tx.commit(script).await?;
    inner.feed.ended(&ended);
    if wakes {
        inner.wake.tell();
    }
    Ok(())
}
