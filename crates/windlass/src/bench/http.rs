//! `windlass bench http`: the real executable as a server in a process of its own, and keep-alive clients before it.

mod events;
mod jobs;
mod serve;
mod tasks;
mod wire;

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;

use super::instances::{Setup, lonely};
use super::store::Report;
use super::{Row, limit};
use crate::open::StoreUrl;
use serve::Serve;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// How long each workload without an end runs.
    pub run: Duration,
    /// Tasks that are stored while one is asked for.
    pub tasks: u32,
    /// Plans carried out.
    pub plans: u32,
    /// Streams of events at once.
    pub streams: u32,
    /// Stages of each task whose events are streamed.
    pub stages: u32,
    /// How long a server is left alone before its memory is looked at.
    pub idle: Duration,
}

impl Scale {
    /// What figures are quoted from.
    pub const FULL: Scale = Scale {
        run: Duration::from_secs(5),
        tasks: 1_000_000,
        plans: 2_000,
        streams: 100,
        stages: 100,
        idle: Duration::from_secs(3),
    };
    /// A look.
    pub const QUICK: Scale = Scale {
        run: Duration::from_millis(300),
        tasks: 2_000,
        plans: 20,
        streams: 10,
        stages: 5,
        idle: Duration::from_millis(100),
    };
}

const ONE: &str = "jobs one by one";
const BATCH: &str = "jobs by 100";
const PLANS: &str = "plans of 10 x 3";
const STORED: &str = "task by tenant";
const EVENTS: &str = "event to streams";
const IDLE: &str = "idle memory";
const SIZE: &str = "executable";

/// An idle server's memory, and the size of the executable, at most.
const IDLE_MAX: u64 = 40_000_000;
const SIZE_MAX: u64 = 30_000_000;

/// Measures, and hands each row to `show` as it comes.
pub fn run(setup: Setup<'_, Scale>, show: &mut dyn FnMut(&Row)) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let here = StoreUrl::Embedded(folder.path().join("store"));
    let store = setup.url.unwrap_or(&here);
    let instances = lonely(store, setup.instances)?;
    let bench = Bench { setup, scale: setup.scale, store: store.kind(), instances, folder: folder.path() };
    let mut report = Report::new(show);
    let wanted = |workload: &str| setup.only.is_none_or(|only| workload.contains(only));
    // The clients share the machine with what they measure: one thread for all of them.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    report.add(Row { bench: "http", ..limit::engine(folder.path(), 1, bench.scale.run.min(Duration::from_secs(3)))? });
    runtime.block_on(async {
        if wanted(ONE) {
            report.add(bench.jobs(ONE, 1, 8_000.0).await?);
        }
        if wanted(BATCH) {
            report.add(bench.jobs(BATCH, 100, 40_000.0).await?);
        }
        if wanted(PLANS) {
            report.add(bench.plans().await?);
        }
        if wanted(STORED) {
            bench.stored().await?.into_iter().for_each(|row| report.add(row));
        }
        if wanted(EVENTS) {
            report.add(bench.events().await?);
        }
        if wanted(IDLE) {
            report.add(bench.idle().await?);
        }
        if wanted(SIZE) {
            report.add(bench.size()?);
        }
        anyhow::Ok(())
    })?;
    Ok(report.into_rows())
}

struct Bench<'a> {
    setup: Setup<'a, Scale>,
    scale: Scale,
    store: &'static str,
    /// Servers on the store, over which clients are spread.
    instances: u32,
    folder: &'a Path,
}

impl Bench<'_> {
    fn is_embedded(&self) -> bool {
        self.setup.url.is_none()
    }

    /// A server; on a store of its own where that is possible.
    async fn serve(&self, name: &str) -> anyhow::Result<Serve> {
        let own = || StoreUrl::Embedded(self.folder.join(name)).whole();
        let url = self.setup.url.map_or_else(own, StoreUrl::whole);
        let log = self.folder.join(format!("{name}.log"));
        Serve::start(&url, self.setup.config, log).await
    }

    /// As many servers as there are instances.
    async fn serves(&self, name: &str) -> anyhow::Result<Vec<Serve>> {
        let mut serves = Vec::new();
        for n in 0..self.instances {
            serves.push(self.serve(&format!("{name}-{n}")).await?);
        }
        Ok(serves)
    }

    fn row(&self, row: Row) -> Row {
        Row { bench: "http", store: self.store.to_owned(), ..row }
    }

    /// Resident memory of a server that has nothing stored and nothing to do.
    async fn idle(&self) -> anyhow::Result<Row> {
        let serve = self.serve("idle").await?;
        serve.wire().await?.get("/v1/plans").await?;
        tokio::time::sleep(self.scale.idle).await;
        let bytes = super::resident_bytes(serve.id())?;
        serve.stop()?;
        let row = self.row(figure(IDLE, "servers", bytes));
        Ok(row.judged(format!("at most {} MB", IDLE_MAX / 1_000_000), bytes <= IDLE_MAX))
    }

    /// The executable as it was built.
    fn size(&self) -> anyhow::Result<Row> {
        let bytes = std::fs::metadata(std::env::current_exe()?)?.len();
        let row = Row { disk_bytes: Some(bytes), resident_bytes: None, ..self.row(figure(SIZE, "files", bytes)) };
        Ok(row.judged(format!("at most {} MB", SIZE_MAX / 1_000_000), bytes <= SIZE_MAX))
    }
}

/// A row about bytes: nothing is counted by the second.
fn figure(workload: &str, unit: &'static str, bytes: u64) -> Row {
    Row { workload: workload.to_owned(), concurrency: 1, unit, resident_bytes: Some(bytes), ..Row::default() }
}
