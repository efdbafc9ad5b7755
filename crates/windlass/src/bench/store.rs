//! `windlass bench store`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_core::id::InstanceId;
use windlass_core::lock::{Acquire, Held, LOCK_MS};
use windlass_core::port::state::{Filter, Key, State};
use windlass_core::task::status::{Statuses, TaskStatus};

use super::fixture::{self, Running};
use super::instances::{Setup, by, lonely};
use super::{Row, Scale, Timer, limit, reopen};
use crate::open::{StoreUrl, Stores, open};

const CALLERS: [u32; 3] = [1, 16, 256];
const BOUNDARY: &str = "boundary commit";
const LOCKS: &str = "lock acquire+release";
const LOADS: &str = "load task+checkpoint";
const LISTS: &str = "list page of 100";
/// Of each plan.
const TASKS: u32 = 1_000;
/// How long an instance of the bench lives at most.
const LEASE_MS: u64 = 24 * 3_600_000;

/// Measures everything, or only the workloads whose name holds that, and hands each row to `show` as it comes: on the embedded store
/// in `folder` (a temporary one unless given), or on the store that the setup names.
pub fn run(folder: Option<&Path>, setup: Setup<'_, Scale>, show: &mut dyn FnMut(&Row)) -> anyhow::Result<Vec<Row>> {
    let temporary = tempfile::tempdir().context("no temporary folder")?;
    let folder = folder.unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)?;
    anyhow::ensure!(
        std::fs::read_dir(folder)?.next().is_none(),
        "{} is not empty; a bench needs a folder of its own",
        folder.display()
    );
    let data = folder.join("calls");
    let here = StoreUrl::Embedded(data.clone());
    let url = setup.url.unwrap_or(&here);
    let count = lonely(url, setup.instances)?;
    let mut report = Report::new(show);
    let wanted = |workload: &str| setup.only.is_none_or(|only| workload.contains(only));
    report.add(limit::sync(folder, setup.scale.run)?);
    let single = limit::engine(folder, 1, setup.scale.run)?;
    let batch = limit::engine(folder, 100, setup.scale.run)?;
    report.add(single.clone());
    report.add(batch.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut instances = Vec::new();
        for n in 0..count {
            let (id, stores) = (format!("bench-{:08x}-{n}", seed()).parse()?, open(url, setup.settings).await?);
            instances.push(Instance { id, stores });
        }
        // What an earlier run has left on a server is not this one's.
        let first = if setup.url.is_some() { seed() } else { 0 };
        let raw = setup.url.is_none().then_some(Raw { folder, data: &data, single, batch });
        let bench = Bench { store: url.kind(), run: setup.scale.run, instances, first, raw };
        bench.all(&wanted, &mut report).await
    })?;
    if setup.url.is_none() && wanted("reopen") {
        reopen::run(folder, setup.scale, &mut report)?;
    }
    Ok(report.into_rows())
}

/// Numbers that no other run has.
fn seed() -> u32 {
    uuid::Uuid::new_v4().as_fields().0 >> 1
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

/// One of several on the store, with connections of its own.
struct Instance {
    id: InstanceId,
    stores: Stores,
}

/// What the embedded store is held against.
struct Raw<'a> {
    folder: &'a Path,
    data: &'a Path,
    single: Row,
    batch: Row,
}

struct Bench<'a> {
    store: &'static str,
    run: Duration,
    /// Callers are spread over them.
    instances: Vec<Instance>,
    /// The number of the first plan.
    first: u32,
    raw: Option<Raw<'a>>,
}

