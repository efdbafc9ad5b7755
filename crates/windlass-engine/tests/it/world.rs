//! An engine on a store in memory, with stages that tests command.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::event::Fact;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::json::Json;
use windlass_core::plan::PlanStatus;
use windlass_core::plan::file::{Format, parse};
use windlass_core::plan::spec::PlanFile;
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::State;
use windlass_core::refused::Refused;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::clock::SystemClock;
use windlass_engine::command::plan::Verb;
use windlass_engine::command::task::{Order, Which};
use windlass_engine::command::{Caller, Done};
use windlass_engine::query::inbox::Item;
use windlass_engine::query::view::TaskView;
use windlass_engine::query::why::Why;
use windlass_engine::stage::Told;
use windlass_engine::stage::actions::{Actions, Setup};
use windlass_engine::{Engine, Error, Options, Parts};
use windlass_store_embedded::Embedded;

use crate::flaky::Flaky;
use crate::script::Script;

/// How long a test waits for something that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) state: Arc<dyn State>,
    pub(crate) locks: Arc<dyn Locks>,
    pub(crate) engine: Engine,
    pub(crate) script: Arc<Script>,
    pub(crate) options: Options,
}

/// Leases that no test outlasts.
pub(crate) fn calm() -> Options {
    Options { scan_ms: 200, beat_ms: 1_000, lease_ms: 30_000, ..Options::default() }
}

