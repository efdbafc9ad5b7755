//! Submissions and burn-downs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_core::id::QueueName;
use windlass_core::json::Json;
use windlass_core::port::job::Jobs;
use windlass_engine::clock::SystemClock;
use windlass_engine::job::worker::{Failed, Lane, Told};
use windlass_engine::job::{JobOptions, Queues};

use super::work::{self, GROUP};
use super::{BATCHED, BURN, Bench, SINGLE};
use crate::bench::meter::Meter;
use crate::bench::{Row, Timer};

/// Callers that submit batches at once.
const BATCHERS: u32 = 4;

impl Bench<'_> {
    pub(super) async fn single(&self, callers: u32) -> anyhow::Result<Row> {
        let jobs = self.start(&format!("single-{callers}")).await?;
        let row = submits(&jobs, SINGLE, self.store(), callers, 1, self.scale.run).await?;
        Ok(row)
    }

    pub(super) async fn batched(&self) -> anyhow::Result<Row> {
        let jobs = self.start("batched").await?;
        let row = submits(&jobs, BATCHED, self.store(), BATCHERS, GROUP, self.scale.run).await?;
        Ok(self.at_least(row, [100_000.0, 50_000.0, 0.0, 60_000.0]))
    }

    /// From the first claim to the last acknowledged completion.
    pub(super) async fn burn(&self, concurrency: u32) -> anyhow::Result<Row> {
        let name = format!("burn-{concurrency}");
        let jobs = self.start(&name).await?;
        let queue: QueueName = name.parse()?;
        work::fill(&jobs, &queue, None, self.scale.burn).await?;
        let (timer, took) = burn(&jobs, &queue, concurrency, u64::from(self.scale.burn)).await?;
        let row = timer.row(BURN, self.store(), concurrency, "jobs", took);
        Ok(self.at_least(Row { bench: "jobs", ..row }, [40_000.0, 18_000.0, 6_000.0, 25_000.0]))
    }
}

async fn submits(
    jobs: &Arc<dyn Jobs>,
    workload: &'static str,
    store: &str,
    callers: u32,
    group: u32,
    run: Duration,
) -> anyhow::Result<Row> {
    let queue: QueueName = "submits".parse()?;
    let began = Instant::now();
    let calls = (0..callers).map(|_| {
        let (jobs, queue) = (Arc::clone(jobs), queue.clone());
        async move {
            let mut timer = Timer::new()?;
            while began.elapsed() < run {
                let new = [work::new_jobs(&queue, None, group)?];
                let call = Instant::now();
                jobs.submit(&new).await?.into_iter().next().context("no answer")??;
                timer.add(call, u64::from(group));
            }
            anyhow::Ok(timer)
        }
    });
    let all = together(calls).await?;
    Ok(Row { bench: "jobs", ..all.row(workload, store, callers, "jobs", began.elapsed()) })
}

/// Runs callers at once; one alone is run by whoever asks, so that no task of the runtime lies between.
pub(super) async fn together<F>(calls: impl ExactSizeIterator<Item = F>) -> anyhow::Result<Timer>
where
    F: Future<Output = anyhow::Result<Timer>> + Send + 'static,
{
    let mut all = Timer::new()?;
    if calls.len() == 1 {
        for call in calls {
            all.merge(&call.await?)?;
        }
        return Ok(all);
    }
    let tasks: Vec<_> = calls.map(tokio::spawn).collect();
    for task in tasks {
        all.merge(&task.await??)?;
    }
    Ok(all)
}

/// Carries out `n` jobs that are there by a worker as programs have it, so many handlers at once: from its first claim to
/// the last acknowledged completion.
pub(super) async fn burn(
    jobs: &Arc<dyn Jobs>,
    queue: &QueueName,
    concurrency: u32,
    n: u64,
) -> anyhow::Result<(Timer, Duration)> {
    let meter = Meter::new(jobs, n)?;
    let began = Instant::now();
    let queues = worker(&meter, queue, concurrency)?;
    meter.done().await;
    let took = began.elapsed();
    queues.stop().await;
    let timer = meter.timer()?;
    anyhow::ensure!(timer.units == n, "{} of {n} jobs were done", timer.units);
    Ok((timer, took))
}

/// A worker as programs have it, with handlers that do nothing.
pub(super) fn worker(meter: &Arc<Meter>, queue: &QueueName, concurrency: u32) -> anyhow::Result<Queues> {
    let queues = Queues::start(Arc::clone(meter) as _, Arc::new(SystemClock), JobOptions::default(), work::seed());
    let result = Json::parse(r#"{"ok":true}"#)?;
    let nothing = move |_: Told| std::future::ready(Ok::<Json, Failed>(result.clone()));
    queues.work(vec![Lane::new(queue.clone(), concurrency, Arc::new(nothing))])?;
    Ok(queues)
}
