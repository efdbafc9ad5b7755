//! The engine: plans carried out stage by stage, through the ports. `run::attempt` is the loop that
//! everything exists for; [`command`] is what people do, [`query`] what they ask, [`stage`] what a stage can
//! be. Rules are the core's; this crate has the I/O, the waiting and the wake-ups.

pub mod bus;
pub mod clock;
pub mod command;
pub mod error;
pub mod job;
pub mod options;
mod outage;
pub mod query;
mod run;
mod shared;
pub mod stage;
pub mod trigger;
pub mod watched;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::broadcast;
use windlass_core::id::{InstanceId, PlanId, TaskId, TenantId};
use windlass_core::plan::spec::PlanFile;
use windlass_core::port::lock::{Force, Tenant};

pub use error::Error;
pub use options::{OnOutage, Options};
pub use shared::{Counts, Parts};

use bus::News;
use command::create::Created;
use command::plan::Verb;
use command::task::Order;
use command::{Caller, Done};
use shared::{Shared, locked};

/// How the engine signs what it does by itself.
pub const ENGINE: &str = "windlass";

/// How long a stop waits for occurrences to be handed back.
const HAND_BACK: Duration = Duration::from_secs(1);

/// One running instance. Clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Shared>);

/// What a stop left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// Tasks that were still in a stage when the time was over: they read interrupted.
    pub interrupted: Vec<TaskId>,
}

impl Engine {
    /// Begins the instance's lease and its loops. Nothing that was interrupted moves by this.
    pub async fn start(parts: Parts) -> Result<Engine, Error> {
        let me = ENGINE.parse().map_err(|_| Error::Invalid("the engine has no name".to_owned()))?;
        let shared = Arc::new(Shared::new(parts, me));
        // Before its own lease begins, so that nobody's ends unseen in between.
        shared.meet().await?;
        let until = shared.state.beat(&shared.instance, shared.options.lease_ms).await?.until;
        let now = until.minus(shared.options.lease_ms);
        *locked(&shared.store_clock) = Some((tokio::time::Instant::now(), now));
        locked(&shared.strangers).retain(|_, until| *until > now);
        shared.spawn(run::lease::keep(Arc::clone(&shared)));
        shared.spawn(run::lease::watch_state(Arc::clone(&shared)));
        shared.spawn(run::dispatch::dispatch(Arc::clone(&shared)));
        shared.spawn(run::dispatch::watch_locks(Arc::clone(&shared)));
        shared.spawn(run::janitor::release(Arc::clone(&shared)));
        shared.spawn(run::janitor::tidy(Arc::clone(&shared)));
        shared.spawn(run::plan::conduct(Arc::clone(&shared)));
        shared.spawn(run::plan::sweep(Arc::clone(&shared)));
        // Last: an occurrence can be carried out from here on.
        if let Some(triggers) = &shared.triggers {
            shared.spawn(trigger::schedule(Arc::clone(&shared), Arc::clone(triggers)));
        }
        Ok(Engine(shared))
    }

    /// A new identity.
    #[must_use]
    pub fn new_instance() -> InstanceId {
        let text = format!("i-{}", uuid::Uuid::new_v4().simple());
        // Letters, digits and '-': always an identifier.
        text.parse().unwrap_or_else(|_| Self::new_instance())
    }

    /// This instance.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.0.instance
    }

    /// Creates a plan, and starts it if asked to.
    pub async fn create(&self, file: &PlanFile, start: bool, caller: &Caller) -> Result<Created, Error> {
        self.0.is_open()?;
        self.0.create(file, start, caller).await
    }

    /// Does what is wanted of a plan.
    pub async fn plan(&self, plan: &PlanId, verb: Verb, caller: &Caller) -> Result<Done, Error> {
        self.0.is_open()?;
        self.0.command_plan(plan, verb, caller).await
    }

    /// Does what is wanted of a task.
    pub async fn task(&self, order: &Order, caller: &Caller) -> Result<Done, Error> {
        self.0.is_open()?;
        self.0.command_task(order, caller).await
    }

    /// Freezes or unfreezes a tenant, or takes its lock away; answers what it was before.
    pub async fn tenant(&self, tenant: &TenantId, what: Force, caller: &Caller) -> Result<Tenant, Error> {
        self.0.is_open()?;
        self.0.force_tenant(tenant, what, caller).await
    }

    /// Hears everything that happens on this instance from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<News> {
        self.0.bus.subscribe()
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Attempts that run here now.
    #[must_use]
    pub fn running(&self) -> usize {
        locked(&self.0.running).len()
    }

    /// Which tasks they are of.
    #[must_use]
    pub fn running_tasks(&self) -> Vec<TaskId> {
        locked(&self.0.running).keys().cloned().collect()
    }

    /// Takes no more work, lets stages reach their boundary within the time that is set, hands the lease
    /// back. What was stopped reads interrupted, and a person decides what becomes of it.
    pub async fn stop(&self) -> Stopped {
        let shared = &self.0;
        shared.begin_stopping();
        shared.queue.wake();
        shared.conducting.notify_one();
        for here in locked(&shared.running).values() {
            here.signal.modify(|signal| !std::mem::replace(&mut signal.leaving, true));
        }
        let end = tokio::time::Instant::now() + Duration::from_millis(shared.options.drain_ms);
        loop {
            let idle = shared.idle.notified();
            if locked(&shared.running).is_empty() {
                break;
            }
            if tokio::time::timeout_at(end, idle).await.is_err() {
                break;
            }
        }
        // Occurrences that are cut off go back at once; if that does not succeed their leases end by themselves.
        drop(
            tokio::time::timeout_at(end.max(tokio::time::Instant::now() + HAND_BACK), shared.firing.until(|n| *n == 0))
                .await,
        );
        let interrupted = locked(&shared.running).keys().cloned().collect();
        let held = std::mem::take(&mut *locked(&shared.to_release));
        if !held.is_empty() && shared.health.down_since().is_none() {
            drop(shared.locks.release(&held).await);
        }
        if let Some(queues) = &shared.queues {
            queues.stop().await;
        }
        shared.kill();
        // Without an answer the lease ends by itself.
        drop(shared.state.beat(&shared.instance, 0).await);
        Stopped { interrupted }
    }

    /// Ends at once, as a crash would: nothing is written, nothing handed back.
    pub fn kill(&self) {
        self.0.begin_stopping();
        if let Some(queues) = &self.0.queues {
            queues.kill();
        }
        self.0.kill();
    }

    /// Stages carried out so far.
    #[must_use]
    pub fn stages(&self) -> u64 {
        self.0.counts.stages.load(Ordering::Relaxed)
    }
}
