//! What goes on while the network fails: plans whose stages have an effect, jobs, a trigger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use windlass::Windlass;
use windlass::core::id::{JobId, PlanId};
use windlass::core::job::{Job, JobStatus};
use windlass::core::json::Json;
use windlass::core::port::PAGE_MAX;
use windlass::core::port::job::JobFilter;
use windlass::core::task::command::{Command, Retry, RetryFrom};
use windlass::core::task::status::TaskStatus;
use windlass::engine::command::plan::Verb;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::command::{Caller, IdempotencyKey};
use windlass::engine::job::Waited;
use windlass::engine::job::worker::{Failed, Told as Delivered};
use windlass::engine::query::inbox::Kind;
use windlass::engine::stage::{Told, Trouble};
use windlass::engine::{Error, Options};
use windlass::open::{StoreUrl, open};
use windlass::settings::Settings;

use crate::kill_points::watch::Watched;

/// How long something that must happen may take once the network is whole.
const PATIENCE: Duration = Duration::from_secs(240);
/// How long what goes on may stand still while it fails: longer than any fault and every lease.
const STANDSTILL: Duration = Duration::from_secs(240);
const INSTANCES: usize = 2;
/// Tenants that all plans share.
const TENANTS: usize = 6;
const STAGES: [&str; 3] = ["a", "b", "c"];
const QUEUE: &str = "labor";
const TRIGGER: &str = "clock";
/// Between two times of the trigger.
const EVERY_MS: u64 = 250;

/// What a target remembers: it takes no fence smaller than one before.
#[derive(Default)]
struct Log {
    fences: BTreeMap<String, u64>,
    /// By idempotency key, how often.
    effects: BTreeMap<String, u32>,
    refused: u32,
    /// Stages of a task's pass that the store has acknowledged.
    acknowledged: BTreeMap<(String, u32), u32>,
    wrong: Vec<String>,
}

impl Log {
    fn effect(&mut self, told: &Told) {
        let largest = self.fences.entry(told.tenant.to_string()).or_default();
        if told.fence.0 < *largest {
            self.refused += 1;
            return;
        }
        *largest = told.fence.0;
        let key = told.idempotency_key();
        let index = STAGES.iter().position(|stage| *stage == told.stage.as_str()).unwrap() as u32;
        let done = self.acknowledged.get(&(told.task.to_string(), told.pass)).copied().unwrap_or(0);
        if index < done {
            self.wrong.push(format!("{key} again under {}, when {done} stages were acknowledged", told.fence));
        }
        *self.effects.entry(key).or_default() += 1;
    }
}

#[derive(Default)]
struct Shared {
    log: Mutex<Log>,
    stop: AtomicBool,
    /// Moves with everything that was acknowledged.
    moves: AtomicU64,
    plans: Mutex<BTreeSet<PlanId>>,
    /// By idempotency key; how it ended, once that was told.
    jobs: Mutex<BTreeMap<String, (JobId, Option<JobStatus>)>>,
}

