//! What every part of an engine shares.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use windlass_core::by::By;
use windlass_core::event::{Event, Fact};
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, OpId, PlanId, TaskId, TenantId};
use windlass_core::lock::Held;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Op, State};
use windlass_core::port::trigger::Triggers;
use windlass_core::task::{Control, Hold, Task};
use windlass_core::time::Ms;

use crate::bus::{Bus, News};
use crate::clock::Clock;
use crate::command::task::Which;
use crate::error::Error;
use crate::job::Queues;
use crate::options::Options;
use crate::outage::Health;
use crate::query::pulse::Rounds;
use crate::run::dispatch::Queue;
use crate::run::standing::Standing;
use crate::run::work::Works;
use crate::run::writing::Writing;
use crate::stage::Signals;
use crate::stage::actions::Actions;
use crate::watched::Watched;

/// What every part of an engine shares.
pub(crate) struct Shared {
    pub(crate) instance: InstanceId,
    /// How the engine signs what it does by itself.
    pub(crate) me: By,
    pub(crate) state: Arc<dyn State>,
    pub(crate) locks: Arc<dyn Locks>,
    pub(crate) queues: Option<Queues>,
    pub(crate) triggers: Option<Arc<dyn Triggers>>,
    pub(crate) actions: Actions,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) options: Options,
    pub(crate) bus: Bus,
    pub(crate) health: Health,
    pub(crate) works: Works,
    pub(crate) queue: Queue,
    /// Attempts that ask how their plan stands.
    pub(crate) standing: Mutex<Standing>,
    /// Turns at the store, if it gives them.
    pub(crate) turns: Option<Semaphore>,
    /// Attempts that are not in a stage: they write, or are about to.
    pub(crate) writing: Writing,
    pub(crate) counts: Counts,
    /// When each loop last came round.
    pub(crate) rounds: Rounds,
    /// Attempts that run here.
    pub(crate) running: Mutex<BTreeMap<TaskId, Running>>,
    /// The last one of a plan has left.
    drained: Notify,
    /// How many of them each plan has.
    by_plan: Mutex<BTreeMap<PlanId, u32>>,
    /// Locks of ended tasks, to be given back.
    pub(crate) to_release: Mutex<Vec<Held>>,
    /// Plans of which a task has ended, or which were changed.
    pub(crate) touched: Mutex<std::collections::BTreeSet<PlanId>>,
    /// Plans that a failed task has paused, and what that means for the rest.
    pub(crate) sweeps: Mutex<Vec<(PlanId, crate::command::plan::Sweep)>>,
    /// There is one.
    pub(crate) sweeping: Notify,
    /// Something is to be released.
    pub(crate) releasing: Notify,
    /// Some plan was touched.
    pub(crate) conducting: Notify,
    /// Somebody asked something of a task: look now, not at the next beat.
    pub(crate) asked: Notify,
    /// See [`crate::command`]: two that come at once with one key follow each other.
    pub(crate) keyed: Vec<tokio::sync::Mutex<()>>,
    /// How often an attempt was told what is wanted of its task.
    pub(crate) tellings: AtomicU64,
    /// The engine takes no more work.
    pub(crate) stopping: Watched<bool>,
    /// Occurrences of triggers that are being carried out here.
    pub(crate) firing: Watched<usize>,
    /// The last attempt has ended.
    pub(crate) idle: Notify,
    tasks: Mutex<JoinSet<()>>,
    /// State kept in memory that the store refused afterwards, the newest.
    pub(crate) dropped: Mutex<BTreeMap<TaskId, (Ms, String)>>,
    /// The store's clock at a moment of ours, as the last answer to a beat told it.
    pub(crate) store_clock: Mutex<Option<(tokio::time::Instant, Ms)>>,
    /// Instances whose lease ran when this one came up and that were not heard of since, and until when.
    pub(crate) strangers: Mutex<BTreeMap<InstanceId, Ms>>,
    dead: AtomicBool,
    ops: AtomicU64,
    rng: Mutex<fastrand::Rng>,
}

/// An attempt that runs here, as others see it.
pub(crate) struct Running {
    pub(crate) tenant: TenantId,
    pub(crate) plan: PlanId,
    pub(crate) fence: Fence,
    pub(crate) signal: Arc<Signals>,
    pub(crate) lock_end: Arc<Mutex<tokio::time::Instant>>,
    /// The version of the task at which the store told what is wanted of it, and when that came, in
    /// [`Shared::tellings`]. Answers overtake each other; what is older does not count.
    pub(crate) told: (u64, u64),
    /// Its state as it is in memory, while the store does not have it.
    pub(crate) unsaved: Option<Unsaved>,
}

