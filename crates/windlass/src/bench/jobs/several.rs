//! Burn-downs by several instances on one store, each in a process of its own: whether more of them are slower than one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::runtime::Builder;
use windlass_core::id::QueueName;
use windlass_core::port::job::Jobs;
use windlass_engine::job::Queues;

use super::{Bench, burn, work};
use crate::bench::instances::{Other, Part, REST, Turns, until_rests};
use crate::bench::meter::Meter;
use crate::bench::{Row, Timer};
use crate::open::{Restless, StoreUrl, open};
use crate::settings::Settings;

/// Handlers at once, of each.
const CONCURRENCY: u32 = 100;
/// Burn-downs of several instances, each between two of one.
const TURNS: usize = 8;
/// Between two looks at how far all are.
const LOOK: Duration = Duration::from_millis(2);

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

/// How a burn-down went.
struct Burnt {
    took: Duration,
    /// What each has done, this instance first.
    shares: Vec<u64>,
    timer: Timer,
}

impl Bench<'_> {
    /// As many jobs by one instance and by several in turn; see [`Turns::judge`]. The others have nothing to do while it is not their
    /// turn.
    pub(super) async fn several(&self) -> anyhow::Result<Row> {
        let jobs = self.start("several").await?;
        let server = Restless::of(self.url, self.settings).await?;
        let mut others = Other::start_rest(Part::Jobs, self.url, self.config, self.instances).await?;
        let mut turns = Turns { one: vec![self.burn_by(&jobs, &server, &mut []).await?.took], several: Vec::new() };
        let (mut timer, mut shares) = (Timer::new()?, vec![0; self.instances as usize]);
        for _ in 0..TURNS {
            let burnt = self.burn_by(&jobs, &server, &mut others).await?;
            turns.several.push(burnt.took);
            timer.merge(&burnt.timer)?;
            shares.iter_mut().zip(burnt.shares).for_each(|(sum, part)| *sum += part);
            for other in &mut others {
                other.ask(REST).await?;
            }
            turns.one.push(self.burn_by(&jobs, &server, &mut []).await?.took);
        }
        for other in others {
            other.stop().await?;
        }
        let name = crate::bench::instances::name(self.instances);
        let (per_s, bar, pass) = turns.judge(f64::from(self.scale.shared), "jobs", &shares);
        let row = timer.row(&name, self.store(), CONCURRENCY * self.instances, "jobs", turns.took());
        Ok(Row { bench: "jobs", per_s, ..row }.judged(bar, pass))
    }

    /// Jobs that are there are done by this instance and the others.
    async fn burn_by(&self, jobs: &Arc<dyn Jobs>, server: &Restless, others: &mut [Other]) -> anyhow::Result<Burnt> {
        // What an earlier run left is not this one's.
        let queue: QueueName = format!("several-{:016x}", work::seed()).parse()?;
        work::fill(jobs, &queue, None, self.scale.shared).await?;
        until_rests(server).await?;
        let began = Instant::now();
        for other in others.iter_mut() {
            other.ask(queue.as_str()).await?;
        }
        let worker = Worker::start(jobs, &queue)?;
        let mut shares;
        loop {
            shares = vec![worker.meter.settled()];
            for other in others.iter_mut() {
                shares.push(other.ask("").await?);
            }
            if shares.iter().sum::<u64>() >= u64::from(self.scale.shared) {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let took = began.elapsed();
        worker.queues.stop().await;
        Ok(Burnt { took, shares, timer: worker.meter.timer()? })
    }
}
