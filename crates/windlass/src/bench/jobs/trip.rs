//! From a submission to its result, as a program sees it: with a handle, and a worker beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::id::QueueName;
use windlass_core::json::Json;
use windlass_engine::clock::SystemClock;
use windlass_engine::job::worker::{Failed, Lane, Told};
use windlass_engine::job::{Handle, Queues, Waited};

use super::work::seed;
use super::{ALONE, Bench, LOAD, WAITING};
use crate::bench::limit::Raw;
use crate::bench::{Row, Timer};
use crate::open::StoreUrl;

/// Callers that wait at once, under load.
const CALLERS: u32 = 256;
/// No job of the bench takes this long.
const LONG: Duration = Duration::from_secs(60);

impl Bench<'_> {
    pub(super) async fn alone(&self) -> anyhow::Result<Row> {
        let most_us = match self.url {
            StoreUrl::Embedded(_) => {
                let (row, raw_us) = self.trips_beside_raw().await?;
                let pass = row.p50_us <= 4.0 * raw_us;
                return Ok(row.judged(format!("p50 at most 4 x {raw_us:.0} us, a raw durable commit"), pass));
            }
            // Nothing was asked of it.
            StoreUrl::Memory | StoreUrl::MySql(_) => return self.trips(ALONE, "alone", 1).await,
            StoreUrl::Postgres(_) => 2_000.0,
            StoreUrl::Redis(_) => 700.0,
        };
        let row = self.trips(ALONE, "alone", 1).await?;
        let pass = row.p50_us <= most_us;
        Ok(row.judged(format!("p50 at most {} ms", most_us / 1_000.0), pass))
    }

    pub(super) async fn load(&self) -> anyhow::Result<Row> {
        self.trips(LOAD, "load", CALLERS).await
    }

    /// One after the other, and a raw commit after each: the row, and the raw commit's median.
    async fn trips_beside_raw(&self) -> anyhow::Result<(Row, f64)> {
        let (queues, queue) = self.worked_on("alone").await?;
        let (mut timer, mut raw) = (Timer::new()?, Raw::open(self.folder, 1)?);
        let began = Instant::now();
        while began.elapsed() < self.scale.run {
            trip(&queues, &queue, &mut timer).await?;
            raw.commit()?;
        }
        let took = began.elapsed() - raw.spent();
        queues.stop().await;
        let row = timer.row(ALONE, self.store(), 1, "jobs", took);
        Ok((Row { bench: "jobs", ..row }, raw.row()?.p50_us))
    }

    /// Queues with a worker, and the one it works on.
    async fn worked_on(&self, name: &str) -> anyhow::Result<(Queues, QueueName)> {
        let queues = self.queues(name).await?;
        let queue: QueueName = format!("trip-{name}").parse()?;
        queues.work(vec![lane(&queue)])?;
        Ok((queues, queue))
    }

    async fn trips(&self, workload: &'static str, name: &str, callers: u32) -> anyhow::Result<Row> {
        let (queues, queue) = self.worked_on(name).await?;
        let (began, run) = (Instant::now(), self.scale.run);
        let calls = (0..callers).map(|_| {
            let (queues, queue) = (queues.clone(), queue.clone());
            // A task, as callers are in a program that serves others.
            let calls = tokio::spawn(async move {
                let mut timer = Timer::new()?;
                while began.elapsed() < run {
                    trip(&queues, &queue, &mut timer).await?;
                }
                anyhow::Ok(timer)
            });
            async move { calls.await? }
        });
        let timer = super::burn::together(calls).await?;
        let took = began.elapsed();
        queues.stop().await;
        Ok(Row { bench: "jobs", ..timer.row(workload, self.store(), callers, "jobs", took) })
    }

    /// Many wait, each for a job of its own: what the store is asked for it.
    pub(super) async fn waiting(&self) -> anyhow::Result<Row> {
        let queues = self.queues("waiting").await?;
        let queue: QueueName = "waited-for".parse()?;
        let new = (0..self.scale.waiters).map(|_| queues.job(queue.clone(), Some(Json::null()))).collect();
        let handles = queues.submit_all(new).await?;
        let began = Instant::now();
        let waiting = handles.into_iter().map(|handle| async move {
            ended(handle).await?;
            let mut timer = Timer::new()?;
            timer.add(began, 1);
            anyhow::Ok(timer)
        });
        queues.work(vec![lane(&queue)])?;
        let timer = super::burn::together(waiting).await?;
        let took = began.elapsed();
        let (reads, jobs) = (queues.reads(), u64::from(self.scale.waiters));
        queues.stop().await;
        let row = Row { bench: "jobs", ..timer.row(WAITING, self.store(), self.scale.waiters, "jobs", took) };
        Ok(row.judged(format!("at most one store read per finished job; {reads} for {jobs}"), reads <= jobs))
    }

    async fn queues(&self, name: &str) -> anyhow::Result<Queues> {
        Ok(Queues::start(self.start(name).await?, Arc::new(SystemClock), (&self.settings.jobs).into(), seed()))
    }
}

fn lane(queue: &QueueName) -> Lane {
    let nothing = |_: Told| std::future::ready(Ok::<Json, Failed>(Json::null()));
    Lane { queue: queue.clone(), concurrency: CALLERS, prefetch: 0, handler: Arc::new(nothing) }
}

/// One job from its submission to its result.
async fn trip(queues: &Queues, queue: &QueueName, timer: &mut Timer) -> anyhow::Result<()> {
    let call = Instant::now();
    ended(queues.submit(queues.job(queue.clone(), Some(Json::null()))).await?).await?;
    timer.add(call, 1);
    Ok(())
}

async fn ended(handle: Handle) -> anyhow::Result<()> {
    match handle.wait(Some(LONG)).await? {
        Waited::Ended(job) => anyhow::ensure!(job.result.is_some(), "job {} is {}", job.id, job.status),
        Waited::TimedOut => anyhow::bail!("job {} does not end", handle.id()),
    }
    Ok(())
}
