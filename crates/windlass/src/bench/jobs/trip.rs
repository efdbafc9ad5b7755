//! From a submission to its result.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use tokio::sync::oneshot;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::JobStatus;
use windlass_core::port::Mark;
use windlass_core::port::job::Jobs;

use super::work::{self, Worker};
use super::{ALONE, Bench, LOAD};
use crate::bench::{Row, Timer};
use crate::open::StoreUrl;

/// Callers that wait at once, under load.
const WAITERS: u32 = 256;
const WAIT_MS: u64 = 1_000;

impl Bench<'_> {
    pub(super) async fn alone(&self, raw: &Row) -> anyhow::Result<Row> {
        let row = self.trips(ALONE, "alone", 1).await?;
        match self.url {
            StoreUrl::Memory => Ok(row),
            StoreUrl::Postgres(_) => {
                let pass = row.p50_us <= 2_000.0;
                Ok(row.judged("p50 at most 2 ms", pass))
            }
            StoreUrl::Embedded(_) => {
                // A disk's latency drifts: the raw commit is measured on both sides of ours.
                let raw_us = f64::midpoint(raw.p50_us, self.limit()?.p50_us);
                let pass = row.p50_us <= 4.0 * raw_us;
                Ok(row.judged(format!("p50 at most 4 x {raw_us:.0} us, a raw durable commit"), pass))
            }
        }
    }

    pub(super) async fn load(&self) -> anyhow::Result<Row> {
        self.trips(LOAD, "load", WAITERS).await
    }

    async fn trips(&self, workload: &'static str, name: &str, callers: u32) -> anyhow::Result<Row> {
        let jobs = self.start(name).await?;
        let queue: QueueName = format!("trip-{name}").parse()?;
        let stop = Arc::new(AtomicBool::new(false));
        let worker = tokio::spawn(serve(Worker::new(&jobs, "w-1", &queue, WAITERS)?, Arc::clone(&stop)));
        let waiting = Arc::new(Waiting::default());
        let waiter = tokio::spawn(Arc::clone(&waiting).listen(Arc::clone(&jobs), Arc::clone(&stop)));
        let (began, run) = (Instant::now(), self.scale.run);
        let calls = (0..callers).map(|_| {
            let (jobs, queue, waiting) = (Arc::clone(&jobs), queue.clone(), Arc::clone(&waiting));
            async move {
                let mut timer = Timer::new()?;
                let mut mark = jobs.ended(Mark::default(), 0).await?.mark;
                while began.elapsed() < run {
                    let new = work::new_jobs(&queue, None, 1)?;
                    let id = new[0].id;
                    let call = Instant::now();
                    let ended = (callers > 1).then(|| waiting.expect(id));
                    jobs.submit(&[new]).await?.into_iter().next().context("no answer")??;
                    match ended {
                        Some(ended) => ended.await?,
                        // One alone listens itself.
                        None => mark = until_ended(&jobs, mark, id).await?,
                    }
                    let job = jobs.load(&[id]).await?.pop().flatten().context("the job is gone")?;
                    anyhow::ensure!(job.status == JobStatus::Completed, "job {id} is {}", job.status);
                    timer.add(call, 1);
                }
                anyhow::Ok(timer)
            }
        });
        let timer = super::burn::together(calls).await?;
        let took = began.elapsed();
        stop.store(true, Ordering::Relaxed);
        // What ends the two that wait for something to happen.
        work::fill(&jobs, &queue, None, 1).await?;
        worker.await??;
        waiter.await??;
        Ok(Row { bench: "jobs", ..timer.row(workload, self.store(), callers, "jobs", took) })
    }
}

async fn until_ended(jobs: &Arc<dyn Jobs>, mut mark: Mark, id: JobId) -> anyhow::Result<Mark> {
    loop {
        let ended = jobs.ended(mark, WAIT_MS).await?;
        mark = ended.mark;
        if ended.gap || ended.jobs.contains(&id) {
            return Ok(mark);
        }
    }
}

/// Carries out what comes until it is told to stop.
async fn serve(mut worker: Worker, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
    let mut mark = worker.jobs.changed(Mark::default(), 0).await?;
    loop {
        worker.turn(!stop.load(Ordering::Relaxed)).await?;
        if !worker.is_idle() {
            continue;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        mark = worker.jobs.changed(mark, WAIT_MS).await?;
    }
}

/// Who waits for which job: one feed for all of them.
#[derive(Default)]
struct Waiting(std::sync::Mutex<HashMap<JobId, oneshot::Sender<()>>>);

impl Waiting {
    fn expect(&self, id: JobId) -> oneshot::Receiver<()> {
        let (send, ended) = oneshot::channel();
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert(id, send);
        ended
    }

    async fn listen(self: Arc<Self>, jobs: Arc<dyn Jobs>, stop: Arc<AtomicBool>) -> anyhow::Result<()> {
        let mut mark = jobs.ended(Mark::default(), 0).await?.mark;
        while !stop.load(Ordering::Relaxed) {
            let ended = jobs.ended(mark, WAIT_MS).await?;
            mark = ended.mark;
            let mut waiting = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if ended.gap {
                // Everybody looks for itself; here, that is an error if it was too early.
                waiting.drain().for_each(|(_, send)| _ = send.send(()));
            }
            for id in &ended.jobs {
                waiting.remove(id).into_iter().for_each(|send| _ = send.send(()));
            }
        }
        Ok(())
    }
}