impl Shared {
    fn moved(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// A person lets a job run again: how it had ended is not how it ends.
    fn wants_again(&self, job: JobId) {
        for (id, ended) in self.jobs.lock().unwrap().values_mut() {
            if *id == job {
                *ended = None;
            }
        }
    }
}

pub(super) struct Load {
    instances: Vec<Arc<Windlass>>,
    shared: Arc<Shared>,
    loops: Vec<JoinHandle<()>>,
}

fn options() -> Options {
    Options { lease_ms: 1_000, beat_ms: 200, scan_ms: 200, retry_limit: 0, drain_ms: 5_000, ..Options::default() }
}

async fn instance(url: &str, settings: &Settings, shared: &Arc<Shared>) -> Windlass {
    let url: StoreUrl = url.parse().unwrap();
    let stores = open(&url, settings).await.unwrap();
    let notes = Arc::clone(shared);
    let (_, stores) = Watched::over(&stores, move |step| {
        for put in &step.tasks {
            let key = (put.task.id.to_string(), put.task.pass);
            notes.log.lock().unwrap().acknowledged.insert(key, put.task.completed);
        }
        notes.moved();
    });
    let effects = Arc::clone(shared);
    let mut settings = settings.clone();
    (settings.jobs.lease_ms, settings.jobs.scan_ms) = (2_000, 200);
    let builder = Windlass::builder().stores(stores).settings(settings).options(options());
    let builder = builder.handler("effect", move |told: Told, _: Json| {
        effects.log.lock().unwrap().effect(&told);
        async move {
            // sleep: a stage takes its time, so that faults come between its effect and its boundary.
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, Trouble>(None)
        }
    });
    builder.worker(QUEUE.parse().unwrap(), 4, worked).start().await.unwrap()
}

async fn worked(told: Delivered) -> Result<Json, Failed> {
    Ok(Json::parse(&format!("\"{}\"", told.job)).unwrap())
}

impl Load {
    pub(super) async fn begin(url: &str, settings: &Settings) -> Load {
        let shared = Arc::new(Shared::default());
        let mut load = Load { instances: Vec::new(), shared: Arc::clone(&shared), loops: Vec::new() };
        for _ in 0..INSTANCES {
            load.instances.push(Arc::new(instance(url, settings, &shared).await));
        }
        let spec = format!(
            r#"{{"schedule": {{"every": "{EVERY_MS}ms"}}, "target": {{"job": {{"queue": "{QUEUE}"}}}},
                "misfire": {{"catch_up": {{"max": 1000}}}}, "maxRetries": 1000}}"#
        );
        let spec = serde_json::from_str(&spec).unwrap();
        load.instances[0].triggers().unwrap().save(Some(TRIGGER.parse().unwrap()), spec, &ann()).await.unwrap();
        for (n, windlass) in load.instances.iter().enumerate() {
            let (windlass, shared) = (Arc::clone(windlass), Arc::clone(&shared));
            load.loops.push(tokio::spawn(plans(n, Arc::clone(&windlass), Arc::clone(&shared))));
            load.loops.push(tokio::spawn(jobs(n, windlass, shared)));
        }
        load
    }

    /// Waits so long, and until something was acknowledged: what stands still cannot be harmed.
    pub(super) async fn goes_on(&self, pause: Duration) {
        let (before, began) = (self.shared.moves.load(Ordering::SeqCst), Instant::now());
        // sleep: between two faults.
        tokio::time::sleep(pause).await;
        while self.shared.moves.load(Ordering::SeqCst) == before {
            assert!(began.elapsed() < STANDSTILL, "nothing moves any more");
            a_moment().await;
        }
    }

    /// The network is whole: everything comes to its end, and is what it was said to be.
    pub(super) async fn end(self, name: &str) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for one in self.loops {
            let ended = tokio::time::timeout(PATIENCE, one).await;
            ended.unwrap_or_else(|_| panic!("a caller waits for ever")).unwrap();
        }
        let [first, second] = &self.instances[..] else { panic!("two instances") };
        let fired = rests(first, &self.shared).await;
        see_through(first, &self.shared).await;
        let all = all_ended(first).await;
        check_jobs(&all, &self.shared, fired);
        check_plans(second, &self.shared).await;
        self.shared.report(name, fired);
        for windlass in &self.instances {
            windlass.stop().await;
        }
    }
}

impl Shared {
    /// Says what was done, and that nothing of it was wrong.
    fn report(&self, name: &str, fired: usize) {
        let log = self.log.lock().unwrap();
        let again = log.effects.values().filter(|times| **times > 1).count();
        println!(
            "{name}: {} plans, {} jobs, {fired} occurrences; {} effects, {again} again under their key, {} refused",
            self.plans.lock().unwrap().len(),
            self.jobs.lock().unwrap().len(),
            log.effects.len(),
            log.refused
        );
        assert_eq!(log.wrong, Vec::<String>::new());
    }
}

fn ann() -> Caller {
    Caller::new("ann".parse().unwrap())
}

