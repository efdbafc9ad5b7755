//! Turns of many workers as one transaction: what they settle and keep is locked and judged by the core, queues are claimed
//! from (`claim`), and all of it is written with the COMMIT.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::Job;
use windlass_core::job::locked::Locked;
use windlass_core::job::rules::{Delivered, Outcome, deliver};
use windlass_core::port::PortError;
use windlass_core::port::job::{Turn, Turned};
use windlass_core::time::Ms;

use super::claim::{Claim, Queue};
use super::{feed, judge, row};
use crate::cell::{Answers, Cells, one};
use crate::error::Failure;
use crate::line::{Line, Work};
use crate::pool::Lent;
use crate::text::{Script, list, literal, row as values};
use crate::wake::{self, Port};
use crate::{Inner, fence};

/// Jobs that one transaction speaks of, and that it claims, at most.
const JOBS_MAX: usize = 2_000;
/// Results of one transaction, in bytes, at most.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The turns of one caller.
pub(crate) struct Turns(pub(super) Vec<Turn>);

#[derive(Default)]
pub(crate) struct Batch {
    jobs: usize,
    wanted: usize,
    bytes: usize,
}

impl Work for Turns {
    type Answer = Vec<Turned>;
    type Batch = Batch;
    // A worker's next turn waits here, and goes at once: two of them would wait for each other's rows in the server.
    const UNDER_WAY_MAX: usize = 1;

    fn line(inner: &Inner) -> &Line<Turns> {
        &inner.turns
    }

    fn join(&self, batch: &mut Batch) -> bool {
        batch.jobs += self.0.iter().flat_map(jobs_of).count();
        batch.wanted += self.0.iter().map(wanted_of).sum::<usize>();
        batch.bytes += self.0.iter().flat_map(|turn| &turn.settle).map(|(_, outcome)| bytes_of(outcome)).sum::<usize>();
        batch.jobs <= JOBS_MAX && batch.wanted <= JOBS_MAX && batch.bytes <= BYTES_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &[Turns]) -> Result<Vec<Vec<Turned>>, PortError> {
        let turns: Vec<&Turn> = batch.iter().flat_map(|turns| &turns.0).collect();
        let mut races = 0;
        let mut answers = loop {
            let mut tx = inner.pool.lend().await?;
            let done = attempt(&mut tx, inner, &turns).await;
            if let Some(done) = tx.settle(done, &mut races).await {
                break done?.into_iter();
            }
        };
        Ok(batch.iter().map(|turns| answers.by_ref().take(turns.0.len()).collect()).collect())
    }
}

fn jobs_of(turn: &Turn) -> impl Iterator<Item = JobId> + '_ {
    turn.settle.iter().map(|(delivery, _)| delivery.job).chain(turn.beat.iter().map(|delivery| delivery.job))
}

fn wanted_of(turn: &Turn) -> usize {
    turn.want.iter().map(|(_, n)| *n as usize).sum()
}

fn bytes_of(outcome: &Outcome) -> usize {
    if let Outcome::Completed(result) = outcome { result.as_str().len() } else { 0 }
}