impl Running {
    pub(crate) fn tell(&self, control: &Control) {
        self.signal.modify(|signal| signal.set_control(control));
    }
}

/// State that the store does not have yet.
#[derive(Clone)]
pub(crate) struct Unsaved {
    pub(crate) since: Ms,
    pub(crate) task: Box<Task>,
}

/// Notes of dropped states kept.
const DROPPED_MAX: usize = 1_000;

/// What happened, counted.
#[derive(Debug, Default)]
pub struct Counts {
    /// Stages that ended well.
    pub stages: AtomicU64,
    /// Calls of the state port by attempts.
    pub commits: AtomicU64,
    /// Calls of any port by this engine.
    pub calls: AtomicU64,
    /// Attempts that stopped because somebody else owned their task.
    pub lost: AtomicU64,
    /// States kept in memory that the store refused afterwards.
    pub dropped: AtomicU64,
    /// Jobs and triggers that the janitor ended or forgot.
    pub purged: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64) {
        Counts::count(counter, 1);
    }

    pub(crate) fn count(counter: &AtomicU64, n: u32) {
        counter.fetch_add(u64::from(n), Ordering::Relaxed);
    }
}

/// What an engine is made of.
pub struct Parts {
    /// Its identity: a new one at every start.
    pub instance: InstanceId,
    /// Where state is kept.
    pub state: Arc<dyn State>,
    /// Where locks are kept.
    pub locks: Arc<dyn Locks>,
    /// Jobs, if it has to do with them.
    pub queues: Option<Queues>,
    /// Where triggers are kept; without, it schedules nothing.
    pub triggers: Option<Arc<dyn Triggers>>,
    /// What its stages can do.
    pub actions: Actions,
    /// What events are dated by.
    pub clock: Arc<dyn Clock>,
    /// How it behaves.
    pub options: Options,
    /// For jitter and suffixes.
    pub seed: u64,
}

impl Shared {
    pub(crate) fn new(parts: Parts, me: By) -> Shared {
        let turns = parts.state.at_once().map(Semaphore::new);
        let writing = Writing::new(parts.state.enough());
        Shared {
            instance: parts.instance,
            me,
            state: parts.state,
            locks: parts.locks,
            queues: parts.queues,
            triggers: parts.triggers,
            actions: parts.actions,
            clock: parts.clock,
            options: parts.options.bounded(),
            bus: Bus::default(),
            health: Health::default(),
            works: Works::default(),
            queue: Queue::default(),
            standing: Mutex::default(),
            turns,
            writing,
            counts: Counts::default(),
            rounds: Rounds::new(),
            running: Mutex::default(),
            drained: Notify::new(),
            by_plan: Mutex::default(),
            to_release: Mutex::default(),
            touched: Mutex::default(),
            sweeps: Mutex::default(),
            sweeping: Notify::new(),
            releasing: Notify::new(),
            conducting: Notify::new(),
            asked: Notify::new(),
            keyed: std::iter::repeat_with(tokio::sync::Mutex::default).take(crate::command::once::TURNS).collect(),
            tellings: AtomicU64::new(0),
            stopping: Watched::default(),
            firing: Watched::default(),
            idle: Notify::new(),
            tasks: Mutex::default(),
            dropped: Mutex::default(),
            store_clock: Mutex::default(),
            strangers: Mutex::default(),
            dead: AtomicBool::new(false),
            ops: AtomicU64::new(0),
            rng: Mutex::new(fastrand::Rng::with_seed(parts.seed)),
        }
    }

