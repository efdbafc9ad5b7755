//! Burn-downs by several instances on one store, each in a process of its own: whether more of them are slower than one.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use tokio::runtime::Builder;
use windlass_core::id::QueueName;
use windlass_core::port::job::Jobs;
use windlass_engine::job::Queues;

use super::{Bench, burn, work};
use crate::bench::Row;
use crate::bench::instances::{Compared, Other, Part, REST, Round, at_rest, in_turn, until_done};
use crate::bench::meter::Meter;
use crate::open::{Restless, StoreUrl, open};
use crate::settings::Settings;

/// Handlers at once, of each.
const CONCURRENCY: u32 = 100;
/// Burn-downs of several instances, each between two of one.
const TURNS: usize = 16;

/// A worker on a queue, and what it has done.
struct Worker {
    queues: Queues,
    meter: Arc<Meter>,
}

impl Worker {
    fn start(jobs: &Arc<dyn Jobs>, queue: &QueueName) -> anyhow::Result<Worker> {
        let meter = Meter::new(jobs, u64::MAX)?;
        Ok(Worker { queues: burn::worker(&meter, queue, CONCURRENCY)?, meter })
    }
}

/// The other side: an instance on the store that its first line names. A line that names a queue sets it to work there, and
/// there only, or nowhere; every line is answered with the number of jobs it has done since.
#[expect(clippy::print_stdout, reason = "how the child answers its parent")]
pub fn instance(settings: &Settings) -> anyhow::Result<()> {
    let mut lines = std::io::stdin().lines();
    let url: StoreUrl = lines.next().context("no store was named")??.parse()?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let jobs = runtime.block_on(open(&url, settings))?.jobs;
    let mut worker: Option<Worker> = None;
    println!("0");
    for line in lines {
        let line = line?;
        if !line.is_empty() {
            if let Some(before) = worker.take() {
                runtime.block_on(before.queues.stop());
            }
            if line != REST {
                let queue = line.parse()?;
                worker = Some(runtime.block_on(async { Worker::start(&jobs, &queue) })?);
            }
        }
        println!("{}", worker.as_ref().map_or(0, |worker| worker.meter.settled()));
    }
    if let Some(worker) = worker {
        runtime.block_on(worker.queues.stop());
    }
    Ok(())
}

impl Bench<'_> {
    /// As many jobs by one instance and by several in turn.
    pub(super) async fn several(&self) -> anyhow::Result<Row> {
        let jobs = self.start("several").await?;
        let server = Restless::of(self.url, self.settings).await?;
        let others = Other::start_rest(Part::Jobs, self.url, self.config, self.instances).await?;
        let what = Compared {
            store: self.store(),
            unit: "jobs",
            n: self.scale.shared,
            concurrency: CONCURRENCY,
            turns: TURNS,
        };
        in_turn(what, others, async |others| self.burn_by(&jobs, &server, others).await).await
    }

    /// Jobs that are there are done by this instance and the others, which have nothing to do before and after.
    async fn burn_by(&self, jobs: &Arc<dyn Jobs>, server: &Restless, others: &mut [Other]) -> anyhow::Result<Round> {
        let filled = async || {
            // What an earlier run left is not this one's.
            let queue: QueueName = format!("several-{:016x}", work::seed()).parse()?;
            work::fill(jobs, &queue, None, self.scale.shared).await?;
            Ok(queue)
        };
        at_rest(server, filled, async |queue| self.burnt(jobs, &queue, others).await).await
    }

    async fn burnt(&self, jobs: &Arc<dyn Jobs>, queue: &QueueName, others: &mut [Other]) -> anyhow::Result<Round> {
        let began = Instant::now();
        for other in others.iter_mut() {
            other.ask(queue.as_str()).await?;
        }
        let worker = Worker::start(jobs, queue)?;
        let shares = until_done(self.scale.shared, others, async || Ok(worker.meter.settled())).await?;
        let took = began.elapsed();
        worker.queues.stop().await;
        for other in others {
            other.ask(REST).await?;
        }
        Ok(Round { took, shares, timer: worker.meter.timer()? })
    }
}
