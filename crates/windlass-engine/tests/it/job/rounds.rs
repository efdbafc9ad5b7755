//! Seeded rounds: submitters, workers that fail, crash, stop and dawdle, and a network that loses calls and answers. At the
//! end every job that was taken has ended, and each result is the highest fence's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::job::{Backoff, JobError, JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_engine::job::worker::{Failed, Told};
use windlass_engine::job::{Handle, JobOptions, Queues, Waited};

use super::yard::{Port, Yard, json, lane, now, pass};
use crate::world::by;

const SEEDS: u64 = 200;

fn options() -> JobOptions {
    JobOptions { lease_ms: 1_000, scan_ms: 2_000, poll_ms: 50, retention_ms: 3_600_000, drain_ms: 500 }
}

type Chance = Arc<Mutex<fastrand::Rng>>;

/// A handler that returns the fence it ran under, if it returns.
fn handler(chance: Chance) -> impl Fn(Told) -> Work + Send + Sync + 'static {
    move |told| {
        let (what, ms) = {
            let mut chance = chance.lock().unwrap();
            (chance.u32(..10), chance.u64(..4_000))
        };
        Box::pin(async move {
            match what {
                0 => pass(ms).await,
                1 => return Err(Failed { error: JobError::of("E", "no"), again: true }),
                2 => return Err(Failed { error: JobError::of("E", "never"), again: false }),
                3 => panic!("it fell over"),
                _ => pass(ms / 20).await,
            }
            Ok(json(&told.fence.0.to_string()))
        })
    }
}

type Work = std::pin::Pin<Box<dyn Future<Output = Result<Json, Failed>> + Send>>;

/// A process with a worker that comes, goes and crashes.
async fn comes_and_goes(yard: &Yard, chance: Chance, spoiled: bool, until_ms: u128) {
    while yard.began.elapsed().as_millis() < until_ms {
        let (seed, ms, crashes) = {
            let mut chance = chance.lock().unwrap();
            (chance.u64(..), chance.u64(100..5_000), chance.bool())
        };
        let port = Arc::new(Port::over(yard.store.clone()));
        port.rough(seed, spoiled);
        let queues = Queues::start(port, clock(yard), options(), seed);
        let worker = queues.work(vec![lane("q", 3, 2, handler(Arc::clone(&chance)))]).unwrap();
        pass(ms).await;
        match crashes {
            true => queues.kill(),
            false => worker.stop().await,
        }
        queues.kill();
    }
}

fn clock(yard: &Yard) -> Arc<dyn windlass_engine::clock::Clock> {
    let began = yard.began;
    Arc::new(move || now(began))
}

/// Submits, waits a little, cancels now and then; answers what the store is known to have taken.
async fn submits(yard: &Yard, chance: &Chance) -> Vec<Handle> {
    let mut taken = Vec::new();
    for _ in 0..15 {
        let (jobs, ms, cancels) = {
            let mut chance = chance.lock().unwrap();
            let job = |chance: &mut fastrand::Rng| NewJob {
                max_attempts: chance.u32(1..4),
                backoff: Backoff { first_ms: 100, max_ms: 1_000 },
                timeout_ms: chance.bool().then(|| chance.u64(500..3_000)),
                tenant: chance.bool().then(|| "acme".parse().unwrap()),
                priority: chance.i8(..),
                ..yard.job()
            };
            let jobs: Vec<_> = (0..chance.usize(1..5)).map(|_| job(&mut chance)).collect();
            (jobs, chance.u64(..1_000), chance.u32(..4) == 0)
        };
        if let Ok(handles) = yard.queues.submit_all(jobs).await {
            taken.extend(handles);
        }
        pass(ms).await;
        if let Some(handle) = taken.last().filter(|_| cancels) {
            // Not heard, or too late: as good.
            drop(handle.cancel(&by("ann")).await);
        }
    }
    taken
}

async fn round(seed: u64, spoiled: bool) -> Result<usize, String> {
    let yard = Yard::new(options());
    let chance: Chance = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
    yard.port.rough(seed, false);
    let workers = async {
        let one = || comes_and_goes(&yard, Arc::clone(&chance), spoiled, 15_000);
        tokio::join!(one(), one());
    };
    let (taken, ()) = tokio::join!(submits(&yard, &chance), workers);
    yard.port.calm();
    let last = yard.elsewhere(options());
    last.work(vec![lane("q", 5, 0, async |told: Told| Ok(json(&told.fence.0.to_string())))]).unwrap();
    for handle in &taken {
        let waited = tokio::time::timeout(Duration::from_secs(600), handle.wait(None)).await;
        match waited {
            Ok(Ok(Waited::Ended(_))) => {}
            other => return Err(format!("job {} never ended: {other:?}", handle.id())),
        }
    }
    // Also what nobody knows whether it was taken.
    pass(60_000).await;
    let jobs = yard.list(&[]).await;
    for job in &jobs {
        job.check().map_err(|why| why.to_string())?;
        if !job.status.is_ended() {
            return Err(format!("it neither ended nor was claimed: {job:?}"));
        }
        let under = job.fence.0.to_string();
        if job.status == JobStatus::Completed && job.result.as_ref().is_none_or(|result| result.as_str() != under) {
            return Err(format!("the result of another delivery was taken: {job:?}"));
        }
    }
    if let Some(lost) = taken.iter().find(|handle| !jobs.iter().any(|job| job.id == handle.id())) {
        return Err(format!("job {} was taken and is not there", lost.id()));
    }
    yard.queues.kill();
    last.kill();
    Ok(jobs.len())
}

fn run(seed: u64, spoiled: bool) -> Result<usize, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(round(seed, spoiled))
}

#[test]
fn nothing_is_lost_and_no_old_fence_is_believed() {
    let mut jobs = 0;
    for seed in 0..SEEDS {
        jobs += run(seed, false).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    println!("{SEEDS} seeds, {jobs} jobs");
}

#[test]
fn a_store_that_believes_an_old_fence_is_seen() {
    let seen = (0..SEEDS).find_map(|seed| run(seed, true).err());
    assert!(seen.as_ref().is_some_and(|why| why.contains("another delivery")), "{seen:?}");
}
