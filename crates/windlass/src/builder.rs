//! The library's front door: a store, handlers, and an engine over them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::{InstanceId, PlanId, QueueName};
use windlass_core::json::Json;
use windlass_core::plan::file::{Format, Problems, parse};
use windlass_engine::clock::{Clock, SystemClock};
use windlass_engine::command::Caller;
use windlass_engine::command::create::Created;
use windlass_engine::job::worker::{self as job, Lane};
use windlass_engine::job::{JobHandler, Queues};
use windlass_engine::query::view::PlanView;
use windlass_engine::stage::actions::{Actions, BadSetup, Setup};
use windlass_engine::stage::exec::Allowed;
use windlass_engine::stage::guard::Guard;
use windlass_engine::stage::handler::Handlers;
use windlass_engine::stage::secret::Secrets;
use windlass_engine::stage::{Handler, Told, Trouble};
use windlass_engine::{Engine, Error, Options, Parts};

use crate::open::{BadUrl, OpenError, Stores, open};
use crate::settings::{BadSecrets, Settings};

/// A running instance: everything an [`Engine`] can be asked, and the store it works on. It goes on until
/// [`Engine::stop`]; clones share it.
#[derive(Clone)]
pub struct Windlass {
    engine: Engine,
    queues: Queues,
    stores: Stores,
}

/// What a [`Windlass`] is made of. Without anything said: a store in memory, no handlers, no programs, and only public
/// addresses for `http` stages.
pub struct Builder {
    store: Result<Stores, String>,
    settings: Settings,
    handlers: Handlers,
    lanes: Vec<Lane>,
    environment: BTreeMap<String, String>,
    secrets: Option<Secrets>,
    exec: Option<Allowed>,
    guard: Option<Guard>,
    listen: Option<SocketAddr>,
    clock: Arc<dyn Clock>,
    options: Option<Options>,
    instance: InstanceId,
    seed: u64,
}

/// Why a [`Windlass`] cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store's URL.
    #[error(transparent)]
    Url(#[from] BadUrl),
    /// The store.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What stages may do.
    #[error(transparent)]
    Setup(#[from] BadSetup),
    /// The secret file of the settings.
    #[error(transparent)]
    Secrets(#[from] BadSecrets),
    /// The store does not answer.
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Why a plan was not created.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The file: every problem, with line and column.
    #[error("{0}")]
    Plan(Problems),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] Error),
}

impl Windlass {
    /// Begins with a store in memory and nothing else.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            store: Err("memory:".to_owned()),
            settings: Settings::default(),
            handlers: Handlers::new(),
            lanes: Vec::new(),
            environment: BTreeMap::new(),
            secrets: None,
            exec: None,
            guard: None,
            listen: None,
            clock: Arc::new(SystemClock),
            options: None,
            instance: Engine::new_instance(),
            seed: random_seed(),
        }
    }

    /// Creates and starts the plan that `yaml` describes.
    pub async fn submit(&self, yaml: &str, caller: &Caller) -> Result<Created, SubmitError> {
        let file = parse(yaml, Format::Yaml).map_err(SubmitError::Plan)?;
        Ok(self.engine.create(&file, true, caller).await?)
    }

    /// Waits until the plan has ended, or until nothing of it moves any more without a person; at most `limit`.
    /// `None` when the time is over. A plan that is RUNNING in the answer waits for a person: its tasks are paused, want
    /// an approval or were interrupted, which `why_plan` counts and `inbox` lists. With `recovery: auto`, interrupted
    /// tasks are waited for: an instance takes them up.
    pub async fn wait(&self, plan: &PlanId, limit: Duration) -> Result<Option<PlanView>, Error> {
        self.engine.wait_plan(plan, limit).await
    }

    /// Jobs: submit them, wait for them, work on them.
    #[must_use]
    pub fn jobs(&self) -> &Queues {
        &self.queues
    }

    /// The store, for whoever needs the ports themselves.
    #[must_use]
    pub fn stores(&self) -> &Stores {
        &self.stores
    }
}

impl Deref for Windlass {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl Builder {
    /// Works on the store at this URL: `memory:`, `embedded:PATH`, `postgres://…`, `mysql://…`, `redis://…`.
    #[must_use]
    pub fn store(self, url: impl Into<String>) -> Builder {
        Builder { store: Err(url.into()), ..self }
    }

    /// Works on a store that is open already.
    #[must_use]
    pub fn stores(self, stores: Stores) -> Builder {
        Builder { store: Ok(stores), ..self }
    }

