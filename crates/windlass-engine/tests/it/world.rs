//! An engine on a store in memory, with stages that tests command.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::id::PlanId;
use windlass_core::json::Json;
use windlass_core::plan::PlanStatus;
use windlass_core::plan::file::{Format, parse};
use windlass_core::plan::spec::PlanFile;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::clock::SystemClock;
use windlass_engine::command::task::{Order, Which};
use windlass_engine::command::{Caller, Done};
use windlass_engine::query::view::TaskView;
use windlass_engine::stage::actions::{Actions, Setup};
use windlass_engine::stage::{Told, Trouble};
use windlass_engine::{Engine, Error, Options, Parts};
use windlass_store_embedded::Embedded;

/// How long a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(20);

/// What stages did, and what they shall do.
#[derive(Default)]
pub(crate) struct Script {
    /// `tenant/stage/pass`, in order.
    pub(crate) ran: Mutex<Vec<String>>,
    /// `tenant/stage` that fail.
    pub(crate) fails: Mutex<BTreeSet<String>>,
    /// `tenant/stage` that wait until they are let go.
    pub(crate) gates: Mutex<BTreeSet<String>>,
    opened: Notify,
    entered: Notify,
}

impl Script {
    async fn run(self: Arc<Self>, told: Told) -> Result<Option<Json>, Trouble> {
        let at = format!("{}/{}", told.tenant, told.stage);
        let config = told.config.as_ref().map_or_else(String::new, |config| format!(" {config}"));
        self.ran.lock().unwrap().push(format!("{at}/{}{config}", told.pass));
        self.entered.notify_waiters();
        loop {
            let opened = self.opened.notified();
            if !self.gates.lock().unwrap().contains(&at) {
                break;
            }
            opened.await;
        }
        match self.fails.lock().unwrap().contains(&at) {
            true => Err(Trouble::stage("it was told to fail")),
            false => Ok(Some(Json::parse(&format!("{{\"by\":\"{at}\"}}")).unwrap())),
        }
    }

    pub(crate) fn fail(&self, at: &str) {
        self.fails.lock().unwrap().insert(at.to_owned());
    }

    pub(crate) fn heal(&self, at: &str) {
        self.fails.lock().unwrap().remove(at);
    }

    pub(crate) fn shut(&self, at: &str) {
        self.gates.lock().unwrap().insert(at.to_owned());
    }

    pub(crate) fn let_go(&self, at: &str) {
        self.gates.lock().unwrap().remove(at);
        self.opened.notify_waiters();
    }

    /// What ran since the last look.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.ran.lock().unwrap())
    }

    /// Waits until the stage has begun.
    pub(crate) async fn entered(&self, at: &str) {
        let begun = async {
            loop {
                let entered = self.entered.notified();
                if self.ran.lock().unwrap().iter().any(|ran| ran.starts_with(&format!("{at}/"))) {
                    return;
                }
                entered.await;
            }
        };
        tokio::time::timeout(PATIENCE, begun).await.unwrap_or_else(|_| panic!("{at} did not begin"));
    }
}

pub(crate) struct World {
    pub(crate) state: Arc<dyn State>,
    pub(crate) locks: Arc<dyn Locks>,
    pub(crate) engine: Engine,
    pub(crate) script: Arc<Script>,
    pub(crate) options: Options,
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(Options { scan_ms: 200, beat_ms: 1_000, lease_ms: 10_000, ..Options::default() }).await
    }

    pub(crate) async fn with(options: Options) -> World {
        let store = Embedded::memory();
        World::over(Arc::new(store.clone()), Arc::new(store), options).await
    }

    pub(crate) async fn over(state: Arc<dyn State>, locks: Arc<dyn Locks>, options: Options) -> World {
        let script = Arc::new(Script::default());
        let engine = engine(&state, &locks, &script, options.clone()).await;
        World { state, locks, engine, script, options }
    }

    /// The process is gone; a new one is up over the same store.
    pub(crate) async fn crash(&mut self) {
        self.engine.kill();
        self.engine = engine(&self.state, &self.locks, &self.script, self.options.clone()).await;
    }

    /// One more instance on the same store.
    pub(crate) async fn another(&self) -> Engine {
        engine(&self.state, &self.locks, &self.script, self.options.clone()).await
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
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        assert!(reached.is_ok(), "the plan is {seen:?}, not {status}");
    }

    pub(crate) async fn until_task(&self, tenant: &str, status: TaskStatus) -> TaskView {
        let mut seen = None;
        let reached = async {
            loop {
                let view = self.view(tenant).await;
                if view.task.status == status && view.control.start.is_none() {
                    return view;
                }
                seen = Some((view.task.status, view.control));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(view) => view,
            Err(_) => panic!("the task is {seen:?}, not {status}"),
        }
    }

    pub(crate) async fn view(&self, tenant: &str) -> TaskView {
        self.engine.view_task(&Which::Tenant(tenant.parse().unwrap())).await.unwrap()
    }

    pub(crate) async fn task(&self, tenant: &str, command: Command) -> Result<Done, Error> {
        let order = Order { which: Which::Tenant(tenant.parse().unwrap()), command, config: None };
        self.engine.task(&order, &by("bob")).await
    }

    /// The names of a task's events, with the stage they are about.
    pub(crate) async fn events(&self, tenant: &str) -> Vec<String> {
        let history = self.engine.task_history(&Which::Tenant(tenant.parse().unwrap())).await.unwrap();
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
    let told = Arc::clone(script);
    setup.handlers.insert("do".into(), Arc::new(move |it: Told, _: Json| Arc::clone(&told).run(it)));
    let parts = Parts {
        instance: Engine::new_instance(),
        state: Arc::clone(state),
        locks: Arc::clone(locks),
        actions: Actions::new(setup).unwrap(),
        clock: Arc::new(SystemClock),
        options,
        seed: 1,
    };
    Engine::start(parts).await.unwrap()
}

pub(crate) fn by(name: &str) -> Caller {
    Caller::new(name.parse().unwrap())
}

pub(crate) fn file(yaml: &str) -> PlanFile {
    parse(yaml, Format::Yaml).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A plan whose stages are `a`, `b`, … and whose tenants are these.
pub(crate) fn plan(stages: usize, tenants: &[&str]) -> String {
    let mut yaml = "plan: p\nstages:\n".to_owned();
    for stage in (b'a'..).take(stages) {
        yaml += &format!("  - {{ name: {}, handler: {{ name: do }} }}\n", char::from(stage));
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

fn short(fact: &windlass_core::event::Fact) -> String {
    use windlass_core::event::Fact;
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