impl Bench<'_> {
    async fn all(&self, wanted: &dyn Fn(&str) -> bool, report: &mut Report<'_>) -> anyhow::Result<()> {
        for instance in &self.instances {
            instance.stores.state.beat(&instance.id, LEASE_MS).await?;
        }
        let one = self.instances.first().context("no instance")?;
        for plan in 0..CALLERS.len() as u32 {
            let step = fixture::plan(self.first + plan, TASKS, &one.id)?;
            one.stores.state.commit(&[step]).await?.into_iter().next().context("no answer")??;
        }
        for (plan, callers) in CALLERS.into_iter().enumerate().filter(|_| wanted(BOUNDARY)) {
            report.add(self.boundaries(plan as u32, callers).await?);
        }
        for callers in CALLERS.into_iter().filter(|_| wanted(LOCKS)) {
            report.add(self.locks(callers).await?);
        }
        for callers in CALLERS.into_iter().filter(|_| wanted(LOADS)) {
            report.add(self.loads(callers).await?);
        }
        for callers in CALLERS.into_iter().filter(|_| wanted(LISTS)) {
            report.add(self.lists(callers).await?);
        }
        for instance in &self.instances {
            instance.stores.state.beat(&instance.id, 0).await?;
        }
        Ok(())
    }

    /// So many callers, each with the instance it belongs to.
    fn callers(&self, n: u32) -> impl Iterator<Item = (u32, &Instance)> {
        (0..n).zip(self.instances.iter().cycle())
    }

    async fn boundaries(&self, plan: u32, callers: u32) -> anyhow::Result<Row> {
        let mut tasks = Vec::new();
        for (n, Instance { id, stores }) in self.callers(callers) {
            let task = Running::begin(stores, id, fixture::task_id(self.first + plan, n)?).await?;
            tasks.push((task, Arc::clone(&stores.state)));
        }
        let row = self.drive(BOUNDARY, "commits", tasks, |(mut task, state), _| async move {
            let step = task.boundary()?;
            let began = Instant::now();
            state.commit(std::slice::from_ref(&step)).await?.into_iter().next().context("no answer")??;
            Ok(((task, state), began))
        });
        let row = row.await?;
        let Some(Raw { folder, data, single, batch }) = &self.raw else { return Ok(row) };
        let row = Row { limit_per_s: Some(if callers == 1 { single.per_s } else { batch.per_s }), ..row };
        let row = match callers {
            1 => {
                // A disk's latency drifts: the raw commit is measured on both sides of ours.
                let raw_us = f64::midpoint(single.p50_us, limit::engine(folder, 1, self.run)?.p50_us);
                let pass = row.p50_us <= 1.5 * raw_us;
                row.judged(format!("p50 at most 1.5 x {raw_us:.0} us, a raw durable commit"), pass)
            }
            256 => {
                let pass = row.per_s >= 0.25 * batch.per_s;
                row.judged("at least 25 % of raw rows/s in batches of 100", pass)
            }
            _ => row,
        };
        Ok(Row { disk_bytes: Some(super::disk_bytes(data)?), ..row })
    }

    async fn locks(&self, callers: u32) -> anyhow::Result<Row> {
        let wants = self.callers(callers).map(|(n, instance)| {
            let name = format!("lock-{}-{n}", self.first);
            let want = Acquire { tenant: name.parse()?, plan: "locks".parse()?, task: name.parse()?, ttl_ms: LOCK_MS };
            Ok((want, Arc::clone(&instance.stores.locks)))
        });
        let wants = wants.collect::<anyhow::Result<Vec<_>>>()?;
        let row = self.drive(LOCKS, "pairs", wants, |(want, locks), _| async move {
            let began = Instant::now();
            let holder =
                locks.acquire(std::slice::from_ref(&want)).await?.into_iter().next().context("no answer")??;
            let held = Held { tenant: holder.tenant, task: holder.task, fence: holder.fence };
            locks.release(&[held]).await?.into_iter().next().context("no answer")??;
            Ok(((want, locks), began))
        });
        row.await
    }

    /// As many callers of the state.
    fn readers(&self, n: u32) -> Vec<(u32, Arc<dyn State>)> {
        self.callers(n).map(|(n, instance)| (n, Arc::clone(&instance.stores.state))).collect()
    }

    async fn loads(&self, callers: u32) -> anyhow::Result<Row> {
        let plan = self.first + 2;
        let row = self.drive(LOADS, "loads", self.readers(callers), move |(caller, state), turn| async move {
            let task = fixture::task_id(plan, (caller + turn as u32 * 7) % TASKS)?;
            let began = Instant::now();
            let rows = state.load(&[Key::Task(task.clone()), Key::Checkpoint(task)]).await?;
            anyhow::ensure!(rows[0].is_some(), "a stored task was not found");
            // Reads are answered without a wait, so they must make room for others themselves.
            tokio::task::yield_now().await;
            Ok(((caller, state), began))
        });
        row.await
    }

    async fn lists(&self, callers: u32) -> anyhow::Result<Row> {
        let plan = self.first + 1;
        let row = self.drive(LISTS, "pages", self.readers(callers), move |(caller, state), turn| async move {
            let statuses = if turn % 2 == 0 { Statuses::of(&[TaskStatus::Pending]) } else { Statuses::NONE };
            let plan = Some(fixture::plan_id(plan)?);
            let filter = Filter::Tasks { plan, tenant: None, statuses, interrupted: false };
            let began = Instant::now();
            let page = state.list(&filter, None, 100).await?;
            anyhow::ensure!(page.items.len() == 100, "a page is not full");
            tokio::task::yield_now().await;
            Ok(((caller, state), began))
        });
        row.await
    }

    /// Runs the callers at once, each calling `one` again and again until the time is over. `one` says when its call began, so
    /// that making the call ready is not counted as waiting for it.
    async fn drive<C, F, Fut>(&self, name: &str, unit: &'static str, callers: Vec<C>, one: F) -> anyhow::Result<Row>
    where
        C: Send + 'static,
        F: Fn(C, u64) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = anyhow::Result<(C, Instant)>> + Send,
    {
        let (count, run, began) = (callers.len() as u32, self.run, Instant::now());
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
        let name = by(name, self.instances.len() as u32);
        Ok(all.row(&name, self.store, count, unit, began.elapsed()))
    }
}
