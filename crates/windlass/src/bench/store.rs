//! `windlass bench store`.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_core::lock::{Acquire, Held, LOCK_MS};
use windlass_core::port::state::{Filter, Key};
use windlass_core::task::status::{Statuses, TaskStatus};

use super::fixture::{self, Running};
use super::{Row, Scale, Timer, limit, reopen};
use crate::open::{StoreUrl, Stores, open};
use crate::settings::Settings;

const CALLERS: [u32; 3] = [1, 16, 256];
const BOUNDARY: &str = "boundary commit";
const LOCKS: &str = "lock acquire+release";
const LOADS: &str = "load task+checkpoint";
const LISTS: &str = "list page of 100";

/// Measures everything, or `only` the workloads whose name holds that, on the embedded store in
/// `folder` (a temporary one unless given), and hands each row to `show` as it comes.
pub fn run(
    folder: Option<&Path>,
    scale: Scale,
    only: Option<&str>,
    settings: &Settings,
    show: &mut dyn FnMut(&Row),
) -> anyhow::Result<Vec<Row>> {
    let temporary = tempfile::tempdir().context("no temporary folder")?;
    let folder = folder.unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)?;
    anyhow::ensure!(
        std::fs::read_dir(folder)?.next().is_none(),
        "{} is not empty; a bench needs a folder of its own",
        folder.display()
    );
    let mut report = Report::new(show);
    let wanted = |workload: &str| only.is_none_or(|only| workload.contains(only));
    report.add(limit::sync(folder, scale.run)?);
    let single = limit::engine(folder, 1, scale.run)?;
    let batch = limit::engine(folder, 100, scale.run)?;
    report.add(single.clone());
    report.add(batch.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(calls(folder, scale, &wanted, settings, &mut report, &single, &batch))?;
    if wanted("reopen") {
        reopen::run(folder, scale, &mut report)?;
    }
    Ok(report.into_rows())
}

/// Rows, shown as they come.
pub(crate) struct Report<'a> {
    rows: Vec<Row>,
    show: &'a mut dyn FnMut(&Row),
}

