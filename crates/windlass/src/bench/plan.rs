//! `windlass bench plan`: whole plans through the engine, beside what the store does without it.

mod instances;
mod waiting;

pub use instances::instance;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::plan::PlanStatus;
use windlass_core::plan::file::{Format, parse};
use windlass_core::plan::spec::PlanFile;
use windlass_core::port::state::{Key, Row as StoreRow};
use windlass_core::task::status::TaskStatus;
use windlass_engine::Options;
use windlass_engine::bus::News;
use windlass_engine::command::Caller;
use windlass_engine::command::plan::Verb;
use windlass_engine::stage::Told;

use super::instances::{Setup, median};
use super::limit::Raw;
use super::store::Report;
use super::{Row, Timer, limit};
use crate::Windlass;
use crate::open::{StoreUrl, Stores, open};
use crate::settings::Settings;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Plans of ten tasks of ten stages, at once.
    pub plans: u32,
    /// Tasks of the one large plan.
    pub tasks: u32,
    /// Stages of one task alone.
    pub alone: u32,
    /// How long a raw limit is measured.
    pub run: Duration,
    /// Rounds of those plans.
    pub rounds: u32,
    /// Turns of several instances. A server drifts within seconds: many short turns tell more than a few long ones.
    pub turns: usize,
}

impl Scale {
    /// What figures are quoted from.
    pub const FULL: Scale =
        Scale { plans: 100, tasks: 10_000, alone: 5_000, run: Duration::from_secs(3), rounds: 4, turns: 24 };
    /// A look.
    pub const QUICK: Scale =
        Scale { plans: 10, tasks: 500, alone: 200, run: Duration::from_millis(300), rounds: 1, turns: 2 };
}

/// Measures, and hands each row to `show` as it comes.
pub fn run(setup: Setup<'_, Scale>, show: &mut dyn FnMut(&Row)) -> anyhow::Result<Vec<Row>> {
    let folder = tempfile::tempdir().context("no temporary folder")?;
    let here = StoreUrl::Embedded(folder.path().join("store"));
    let Setup { url, scale, only, config, settings, .. } = setup;
    let url = url.unwrap_or(&here);
    let instances = super::instances::count(url, setup.instances)?;
    let run: String = folder.path().to_string_lossy().chars().filter(char::is_ascii_alphanumeric).collect();
    let run = run.to_ascii_lowercase().split_off(run.len().saturating_sub(6));
    let bench = Bench { url, scale, instances, config, settings, folder: folder.path(), run };
    let mut report = Report::new(show);
    let wanted = |workload: &str| only.is_none_or(|only| workload.contains(only));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    report.add(bench.limit()?);
    runtime.block_on(async {
        if wanted(ALONE) {
            report.add(bench.alone().await?);
        }
        if wanted(MANY) {
            report.add(bench.many().await?);
        }
        if instances > 1 && wanted(&super::instances::name(instances)) {
            report.add(bench.several().await?);
        }
        if wanted(LARGE) {
            report.add(bench.large().await?);
        }
        if wanted(WAITING) {
            report.add(bench.waiting().await?);
        }
        if wanted(PAUSE) {
            report.add(bench.pause().await?);
        }
        anyhow::Ok(())
    })?;
    Ok(report.into_rows())
}

const ALONE: &str = "one task alone";
const MANY: &str = "plans of 10 x 10";
const LARGE: &str = "one large plan";
const WAITING: &str = "tasks that wait";
const PAUSE: &str = "pause of 1,000 tasks";

struct Bench<'a> {
    url: &'a StoreUrl,
    scale: Scale,
    instances: u32,
    config: Option<&'a Path>,
    settings: &'a Settings,
    folder: &'a Path,
    /// Tells the tenants of this run from those of another on the same store.
    run: String,
}

/// How some plans of ten tasks of ten stages went.
struct Round {
    took: Duration,
    /// Calls of the store by this instance.
    calls: u64,
}

/// When each task's last stage ended, and how long until its next began.
#[derive(Default)]
struct Gaps {
    last: Mutex<HashMap<TaskId, Instant>>,
    gaps: Mutex<Vec<Duration>>,
}