async fn attempt(tx: &mut Lent<'_>, inner: &Inner, turns: &[&Turn]) -> Result<Vec<Turned>, Failure> {
    let own: BTreeSet<JobId> = turns.iter().copied().flat_map(jobs_of).collect();
    let mut claim = Claim::of(turns, inner);
    let mut script = Script::begin();
    judge::lock(&mut script, own.iter().copied());
    claim.ask(&mut script, inner.clock.now());
    inner.clock.ask(&mut script);
    let mut answers = tx.run(&script).await?;
    let own = answers.next()?.iter().map(|row| row::job(&mut Cells::of(row))).collect::<Result<Vec<_>, _>>()?;
    claim.read(&mut answers)?;
    let now = answers.now()?;
    let expired = claim.lock_out(tx, now).await?;
    let mut locked = Locked::new(own.into_iter().chain(expired), now);
    let mut done: Vec<Turned> = turns.iter().map(|turn| locked.turn(turn)).collect();
    claim.judge_expired(&mut locked);

    let mut script = Script::default();
    row::update(&mut script, locked.changed(), now)?;
    if claim.bounded || claim.ran_out || locked.waits() {
        // What waits again may be claimed at once, and what has ended may make room: that is written first.
        claim.run_after(tx, std::mem::take(&mut script), inner, now).await?;
    } else {
        claim.run(tx, now).await?;
    }
    let given = write_claimed(&mut script, turns, &claim, now)?;
    claim.write_askers(&mut script, inner, now);
    let short = done.iter().zip(turns).enumerate().any(|(n, (_, turn))| given[n].len() < wanted_of(turn));
    if short {
        claim.ask_next(&mut script, now);
    }
    let ended = locked.ended();
    feed::write(&mut script, &inner.feed, &ended);
    let wakes = locked.waits() || (!ended.is_empty() && claim.bounded);
    if wakes {
        wake::count(&mut script, Port::Jobs);
    }
    let mut answers = tx.commit(script).await?;
    let fence = fence_in(&given, &mut answers)?;
    let next = if short { claim.read_next(&mut answers)? } else { HashMap::new() };
    claim.served(inner);
    for ((turned, turn), mut jobs) in done.iter_mut().zip(turns).zip(given) {
        jobs.iter_mut().for_each(|job| job.fence = fence);
        turned.claimed = if turn.want.len() > 1 { in_order(turn, jobs) } else { jobs };
        if turned.claimed.len() < wanted_of(turn) {
            turned.next = turn.want.iter().filter_map(|(queue, _)| next.get(queue).copied()).min();
        }
    }
    inner.feed.ended(&ended);
    if wakes || !ended.is_empty() {
        inner.wake.tell();
    }
    Ok(done)
}

/// Makes the claimed jobs their workers', under a fence that is drawn while they are locked. Answers them by turn.
fn write_claimed(script: &mut Script, turns: &[&Turn], claim: &Claim, now: Ms) -> Result<Vec<Vec<Job>>, PortError> {
    let mut given: Vec<Vec<Job>> = turns.iter().map(|_| Vec::new()).collect();
    let mut groups: BTreeMap<(usize, bool, Option<Ms>), Vec<u64>> = BTreeMap::new();
    for (turn, job) in claim.queues.iter().flat_map(Queue::given) {
        let (seq, again) = (job.seq, job.worker.is_some());
        let delivered = deliver(job.clone(), &turns[turn].worker, Fence::NONE, turns[turn].lease_ms, now);
        let Delivered::Claimed(job) = delivered else {
            return Err(PortError::Corrupt(format!("job {} was claimed and is not claimable", job.id)));
        };
        groups.entry((turn, again, job.started_at)).or_default().push(seq);
        given[turn].push(job);
    }
    if groups.is_empty() {
        return Ok(given);
    }
    fence::count(script, 1);
    for ((turn, again, started_at), seqs) in groups {
        let until = literal(now.plus(turns[turn].lease_ms));
        script.say(&format!(
            "UPDATE async_tasks FORCE INDEX (PRIMARY) SET status = 'RUNNING', live = 3, attempt = attempt + {}, \
             deliveries = deliveries + 1, worker = {}, fence = @fence, version = version + 1, started_at = {}, lease_until = {until}, wake_at = {until} WHERE seq IN ({})",
            u8::from(!again),
            literal(turns[turn].worker.as_str()),
            literal(started_at),
            list(seqs)
        ));
    }
    script.ask("SELECT @fence");
    Ok(given)
}

fn fence_in(given: &[Vec<Job>], answers: &mut Answers) -> Result<Fence, PortError> {
    match given.iter().all(Vec::is_empty) {
        true => Ok(Fence::NONE),
        false => one(&answers.next()?)?.parse().map(Fence),
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

impl Claim {
    /// Says that the queues are asked for, if that was not said lately.
    fn write_askers(&self, script: &mut Script, inner: &Inner, now: Ms) {
        let mut said = inner.askers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut rows = BTreeMap::new();
        for queue in &self.queues {
            let until = now.plus(queue.lease_ms);
            let fresh =
                said.get(&queue.name).is_some_and(|last| *last <= until && *last >= now.plus(queue.lease_ms / 4 * 3));
            if !fresh {
                said.insert(queue.name.clone(), until);
                rows.insert(queue.name.as_str(), values![queue.name.as_str(), inner.feed.tag(), until]);
            }
        }
        let head = "INSERT INTO job_asker (queue, asker, until) VALUES ";
        script.rows(head, rows.into_values(), "ON DUPLICATE KEY UPDATE until = VALUES(until)");
    }
}