/// Leases that end soon after a crash.
pub(crate) fn brief() -> Options {
    Options { scan_ms: 50, beat_ms: 100, lease_ms: 600, ..Options::default() }
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(calm()).await
    }

    pub(crate) async fn with(options: Options) -> World {
        let store = Embedded::memory();
        World::over(Arc::new(store.clone()), Arc::new(store), options).await
    }

    /// Over a store that fails on command.
    pub(crate) async fn flaky(options: Options) -> (World, Arc<Flaky>) {
        World::flaky_as(options, |flaky| flaky).await
    }

    /// Over one that is made to be so.
    pub(crate) async fn flaky_as(options: Options, so: impl FnOnce(Flaky) -> Flaky) -> (World, Arc<Flaky>) {
        let store = Embedded::memory();
        let flaky = Arc::new(so(Flaky::over(Arc::new(store.clone()), Arc::new(store))));
        (World::over(Arc::clone(&flaky) as _, Arc::clone(&flaky) as _, options).await, flaky)
    }

    pub(crate) async fn over(state: Arc<dyn State>, locks: Arc<dyn Locks>, options: Options) -> World {
        let script = Arc::new(Script::default());
        let engine = engine(&state, &locks, &script, options.clone()).await;
        World { state, locks, engine, script, options }
    }

    /// The process is gone; a new one is up over the same store once the old one's lease has ended.
    pub(crate) async fn crash(&mut self) {
        self.engine.kill();
        let gone = self.engine.instance().clone();
        let state = Arc::clone(&self.state);
        until("the lease has ended", async || {
            let row = state.load(&[windlass_core::port::state::Key::Instance(gone.clone())]).await.unwrap().remove(0);
            let Some(windlass_core::port::state::Row::Instance(row)) = row else { return true };
            let now = windlass_engine::clock::Clock::now(&SystemClock);
            row.until < now
        })
        .await;
        self.engine = engine(&self.state, &self.locks, &self.script, self.options.clone()).await;
    }

    /// One more instance on the same store.
    pub(crate) async fn another(&self) -> Engine {
        engine(&self.state, &self.locks, &self.script, self.options.clone()).await
    }

    /// Waits until this world's engine was heard of once more: to one that comes up, a lease that only runs
    /// proves nothing, and one that is renewed does.
    pub(crate) async fn heard(&self) {
        let key = windlass_core::port::state::Key::Instance(self.engine.instance().clone());
        let lease = async || match self.state.load(std::slice::from_ref(&key)).await.unwrap().remove(0) {
            Some(windlass_core::port::state::Row::Instance(row)) => row.until,
            other => panic!("{other:?}"),
        };
        let first = lease().await;
        until("it is heard of", async || lease().await > first).await;
    }

    pub(crate) async fn start(&self, yaml: &str) -> PlanId {
        self.engine.create(&file(yaml), true, &by("ann")).await.unwrap().plan
    }

    pub(crate) async fn until_plan(&self, plan: &PlanId, status: PlanStatus) {
        let mut seen = None;
        let reached = async {
            loop {
                let view = self.engine.view_plan(plan).await.unwrap();
                if view.plan.status == status {
                    return;
                }
                seen = Some(view.plan.status);
                a_moment().await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "the plan is {seen:?}, not {status}");
    }

    /// Waits for the tenant's latest task.
    pub(crate) async fn until_task(&self, tenant: &str, status: TaskStatus) -> TaskView {
        self.until_which(&of(tenant), status).await
    }

    pub(crate) async fn until_which(&self, which: &Which, status: TaskStatus) -> TaskView {
        let mut seen = None;
        let reached = async {
            loop {
                let view = self.engine.view_task(which).await.unwrap();
                if view.task.status == status && view.control.start.is_none() {
                    return view;
                }
                seen = Some((view.task.status, view.control));
                a_moment().await;
            }
        };
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(view) => view,
            Err(_) => panic!("the task is {seen:?}, not {status}"),
        }
    }

    /// Waits until nobody runs the tenant's task any more.
    pub(crate) async fn until_interrupted(&self, tenant: &str) {
        until("the task is interrupted", async || self.view(tenant).await.interrupted).await;
    }

    pub(crate) async fn view(&self, tenant: &str) -> TaskView {
        self.engine.view_task(&of(tenant)).await.unwrap()
    }

    pub(crate) async fn why(&self, tenant: &str) -> Why {
        self.engine.why_task(&of(tenant)).await.unwrap()
    }

    pub(crate) async fn inbox(&self) -> Vec<Item> {
        self.engine.inbox().await.unwrap().0
    }

    pub(crate) async fn task(&self, tenant: &str, command: Command) -> Result<Done, Error> {
        self.engine.task(&order(of(tenant), command), &by("bob")).await
    }

    pub(crate) async fn pause(&self, tenant: &str) -> Result<Done, Error> {
        self.task(tenant, Command::Pause(Cause::Person)).await
    }

    pub(crate) async fn cancel(&self, tenant: &str) -> Result<Done, Error> {
        self.task(tenant, Command::Cancel(Cause::Person)).await
    }

    pub(crate) async fn retry_with(&self, tenant: &str, from: RetryFrom, config: &str) -> Result<Done, Error> {
        let config = Some(Json::parse(config).unwrap());
        let order = Order { config, ..order(of(tenant), retry(from)) };
        self.engine.task(&order, &by("bob")).await
    }

    pub(crate) async fn plan(&self, plan: &PlanId, verb: Verb) -> Result<Done, Error> {
        self.engine.plan(plan, verb, &by("bob")).await
    }

    pub(crate) async fn tenant(&self, tenant: &str, what: Force) -> Tenant {
        let caller = by("eve").because("because".parse().unwrap());
        self.engine.tenant(&tenant.parse().unwrap(), what, &caller).await.unwrap()
    }

    /// The names of a task's events, with the stage they are about.
    pub(crate) async fn events(&self, tenant: &str) -> Vec<String> {
        self.events_of(&of(tenant)).await
    }

    pub(crate) async fn events_of(&self, which: &Which) -> Vec<String> {
        let history = self.engine.task_history(which).await.unwrap();
        let seqs: Vec<_> = history.iter().map(|event| event.seq).collect();
        assert!(seqs.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seqs:?}");
        history.iter().map(|event| short(&event.fact)).collect()
    }

    pub(crate) async fn plan_events(&self, plan: &PlanId) -> Vec<&'static str> {
        self.engine.plan_history(plan).await.unwrap().iter().map(|event| event.fact.name()).collect()
    }
}