impl Gaps {
    fn stage(&self, told: &Told) {
        let now = Instant::now();
        let before = lock(&self.last).insert(told.task.clone(), now);
        if let Some(before) = before {
            lock(&self.gaps).push(now - before);
        }
    }

    /// What was measured so far does not count.
    fn forget(&self) {
        lock(&self.last).clear();
        lock(&self.gaps).clear();
    }

    fn record(&self, timer: &mut Timer) {
        lock(&self.gaps).drain(..).for_each(|gap| timer.record(gap));
    }

    fn row(&self, workload: &str, store: &str, concurrency: u32, stages: u64, took: Duration) -> anyhow::Result<Row> {
        let mut timer = Timer::new()?;
        self.record(&mut timer);
        let row = timer.row(workload, store, concurrency, "stages", took);
        Ok(Row { bench: "plan", per_s: stages as f64 / took.as_secs_f64(), ..row })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bench<'_> {
    fn embedded(&self) -> bool {
        matches!(self.url, StoreUrl::Embedded(_))
    }

    fn store(&self) -> &'static str {
        self.url.kind()
    }

    fn options(&self) -> Options {
        Options::from(self.settings)
    }

    /// One durable write of the machine, with nothing of ours above it.
    fn limit(&self) -> anyhow::Result<Row> {
        let row = limit::engine(self.folder, 1, self.scale.run)?;
        Ok(Row { bench: "plan", ..row })
    }

    /// An instance on the store; each workload has its own, on a store of its own where that is possible.
    async fn start(&self, name: &str, options: Options, gaps: &Arc<Gaps>) -> anyhow::Result<Windlass> {
        start_on(self.open(name, self.settings).await?, options, gaps).await
    }

    async fn open(&self, name: &str, settings: &Settings) -> anyhow::Result<Stores> {
        let url = match self.url {
            StoreUrl::Embedded(path) => StoreUrl::Embedded(path.with_file_name(name)),
            other => other.clone(),
        };
        Ok(open(&url, settings).await?)
    }

    fn plan_file(&self, name: &str, tasks: u32, stages: u32, action: &str, at_once: u32) -> anyhow::Result<PlanFile> {
        let mut yaml = format!("plan: {name}\nmax_concurrency: {at_once}\nstages:\n");
        for n in 0..stages {
            writeln!(yaml, "  - {{ name: stage-{n}, {action} }}")?;
        }
        yaml += "tasks:\n";
        for n in 0..tasks {
            writeln!(yaml, "  - {{ tenant: {name}-{}-{n} }}", self.run)?;
        }
        parse(&yaml, Format::Yaml).map_err(|problems| anyhow::anyhow!("{problems}"))
    }

    async fn alone(&self) -> anyhow::Result<Row> {
        let gaps = Arc::new(Gaps::default());
        let windlass = self.start("alone", self.options(), &gaps).await?;
        let mut raw = self.embedded().then(|| Raw::open(self.folder, 1)).transpose()?;
        let began = Instant::now();
        let mut stages = 0;
        for n in 0..self.scale.alone.div_ceil(10) {
            let plan = create(&windlass, &self.plan_file(&format!("alone-{n}"), 1, 10, "handler: nothing", 1)?).await?;
            until_ended(&windlass, &[plan]).await?;
            lock(&gaps.last).clear();
            stages += 10;
            if let Some(raw) = &mut raw {
                (0..10).try_for_each(|_| raw.commit())?;
            }
        }
        let row = gaps.row(
            ALONE,
            self.store(),
            1,
            stages,
            began.elapsed() - raw.as_ref().map_or(Duration::ZERO, Raw::spent),
        )?;
        windlass.stop().await;
        let Some(raw) = raw else { return Ok(row) };
        let raw_us = raw.row()?.p50_us;
        let pass = row.p50_us <= 1.5 * raw_us;
        Ok(row.judged(format!("overhead p50 at most 1.5 x {raw_us:.0} us, a raw durable commit"), pass))
    }