async fn a_moment() {
    // sleep: between two looks.
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Asks until there is an answer: a busy server may still be slow when the network is whole.
async fn answered<T>(ask: impl AsyncFn() -> Result<T, Error>) -> T {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) if is_away(&error) && began.elapsed() < PATIENCE => a_moment().await,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The store does not answer: nobody knows what became of it, and it is asked again as it was.
fn is_away(error: &Error) -> bool {
    matches!(error, Error::Port(_) | Error::Contended)
}

/// Creates plans, one after the other, until it is told to stop. Every second one goes on by itself after a loss.
async fn plans(n: usize, windlass: Arc<Windlass>, shared: Arc<Shared>) {
    for round in 0.. {
        if shared.stopped() {
            return;
        }
        let name = format!("p{n}-{round}");
        let recovery = if round % 2 == 0 { "auto" } else { "manual" };
        let mut yaml = format!("plan: p\nid: {name}\nrecovery: {recovery}\non_conflict: wait\nstages:\n");
        STAGES.iter().for_each(|stage| yaml += &format!("  - {{ name: {stage}, handler: {{ name: effect }} }}\n"));
        yaml += "tasks:\n";
        (0..3).for_each(|k| yaml += &format!("  - tenant: t{}\n", (round + k * 2 + n) % TENANTS));
        let key = Some(IdempotencyKey { credential: "tests".to_owned(), key: name.clone() });
        let caller = Caller { key, ..ann() };
        let plan = loop {
            match windlass.submit(&yaml, &caller).await {
                Ok(created) => break created.plan,
                Err(windlass::SubmitError::Engine(error)) if is_away(&error) => a_moment().await,
                Err(error) => panic!("{name}: {error}"),
            }
        };
        assert_eq!(plan.to_string(), name);
        shared.plans.lock().unwrap().insert(plan.clone());
        shared.moved();
        // What was interrupted waits for a person, and the next begins.
        drop(windlass.wait(&plan, Duration::from_secs(2)).await);
    }
}

/// Submits jobs and waits for them, until it is told to stop.
async fn jobs(n: usize, windlass: Arc<Windlass>, shared: Arc<Shared>) {
    for round in 0.. {
        if shared.stopped() {
            return;
        }
        let keys: Vec<String> = (0..5).map(|k| format!("j{n}-{round}-{k}")).collect();
        let handles = loop {
            let new = keys.iter().map(|key| {
                let mut job = windlass.jobs().job(QUEUE.parse().unwrap(), None);
                job.key = Some(key.clone());
                job
            });
            match windlass.jobs().submit_all(new.collect()).await {
                Ok(handles) => break handles,
                Err(error) if is_away(&error) => a_moment().await,
                Err(error) => panic!("{keys:?}: {error}"),
            }
        };
        for (key, handle) in keys.iter().zip(&handles) {
            shared.jobs.lock().unwrap().insert(key.clone(), (handle.id(), None));
        }
        shared.moved();
        for (key, handle) in keys.iter().zip(&handles) {
            if let Ok(Waited::Ended(job)) = handle.wait(Some(Duration::from_secs(10))).await {
                shared.jobs.lock().unwrap().insert(key.clone(), (job.id, Some(job.status)));
                shared.moved();
            }
        }
    }
}

/// No more occurrences, once those that are due have come; answers how many there were.
async fn rests(windlass: &Windlass, shared: &Shared) -> usize {
    let (id, began) = (TRIGGER.parse().unwrap(), Instant::now());
    let triggers = windlass.triggers().unwrap();
    loop {
        let trigger = answered(async || triggers.get(&id).await).await;
        let now = windlass::engine::clock::Clock::now(&windlass::engine::clock::SystemClock);
        if now.since(trigger.run.trigger_at) < 3 * EVERY_MS {
            break;
        }
        let why = shared.moves.load(Ordering::SeqCst);
        assert!(began.elapsed() < PATIENCE, "{trigger:?} does not catch up after {why} moves");
        a_moment().await;
    }
    // Removed by a call that was not answered, it is not there any more.
    let _was_there: bool = answered(async || triggers.remove(&id).await).await;
    let mut before = usize::MAX;
    loop {
        // An occurrence that is being carried out while its trigger is removed makes its job all the same.
        let now = occurrences(&all(windlass).await).len();
        if now == before {
            return now;
        }
        before = now;
        // sleep: longer than an occurrence takes.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// A person looks into the inbox until every plan has ended.
async fn see_through(windlass: &Windlass, shared: &Shared) {
    let began = Instant::now();
    loop {
        let (all, mut open) = (shared.plans.lock().unwrap().clone(), Vec::new());
        for plan in all {
            let view = answered(async || windlass.view_plan(&plan).await).await;
            if !view.plan.status.is_final() {
                open.push(plan);
            }
        }
        let items = answered(async || windlass.inbox().await).await.0;
        for item in &items {
            assert!(!item.text.is_empty(), "{item:?}");
            let done = match (item.kind, &item.plan, &item.task) {
                (Kind::DeadJob, _, _) => {
                    // Whoever was cut off three times in a row with it in hand is not believed again.
                    assert!(item.text.contains("no worker answered"), "{item:?}");
                    shared.wants_again(item.job.unwrap());
                    windlass.jobs().requeue(item.job.unwrap(), &ann()).await.map(drop)
                }
                (Kind::InterruptedTask | Kind::Failure, _, Some(task)) => {
                    let which = Which::Task(task.clone());
                    assert!(!answered(async || windlass.why_task(&which).await).await.text.is_empty());
                    let retry = Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false };
                    windlass
                        .task(&Order { which, command: Command::Retry(retry), config: None }, &ann())
                        .await
                        .map(drop)
                }
                (Kind::InterruptedPlan | Kind::PausedPlan, Some(plan), _) => {
                    assert!(!answered(async || windlass.why_plan(plan).await).await.text.is_empty());
                    windlass.plan(plan, Verb::Resume, &ann()).await.map(drop)
                }
                _ => panic!("nobody asked for {item:?}"),
            };
            let refused = |error: &Error| matches!(error, Error::Refused(_) | Error::Store(_)) || is_away(error);
            assert!(done.as_ref().err().is_none_or(refused), "{done:?}");
        }
        if open.is_empty() && items.is_empty() {
            return;
        }
        if began.elapsed() > PATIENCE {
            let mut tasks = Vec::new();
            for plan in &open {
                let rows = answered(async || windlass.tasks_of(plan, &TaskStatus::ALL).await).await;
                for row in rows.into_iter().filter(|row| row.task.status != TaskStatus::Completed) {
                    let which = Which::Task(row.task.id.clone());
                    tasks.push((windlass.why_task(&which).await, row));
                }
            }
            panic!("stuck: {open:?}, inbox {items:#?}, {tasks:#?}");
        }
        a_moment().await;
    }
}

async fn all(windlass: &Windlass) -> Vec<Job> {
    let (mut jobs, mut after) = (Vec::new(), None);
    loop {
        let list = async || windlass.jobs().list(&JobFilter::default(), after.as_ref(), PAGE_MAX).await;
        let page = answered(list).await;
        jobs.extend(page.items);
        after = page.next;
        if after.is_none() {
            return jobs;
        }
    }
}

async fn all_ended(windlass: &Windlass) -> Vec<Job> {
    let began = Instant::now();
    loop {
        let jobs = all(windlass).await;
        let Some(left) = jobs.iter().find(|job| !job.status.is_ended()) else { return jobs };
        assert!(began.elapsed() < PATIENCE, "it never ends: {left:?}");
        a_moment().await;
    }
}

/// The times of the trigger for which there is a job, in order.
fn occurrences(jobs: &[Job]) -> Vec<u64> {
    let of = jobs.iter().filter_map(|job| job.key.as_ref()?.strip_prefix(TRIGGER)?.strip_prefix('@'));
    let mut times: Vec<u64> = of.map(|at| at.parse().unwrap()).collect();
    times.sort_unstable();
    times
}

fn check_jobs(jobs: &[Job], shared: &Shared, fired: usize) {
    let mut by_key: BTreeMap<&str, Vec<&Job>> = BTreeMap::new();
    for job in jobs {
        job.check().unwrap();
        by_key.entry(job.key.as_deref().unwrap()).or_default().push(job);
        let own = job.result.as_ref().is_some_and(|result| result.as_str() == format!("\"{}\"", job.id));
        // Whoever was cut off three times in a row with it in hand is not believed again.
        let lost = job.error.as_ref().is_some_and(|error| error.code == "LOST");
        assert!(own || lost, "{job:?}");
    }
    if let Some(twice) = by_key.values().find(|jobs| jobs.len() > 1) {
        panic!("two of one key: {twice:?}");
    }
    for (key, (id, ended)) in shared.jobs.lock().unwrap().iter() {
        let Some([job]) = by_key.get(key.as_str()).map(Vec::as_slice) else { panic!("{key} is lost") };
        assert_eq!(job.id, *id, "{key}");
        assert!(ended.is_none_or(|status| status == job.status), "{ended:?} was told, and it is {job:?}");
    }
    let times = occurrences(jobs);
    assert_eq!(times.len(), fired);
    let gap = times.windows(2).find(|pair| pair[1] - pair[0] != EVERY_MS);
    assert!(gap.is_none(), "nothing fired between {gap:?}");
}

/// Every task of every plan has had each of its effects, and its history says so.
async fn check_plans(windlass: &Windlass, shared: &Shared) {
    let plans = shared.plans.lock().unwrap().clone();
    for plan in plans {
        let rows = answered(async || windlass.tasks_of(&plan, &TaskStatus::ALL).await).await;
        assert_eq!(rows.len(), 3, "{plan}");
        for row in rows {
            let task = row.task;
            assert_eq!(task.status, TaskStatus::Completed, "{task:?}");
            for stage in STAGES {
                let key = format!("{plan}/{}/{stage}/{}", task.id, task.pass);
                assert!(shared.log.lock().unwrap().effects.contains_key(&key), "{key} never had its effect");
            }
            let which = Which::Task(task.id.clone());
            let history = answered(async || windlass.task_history(&which).await).await;
            let done = history.iter().filter(|event| event.fact.name() == "StageCompleted").count();
            assert_eq!(done, STAGES.len(), "{history:#?}");
        }
    }
}