async fn engine(state: &Arc<dyn State>, locks: &Arc<dyn Locks>, script: &Arc<Script>, options: Options) -> Engine {
    let mut setup = Setup::default();
    for (name, verb) in [("do", ""), ("undo", "undo ")] {
        let told = Arc::clone(script);
        setup.handlers.insert(name.into(), Arc::new(move |it: Told, _: Json| Arc::clone(&told).run(it, verb)));
    }
    let parts = Parts {
        instance: Engine::new_instance(),
        state: Arc::clone(state),
        locks: Arc::clone(locks),
        queues: None,
        triggers: None,
        actions: Actions::new(setup).unwrap(),
        clock: Arc::new(SystemClock),
        options,
        seed: 1,
    };
    Engine::start(parts).await.unwrap()
}

/// Between two looks at a store, which wakes instances and not its readers.
pub(crate) async fn a_moment() {
    // sleep: a poll with a bound in `until`, not a guess at how long something takes.
    tokio::time::sleep(Duration::from_millis(5)).await;
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            a_moment().await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, reached).await.is_ok(), "it never came true: {what}");
}

pub(crate) fn by(name: &str) -> Caller {
    Caller::new(name.parse().unwrap())
}

/// The tenant's latest task.
pub(crate) fn of(tenant: &str) -> Which {
    Which::Tenant(tenant.parse().unwrap())
}

/// A plan's task by its place.
pub(crate) fn nth(plan: &PlanId, position: u32) -> Which {
    Which::Task(TaskId::of(plan, position))
}

pub(crate) fn order(which: Which, command: Command) -> Order {
    Order { which, command, config: None }
}

pub(crate) fn file(yaml: &str) -> PlanFile {
    parse(yaml, Format::Yaml).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A plan whose stages are `a`, `b`, … and whose tenants are these.
pub(crate) fn plan(stages: usize, tenants: &[&str]) -> String {
    let stage = |letter| format!("{{ name: {}, handler: {{ name: do }} }}", char::from(letter));
    let stages: Vec<_> = (b'a'..).take(stages).map(stage).collect();
    plan_of("", &stages.iter().map(String::as_str).collect::<Vec<_>>(), tenants)
}

/// A plan with settings, stages that may be just a name, and tenants whose config is `new` and was `old`.
pub(crate) fn plan_of(settings: &str, stages: &[&str], tenants: &[&str]) -> String {
    let mut yaml = format!("plan: p\n{settings}\nstages:\n");
    for stage in stages {
        match stage.starts_with('{') {
            true => yaml += &format!("  - {stage}\n"),
            false => yaml += &format!("  - {{ name: {stage}, handler: {{ name: do }} }}\n"),
        }
    }
    yaml += "tasks:\n";
    for tenant in tenants {
        yaml += &format!("  - {{ tenant: {tenant}, config: new, previous: old }}\n");
    }
    yaml
}

pub(crate) fn retry(from: RetryFrom) -> Command {
    Command::Retry(Retry { from, restart_if_invalid: false, force: false })
}

pub(crate) fn from_stage(name: &str) -> RetryFrom {
    RetryFrom::Stage(name.parse().unwrap())
}

/// The refusal of the rules: its code, what could be done instead, and the state.
pub(crate) fn refused(done: Result<Done, Error>) -> Refused {
    match done {
        Err(Error::Refused(refused)) => {
            assert!(!refused.why.is_empty() && !refused.state.is_empty(), "{refused:?}");
            refused
        }
        other => panic!("it was not refused by the rules: {other:?}"),
    }
}

pub(crate) fn short(fact: &Fact) -> String {
    match fact {
        Fact::StageStarted(at) | Fact::StageSkipped(at) | Fact::Approved(at) | Fact::Rejected(at) => {
            format!("{} {}", fact.name(), at.stage)
        }
        Fact::StageCompleted { at, .. } | Fact::StageFailed { at, .. } | Fact::ApprovalWanted { at, .. } => {
            format!("{} {}", fact.name(), at.stage)
        }
        other => other.name().to_owned(),
    }
}