    /// The median of some rounds: a process that has just come up, and a disk that drifts, are not what is measured.
    async fn many(&self) -> anyhow::Result<Row> {
        let gaps = Arc::new(Gaps::default());
        let windlass = self.start("many", self.options(), &gaps).await?;
        self.round(&windlass, "warm-up", self.scale.plans.div_ceil(10)).await?;
        gaps.forget();
        let (mut took, mut calls) = (Vec::new(), 0);
        for round in 0..self.scale.rounds {
            let one = self.round(&windlass, &format!("many-{round}"), self.scale.plans).await?;
            took.push(one.took);
            calls += one.calls;
        }
        let stages = u64::from(self.scale.plans) * 100;
        let row = gaps.row(MANY, self.store(), self.scale.plans * 10, stages, took.iter().sum())?;
        let row = Row { per_s: stages as f64 / median(&mut took), ..row };
        let per_plan = calls as f64 / f64::from(self.scale.plans * self.scale.rounds);
        windlass.stop().await;
        let (least, pass) = self.floor(row.per_s);
        Ok(row.judged(
            format!("{least} stages/s; {per_plan:.0} store calls a plan, budget 222"),
            pass && per_plan <= 222.0,
        ))
    }

    /// Plans of ten tasks of ten stages, started at once: from there to the end of the last.
    async fn round(&self, windlass: &Windlass, name: &str, plans: u32) -> anyhow::Result<Round> {
        self.started(windlass, &self.created(windlass, name, plans).await?).await
    }

    async fn created(&self, windlass: &Windlass, name: &str, plans: u32) -> anyhow::Result<Vec<PlanId>> {
        let files = (0..plans)
            .map(|n| self.plan_file(&format!("{name}-{n}"), 10, 10, "handler: nothing", 10))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let mut plans = Vec::new();
        for file in &files {
            plans.push(windlass.create(file, false, &caller()?).await?.plan);
        }
        Ok(plans)
    }

    async fn started(&self, windlass: &Windlass, plans: &[PlanId]) -> anyhow::Result<Round> {
        let calls = windlass.counts().calls.load(Ordering::Relaxed);
        let began = Instant::now();
        let mut starts = tokio::task::JoinSet::new();
        for plan in plans {
            let (windlass, plan, caller) = (windlass.clone(), plan.clone(), caller()?);
            starts.spawn(async move { windlass.plan(&plan, Verb::Start, &caller).await });
        }
        while let Some(started) = starts.join_next().await {
            started??;
        }
        until_ended(windlass, plans).await?;
        let took = began.elapsed();
        Ok(Round { took, calls: windlass.counts().calls.load(Ordering::Relaxed) - calls })
    }

    fn floor(&self, per_s: f64) -> (&'static str, bool) {
        match self.url {
            StoreUrl::Postgres(_) => ("at least 8,000", per_s >= 8_000.0),
            StoreUrl::MySql(_) => ("at least 4,000", per_s >= 4_000.0),
            StoreUrl::Redis(_) => ("at least 20,000", per_s >= 20_000.0),
            _ => ("at least 25,000", per_s >= 25_000.0),
        }
    }

    async fn large(&self) -> anyhow::Result<Row> {
        let gaps = Arc::new(Gaps::default());
        let windlass = self.start("large", self.options(), &gaps).await?;
        let tasks = self.scale.tasks;
        let file = self.plan_file("large", tasks, 3, "handler: nothing", 1_000.min(tasks))?;
        let plan = windlass.create(&file, false, &caller()?).await?.plan;
        let commits = windlass.counts().commits.load(Ordering::Relaxed);
        let began = Instant::now();
        windlass.plan(&plan, Verb::Start, &caller()?).await?;
        until_ended(&windlass, &[plan]).await?;
        let took = began.elapsed();
        let commits = windlass.counts().commits.load(Ordering::Relaxed) - commits;
        let row = gaps.row(LARGE, self.store(), 1_000.min(tasks), u64::from(tasks) * 3, took)?;
        windlass.stop().await;
        // Besides its stages a task has one commit: the one that begins it.
        let per_stage = (commits as f64 - f64::from(tasks)) / f64::from(tasks * 3);
        Ok(row.judged(format!("1 commit a stage; {per_stage:.2} made"), per_stage <= 1.0))
    }