impl<'a> Report<'a> {
    pub(crate) fn new(show: &'a mut dyn FnMut(&Row)) -> Report<'a> {
        Report { rows: Vec::new(), show }
    }

    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    pub(crate) fn add(&mut self, row: Row) {
        (self.show)(&row);
        self.rows.push(row);
    }
}

async fn calls(
    folder: &Path,
    scale: Scale,
    wanted: &dyn Fn(&str) -> bool,
    settings: &Settings,
    report: &mut Report<'_>,
    single: &Row,
    batch: &Row,
) -> anyhow::Result<()> {
    let data = folder.join("calls");
    let stores = open(&StoreUrl::Embedded(data.clone()), settings).await?;
    let instance: windlass_core::id::InstanceId = "bench".parse()?;
    stores.state.beat(&instance, 24 * 3_600_000).await?;
    for plan in 0..CALLERS.len() as u32 {
        let step = fixture::plan(plan, 1_000, &instance)?;
        stores.state.commit(&[step]).await?.into_iter().next().context("no answer")??;
    }
    for (plan, callers) in CALLERS.into_iter().enumerate().filter(|_| wanted(BOUNDARY)) {
        let mut tasks = Vec::new();
        for n in 0..callers {
            tasks.push(Running::begin(&stores, &instance, fixture::task_id(plan as u32, n)?).await?);
        }
        let row = boundaries(&stores, tasks, callers, scale.run).await?;
        let row = Row { limit_per_s: Some(if callers == 1 { single.per_s } else { batch.per_s }), ..row };
        let row = match callers {
            1 => {
                // A disk's latency drifts: the raw commit is measured on both sides of ours.
                let raw_us = f64::midpoint(single.p50_us, limit::engine(folder, 1, scale.run)?.p50_us);
                let pass = row.p50_us <= 1.5 * raw_us;
                row.judged(format!("p50 at most 1.5 x {raw_us:.0} us, a raw durable commit"), pass)
            }
            256 => {
                let pass = row.per_s >= 0.25 * batch.per_s;
                row.judged("at least 25 % of raw rows/s in batches of 100", pass)
            }
            _ => row,
        };
        report.add(Row { disk_bytes: Some(super::disk_bytes(&data)?), ..row });
    }
    for callers in CALLERS.into_iter().filter(|_| wanted(LOCKS)) {
        report.add(locks(&stores, callers, scale.run).await?);
    }
    for callers in CALLERS.into_iter().filter(|_| wanted(LOADS)) {
        report.add(loads(&stores, callers, scale.run).await?);
    }
    for callers in CALLERS.into_iter().filter(|_| wanted(LISTS)) {
        report.add(lists(&stores, callers, scale.run).await?);
    }
    Ok(())
}

/// Runs `callers` at once, each calling `one` again and again until the time is over. `one` says when
/// its call began, so that making the call ready is not counted as waiting for it.
async fn drive<C, F, Fut>(name: &str, unit: &'static str, callers: Vec<C>, run: Duration, one: F) -> anyhow::Result<Row>
where
    C: Send + 'static,
    F: Fn(C, u64) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = anyhow::Result<(C, Instant)>> + Send,
{
    let count = callers.len() as u32;
    let began = Instant::now();
    let turns = callers.into_iter().map(|mut caller| {
        let one = one.clone();
        async move {
            let mut timer = Timer::new()?;
            let mut turn = 0;
            while began.elapsed() < run {
                let (back, call) = one(caller, turn).await?;
                caller = back;
                turn += 1;
                timer.add(call, 1);
            }
            anyhow::Ok(timer)
        }
    });
    let mut all = Timer::new()?;
    if count == 1 {
        // One caller is this one: no task of the runtime lies between it and the store.
        for turn in turns {
            all.merge(&turn.await?)?;
        }
    } else {
        let tasks: Vec<_> = turns.map(tokio::spawn).collect();
        for task in tasks {
            all.merge(&task.await??)?;
        }
    }
    Ok(all.row(name, "embedded", count, unit, began.elapsed()))
}

async fn boundaries(stores: &Stores, tasks: Vec<Running>, callers: u32, run: Duration) -> anyhow::Result<Row> {
    anyhow::ensure!(tasks.len() == callers as usize);
    let state = stores.state.clone();
    drive(BOUNDARY, "commits", tasks, run, move |mut task: Running, _| {
        let state = state.clone();
        async move {
            let step = task.boundary()?;
            let began = Instant::now();
            state.commit(std::slice::from_ref(&step)).await?.into_iter().next().context("no answer")??;
            Ok((task, began))
        }
    })
    .await
}

async fn locks(stores: &Stores, callers: u32, run: Duration) -> anyhow::Result<Row> {
    let wants = (0..callers)
        .map(|n| {
            let (tenant, task) = (format!("lock-{n}").parse()?, format!("lock-{n}").parse()?);
            Ok(Acquire { tenant, plan: "locks".parse()?, task, ttl_ms: LOCK_MS })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let locks = stores.locks.clone();
    drive(LOCKS, "pairs", wants, run, move |want: Acquire, _| {
        let locks = locks.clone();
        async move {
            let began = Instant::now();
            let holder =
                locks.acquire(std::slice::from_ref(&want)).await?.into_iter().next().context("no answer")??;
            let held = Held { tenant: holder.tenant, task: holder.task, fence: holder.fence };
            locks.release(&[held]).await?.into_iter().next().context("no answer")??;
            Ok((want, began))
        }
    })
    .await
}

async fn loads(stores: &Stores, callers: u32, run: Duration) -> anyhow::Result<Row> {
    let state = stores.state.clone();
    drive(LOADS, "loads", (0..callers).collect(), run, move |caller: u32, turn| {
        let state = state.clone();
        async move {
            let task = fixture::task_id(2, (caller + turn as u32 * 7) % 1_000)?;
            let began = Instant::now();
            let rows = state.load(&[Key::Task(task.clone()), Key::Checkpoint(task)]).await?;
            anyhow::ensure!(rows[0].is_some(), "a stored task was not found");
            // Reads are answered without a wait, so they must make room for others themselves.
            tokio::task::yield_now().await;
            Ok((caller, began))
        }
    })
    .await
}

async fn lists(stores: &Stores, callers: u32, run: Duration) -> anyhow::Result<Row> {
    let state = stores.state.clone();
    drive(LISTS, "pages", (0..callers).collect(), run, move |caller: u32, turn| {
        let state = state.clone();
        async move {
            let statuses = if turn % 2 == 0 { Statuses::of(&[TaskStatus::Pending]) } else { Statuses::NONE };
            let plan = Some(fixture::plan_id(1)?);
            let filter = Filter::Tasks { plan, tenant: None, statuses, interrupted: false };
            let began = Instant::now();
            let page = state.list(&filter, None, 100).await?;
            anyhow::ensure!(page.items.len() == 100, "a page is not full");
            tokio::task::yield_now().await;
            Ok((caller, began))
        }
    })
    .await
}