    /// Stages may call `handler` by `name`. It gets what the stage is told and its arguments, and what it returns
    /// enters the context.
    #[must_use]
    pub fn handler<F, R>(mut self, name: impl Into<String>, handler: F) -> Builder
    where
        F: Fn(Told, Json) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Option<Json>, Trouble>> + Send + 'static,
    {
        self.handlers.insert(name.into(), Arc::new(handler) as Arc<dyn Handler>);
        self
    }

    /// This instance works on the jobs of `queue`, up to `concurrency` of them at once.
    #[must_use]
    pub fn worker<F, R>(mut self, queue: QueueName, concurrency: u32, handler: F) -> Builder
    where
        F: Fn(job::Told) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Json, job::Failed>> + Send + 'static,
    {
        let handler = Arc::new(handler) as Arc<dyn JobHandler>;
        self.lanes.push(Lane::new(queue, concurrency, handler));
        self
    }

    /// What secrets stand for on this instance, instead of what the file of the settings says.
    #[must_use]
    pub fn secrets(self, secrets: Secrets) -> Builder {
        Builder { secrets: Some(secrets), ..self }
    }

    /// The programs that `exec` stages may run, whatever the settings say.
    #[must_use]
    pub fn allow_exec(self, programs: Allowed) -> Builder {
        Builder { exec: Some(programs), ..self }
    }

    /// The instance's environment: programs see `PATH`, `HOME`, `LANG` and `TZ` of it, and `WINDLASS_SECRET_NAME` is the
    /// secret `NAME` unless [`Builder::secrets`] knows it; it goes before the secret file.
    #[must_use]
    pub fn environment(self, environment: BTreeMap<String, String>) -> Builder {
        Builder { environment, ..self }
    }

    /// The addresses that `http` and `poll` stages may call, whatever the settings say.
    #[must_use]
    pub fn guard(self, guard: Guard) -> Builder {
        Builder { guard: Some(guard), ..self }
    }

    /// Plans come in through a server that listens at `address`, and in no other way. If nobody else can reach it, the
    /// guard is off unless the settings or [`Builder::guard`] turn it on.
    #[must_use]
    pub fn listen(self, address: SocketAddr) -> Builder {
        Builder { listen: Some(address), ..self }
    }

    /// What events are dated by.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Builder {
        Builder { clock: Arc::new(clock), ..self }
    }

    /// How it behaves, whatever the settings say.
    #[must_use]
    pub fn options(self, options: Options) -> Builder {
        Builder { options: Some(options), ..self }
    }

    /// How the store is opened, what stages may do, and how the engine behaves, each unless it is said otherwise here.
    /// Which store it is stays what [`Builder::store`] says.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Builder {
        Builder { settings, ..self }
    }

    /// Opens the store, begins the lease, and takes up work. What was interrupted stays where it is.
    pub async fn start(self) -> Result<Windlass, StartError> {
        // First what can be wrong without anything being opened.
        let secrets = self.secrets.map_or_else(|| self.settings.secrets.open(), Ok)?;
        let setup = Setup {
            handlers: self.handlers,
            secrets,
            exec: self.exec.unwrap_or_else(|| self.settings.exec.allowed()),
            environment: self.environment,
            guard: self.guard.unwrap_or_else(|| self.settings.http.guard(self.listen)),
            ..Setup::default()
        };
        setup.check()?;
        let stores = match self.store {
            Ok(stores) => stores,
            Err(url) => open(&url.parse()?, &self.settings).await?,
        };
        let queues =
            Queues::start(Arc::clone(&stores.jobs), Arc::clone(&self.clock), (&self.settings.jobs).into(), !self.seed);
        let actions = Actions::new(Setup { queues: Some(queues.clone()), ..setup })?;
        let options = self.options.unwrap_or_else(|| Options::from(&self.settings));
        let parts = Parts {
            instance: self.instance,
            state: Arc::clone(&stores.state),
            locks: Arc::clone(&stores.locks),
            queues: Some(queues.clone()),
            triggers: Some(Arc::clone(&stores.triggers)),
            actions,
            clock: self.clock,
            options,
            seed: self.seed,
        };
        let engine = Engine::start(parts).await?;
        if !self.lanes.is_empty() {
            queues.work(self.lanes)?;
        }
        Ok(Windlass { engine, queues, stores })
    }
}

/// Not predictable, so that two instances do not draw the same suffixes.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher as _, Hasher as _};
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