    /// From a task's boundary after the pause was asked for to PAUSED, each.
    async fn pause(&self) -> anyhow::Result<Row> {
        let gaps = Arc::new(Gaps::default());
        let tasks = 1_000.min(self.scale.tasks);
        let windlass = self.start("pause", self.options(), &gaps).await?;
        let plan = create(&windlass, &self.plan_file("pause", tasks, 100, "handler: ten-ms", tasks)?).await?;
        until(&windlass, &plan, TaskStatus::Running, tasks).await?;
        let mut news = windlass.subscribe();
        let listener = std::thread::spawn(move || {
            let mut paused = HashMap::new();
            while paused.len() < tasks as usize {
                match news.blocking_recv() {
                    Ok(News::Event { event, .. }) => {
                        if let (Some(task), "TaskPaused") = (&event.task, event.fact.name()) {
                            paused.insert(task.clone(), Instant::now());
                        }
                    }
                    Ok(_) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(paused)
        });
        let began = Instant::now();
        windlass.plan(&plan, Verb::Pause, &caller()?).await?;
        until(&windlass, &plan, TaskStatus::Paused, tasks).await?;
        let took = began.elapsed();
        let paused = listener.join().map_err(|_| anyhow::anyhow!("the listener panicked"))??;
        let mut timer = Timer::new()?;
        for (task, boundary) in lock(&gaps.last).iter() {
            let at = paused.get(task).context("a task did not pause")?;
            timer.record(at.saturating_duration_since(*boundary));
        }
        // Nobody is to find it in their inbox.
        windlass.plan(&plan, Verb::Cancel, &caller()?).await?;
        windlass.stop().await;
        let row = Row { bench: "plan", ..timer.row(PAUSE, self.store(), tasks, "tasks", took) };
        let slowest = timer.slowest_us() / 1000.0;
        let bar = format!("each PAUSED within 100 ms of its boundary; the slowest {slowest:.0} ms");
        Ok(row.judged(bar, slowest <= 100.0))
    }
}

/// An instance on a store, with what the stages of the bench do.
async fn start_on(stores: Stores, options: Options, gaps: &Arc<Gaps>) -> anyhow::Result<Windlass> {
    let gaps = Arc::clone(gaps);
    let ends = Arc::clone(&gaps);
    let slow = move |told: Told, _| {
        let ends = Arc::clone(&ends);
        async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            lock(&ends.last).insert(told.task, Instant::now());
            Ok(None)
        }
    };
    let windlass = Windlass::builder()
        .stores(stores)
        .options(options)
        .handler("nothing", move |told: Told, _| {
            gaps.stage(&told);
            std::future::ready(Ok(None))
        })
        .handler("ten-ms", slow)
        .start()
        .await?;
    Ok(windlass)
}

fn caller() -> anyhow::Result<Caller> {
    Ok(Caller::new("bench".parse()?))
}

async fn create(windlass: &Windlass, file: &PlanFile) -> anyhow::Result<PlanId> {
    Ok(windlass.create(file, true, &caller()?).await?.plan)
}

async fn until(windlass: &Windlass, plan: &PlanId, status: TaskStatus, tasks: u32) -> anyhow::Result<()> {
    while windlass.view_plan(plan).await?.tally.of(status) < tasks {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Looks at the newest plan, which is handed out last, and at the rest when that has ended: what is measured does not wait for who measures.
async fn until_ended(windlass: &Windlass, plans: &[PlanId]) -> anyhow::Result<()> {
    let mut open = plans.to_vec();
    while let Some(last) = open.last() {
        if !is_over(windlass, std::slice::from_ref(last)).await?[0] {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        let mut over = is_over(windlass, &open).await?.into_iter();
        open.retain(|_| !over.next().unwrap_or_default());
    }
    Ok(())
}

async fn is_over(windlass: &Windlass, plans: &[PlanId]) -> anyhow::Result<Vec<bool>> {
    let keys: Vec<_> = plans.iter().cloned().map(Key::Plan).collect();
    let rows = windlass.stores().state.load(&keys).await?;
    let mut over = Vec::with_capacity(plans.len());
    for (plan, row) in plans.iter().zip(rows) {
        let Some(StoreRow::Plan(row)) = row else { anyhow::bail!("plan {plan} is gone") };
        let status = row.plan.status;
        anyhow::ensure!(status != PlanStatus::Failed, "plan {plan} failed: {:?}", windlass.why_plan(plan).await?);
        over.push(status.is_final());
    }
    Ok(over)
}