    /// Runs `future` until it ends or the engine does.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = locked(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if !self.dead.load(Ordering::Relaxed) {
            tasks.spawn(future);
        }
    }

    /// Ends everything at once, as a crash would.
    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        drop(std::mem::take(&mut *locked(&self.tasks)));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Whether it still takes commands.
    pub(crate) fn is_open(&self) -> Result<(), Error> {
        match self.is_stopping() {
            true => Err(Error::Stopping),
            false => Ok(()),
        }
    }

    pub(crate) fn begin_stopping(&self) {
        self.stopping.modify(|stopping| !std::mem::replace(stopping, true));
    }

    /// Ends when the engine stops.
    pub(crate) async fn stopped(&self) {
        self.stopping.until(|stopping| *stopping).await;
    }

    /// Waits for a turn at a store that gives turns. One that does not answer gives none: nobody waits for it here.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        tokio::select! {
            biased;
            turn = self.turns.as_ref()?.acquire() => turn.ok(),
            () = self.health.down() => None,
        }
    }

    /// An attempt is in a stage from now on, or has ended: if the store is not busy without it, others may begin.
    pub(crate) fn writes_no_more(&self) {
        if self.writing.left() {
            self.queue.wake();
        }
    }

    /// A new operation of this instance.
    pub(crate) fn op(&self) -> Op {
        let n = self.ops.fetch_add(1, Ordering::Relaxed);
        Op { id: OpId::of(&self.instance, n), digest: n }
    }

    /// In `[0, 1)`.
    pub(crate) fn jitter(&self) -> f64 {
        locked(&self.rng).f64()
    }

    pub(crate) fn random(&self) -> u64 {
        locked(&self.rng).u64(..)
    }

    /// An event about `task`.
    pub(crate) fn about(&self, task: &Task, fact: Fact, now: Ms) -> Event {
        Event {
            seq: 0,
            at: now,
            plan: task.plan.clone(),
            task: Some(task.id.clone()),
            tenant: Some(task.tenant.clone()),
            by: None,
            reason: None,
            fact,
        }
    }

    /// Tells what was committed; `seq` is the number of the last event.
    pub(crate) fn tell(&self, events: Vec<Event>, seq: u64, durable: bool) {
        if !self.bus.is_heard() {
            return;
        }
        let before = seq.saturating_sub(events.len() as u64);
        for (event, seq) in events.into_iter().zip(before + 1..) {
            self.bus.tell(News::Event { event: Arc::new(Event { seq, ..event }), durable });
        }
    }

    /// Now, by the store's clock as far as it is known: what leases are judged by.
    pub(crate) fn store_now(&self) -> Ms {
        match *locked(&self.store_clock) {
            Some((at, ms)) => ms.plus(u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)),
            None => self.clock.now(),
        }
    }

    /// State of this task was kept in memory and the store did not take it.
    pub(crate) fn note_dropped(&self, task: &TaskId, why: &str) {
        let mut dropped = locked(&self.dropped);
        while dropped.len() >= DROPPED_MAX && dropped.pop_first().is_some() {}
        dropped.insert(task.clone(), (self.clock.now(), why.to_owned()));
    }

    /// A plan's task has ended, or the plan was changed: somebody should look whether it is over.
    pub(crate) fn touch(&self, plan: &PlanId) {
        if locked(&self.touched).insert(plan.clone()) {
            self.conducting.notify_one();
        }
    }

    /// One more task of this plan runs here.
    pub(crate) fn joined(&self, plan: &PlanId) {
        *locked(&self.by_plan).entry(plan.clone()).or_default() += 1;
    }

    /// One less; how many are left.
    pub(crate) fn left(&self, plan: &PlanId) -> u32 {
        let mut by_plan = locked(&self.by_plan);
        match by_plan.get_mut(plan) {
            Some(n) if *n > 1 => {
                *n -= 1;
                *n
            }
            _ => {
                by_plan.remove(plan);
                self.drained.notify_waiters();
                0
            }
        }
    }

    /// The plan's attempts here are to pause at their boundary, or not any more; `false` if there are none.
    pub(crate) fn hold_here(&self, plan: &PlanId, hold: Option<&Hold>) -> bool {
        let running = locked(&self.running);
        let mut any = false;
        for here in running.values().filter(|here| here.plan == *plan) {
            here.signal.modify(|signal| signal.set_with_plan(hold));
            any = true;
        }
        any
    }

    /// Ends when nothing of the plan runs here.
    pub(crate) async fn until_drained(&self, plan: &PlanId) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            drained.as_mut().enable();
            if !locked(&self.by_plan).contains_key(plan) {
                return;
            }
            drained.await;
        }
    }

    /// What is wanted of a task that runs here, as the store said with this version of it.
    pub(crate) fn set_control(&self, task: &TaskId, control: &Control, version: u64) {
        let mut running = locked(&self.running);
        if let Some(here) = running.get_mut(task).filter(|here| here.told.0 <= version) {
            here.told = (version, self.tellings.fetch_add(1, Ordering::Relaxed));
            here.tell(control);
        }
    }

    /// What `look` finds at the attempt that runs here, if one does.
    pub(crate) fn running_here<R>(
        &self,
        which: &Which,
        look: impl FnOnce(&TaskId, &Running) -> Option<R>,
    ) -> Option<R> {
        let running = locked(&self.running);
        let (id, here) = match which {
            Which::Task(id) => running.get_key_value(id)?,
            Which::Tenant(tenant) => running.iter().find(|(_, here)| here.tenant == *tenant)?,
        };
        look(id, here)
    }

    /// Somebody else owns it.
    pub(crate) fn set_lost(&self, task: &TaskId, fence: Fence) {
        if let Some(here) = locked(&self.running).get(task)
            && here.fence == fence
        {
            here.signal.modify(|signal| !std::mem::replace(&mut signal.lost, true));
        }
    }
}

/// A poisoned lock holds what was there before the panic: every use here is one small step.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
