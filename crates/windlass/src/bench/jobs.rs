//! `windlass bench jobs`: jobs through the port, on any store, beside what the machine itself can do.

mod burn;
mod fair;
mod several;
mod trip;
mod work;

pub use several::instance;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use windlass_core::port::job::Jobs;

use super::instances::Setup;
use super::store::Report;
use super::{Row, instances, limit};
use crate::open::{StoreUrl, open};
use crate::settings::Settings;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Jobs of a burn-down.
    pub burn: u32,
    /// Jobs of a burn-down by several instances.
    pub shared: u32,
    /// Jobs of the one tenant that has many.
    pub many: u32,
    /// Jobs behind the limited tenants.
    pub blocked: u32,
    /// Callers that wait at once, each for a job of its own.
    pub waiters: u32,
    /// How long each workload without an end runs.
    pub run: Duration,
}

impl Scale {
    /// What figures are quoted from.
    pub const FULL: Scale = Scale {
        burn: 200_000,
        shared: 50_000,
        many: 1_000_000,
        blocked: 100_000,
        waiters: 10_000,
        run: Duration::from_secs(3),
    };
    /// A look.
    pub const QUICK: Scale = Scale {
        burn: 5_000,
        shared: 2_000,
        many: 5_000,
        blocked: 1_000,
        waiters: 500,
        run: Duration::from_millis(200),
    };
}

const SINGLE: &str = "submit single";
const BATCHED: &str = "submit batched";
const BURN: &str = "burn-down";
const ALONE: &str = "submit to result";
const LOAD: &str = "result under load";
const WAITING: &str = "waiters";
const MANY: &str = "ten beside a million";
const BLOCKED: &str = "claims past blocked";

/// Measures, and hands each row to `show` as it comes.
pub fn run(setup: Setup<'_, Scale>, show: &mut dyn FnMut(&Row)) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let here = StoreUrl::Embedded(folder.path().join("store"));
    let Setup { url, scale, only, config, settings, .. } = setup;
    let url = url.unwrap_or(&here);
    let instances = instances::count(url, setup.instances)?;
    let bench = Bench { url, scale, instances, config, settings, folder: folder.path() };
    let mut report = Report::new(show);
    let wanted = |workload: &str| only.is_none_or(|only| workload.contains(only));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    report.add(bench.limit()?);
    runtime.block_on(async {
        if wanted(SINGLE) {
            for callers in [1, 64] {
                report.add(bench.single(callers).await?);
            }
        }
        if wanted(BATCHED) {
            report.add(bench.batched().await?);
        }
        for concurrency in [10, 100, 1_000] {
            if wanted(&format!("{BURN} x{concurrency}")) {
                report.add(bench.burn(concurrency).await?);
            }
        }
        if instances > 1 && wanted(&instances::name(instances)) {
            report.add(bench.several().await?);
        }
        if wanted(ALONE) {
            report.add(bench.alone().await?);
        }
        if wanted(LOAD) {
            report.add(bench.load().await?);
        }
        if wanted(WAITING) {
            report.add(bench.waiting().await?);
        }
        if wanted(MANY) {
            bench.many().await?.into_iter().for_each(|row| report.add(row));
        }
        if wanted(BLOCKED) {
            bench.blocked().await?.into_iter().for_each(|row| report.add(row));
        }
        anyhow::Ok(())
    })?;
    Ok(report.into_rows())
}

struct Bench<'a> {
    url: &'a StoreUrl,
    scale: Scale,
    instances: u32,
    config: Option<&'a Path>,
    settings: &'a Settings,
    folder: &'a Path,
}

impl Bench<'_> {
    fn store(&self) -> &'static str {
        self.url.kind()
    }

    /// What is asked of this store, if anything is.
    fn at_least(&self, row: Row, [embedded, postgres, mysql, redis]: [f64; 4]) -> Row {
        let least = match self.url {
            StoreUrl::Memory => return row,
            StoreUrl::Embedded(_) => embedded,
            StoreUrl::Postgres(_) => postgres,
            StoreUrl::MySql(_) => mysql,
            StoreUrl::Redis(_) => redis,
        };
        let (unit, pass) = (row.unit, row.per_s >= least);
        row.judged(format!("at least {least:.0} {unit}/s"), pass)
    }

    /// One durable write of the machine, with nothing of ours above it.
    fn limit(&self) -> anyhow::Result<Row> {
        let row = limit::engine(self.folder, 1, self.scale.run)?;
        Ok(Row { bench: "jobs", ..row })
    }

    /// A store for one workload: of its own where that is possible.
    async fn start(&self, name: &str) -> anyhow::Result<Arc<dyn Jobs>> {
        let url = match self.url {
            StoreUrl::Embedded(path) => StoreUrl::Embedded(path.with_file_name(name)),
            other => other.clone(),
        };
        let stores = open(&url, self.settings).await?;
        Ok(stores.jobs)
    }
}
