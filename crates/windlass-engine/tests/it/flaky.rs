//! A store that fails on command: before it does what it is told, or after it, with the answer lost.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, PlanId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{Beat, Filter, Key, Op, Row, State, Step, Stepped, Take, TaskRow, Writer};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::task::status::Statuses;
use windlass_core::time::Ms;

/// What was read comes here, and is told at once, or when the gate is opened.
pub(crate) struct Gate {
    came: AtomicU32,
    open: Semaphore,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { came: AtomicU32::new(0), open: Semaphore::new(Semaphore::MAX_PERMITS) }
    }
}

impl Gate {
    pub(crate) fn hold(&self) {
        self.open.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn let_go(&self) {
        self.open.add_permits(Semaphore::MAX_PERMITS);
    }

    /// How often something came.
    pub(crate) fn came(&self) -> u32 {
        self.came.load(Ordering::SeqCst)
    }

    async fn pass(&self) {
        self.came.fetch_add(1, Ordering::SeqCst);
        let _opened = self.open.acquire().await;
    }
}

pub(crate) struct Flaky {
    state: Arc<dyn State>,
    locks: Arc<dyn Locks>,
    state_down: AtomicBool,
    locks_down: AtomicBool,
    /// Commits of attempts that are taken, and whose answer is lost.
    lost: AtomicU32,
    /// Commits of people likewise.
    lost_of_people: AtomicU32,
    /// Commits of attempts that came.
    commits: AtomicU32,
    /// Locks are not given back, and nobody hears of it.
    keeps: AtomicBool,
    /// How often locks were given back.
    releases: AtomicU32,
    /// How long a beat is on its way to the store.
    beats_take_ms: AtomicU64,
    /// Turns that it gives; 0: it gives none.
    turns: usize,
    /// Attempts that keep it busy; 0: more cost nothing.
    enough: usize,
    /// Commits of attempts wait while there is no permit.
    door: Semaphore,
    /// A plan's tasks are counted.
    pub(crate) tallies: Gate,
    /// Plans are read, and nothing about their tasks.
    pub(crate) looks: Gate,
    /// All tasks of a plan are read.
    pub(crate) lists: Gate,
    /// How often it was asked whether a plan has a task of some kind.
    peeks: AtomicU32,
    /// How often it was asked for something to do.
    takes: AtomicU32,
    /// A plan that cannot be read.
    spoilt: Mutex<Option<PlanId>>,
}

impl Flaky {
    pub(crate) fn over(state: Arc<dyn State>, locks: Arc<dyn Locks>) -> Flaky {
        Flaky {
            state,
            locks,
            state_down: AtomicBool::new(false),
            locks_down: AtomicBool::new(false),
            lost: AtomicU32::new(0),
            lost_of_people: AtomicU32::new(0),
            commits: AtomicU32::new(0),
            keeps: AtomicBool::new(false),
            releases: AtomicU32::new(0),
            beats_take_ms: AtomicU64::new(0),
            turns: 0,
            enough: 0,
            door: Semaphore::new(Semaphore::MAX_PERMITS),
            tallies: Gate::default(),
            looks: Gate::default(),
            lists: Gate::default(),
            peeks: AtomicU32::new(0),
            takes: AtomicU32::new(0),
            spoilt: Mutex::default(),
        }
    }

    /// It works on this many steps at a time.
    pub(crate) fn with_turns(self, turns: usize) -> Flaky {
        Flaky { turns, ..self }
    }

    /// So many attempts keep it busy.
    pub(crate) fn with_enough(self, enough: usize) -> Flaky {
        Flaky { enough, ..self }
    }

    /// Commits of attempts come and wait.
    pub(crate) fn hold(&self) {
        self.door.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn let_go(&self) {
        self.door.add_permits(Semaphore::MAX_PERMITS - self.door.available_permits());
    }

    /// How often it was asked whether a plan has a task of some kind.
    pub(crate) fn peeks(&self) -> u32 {
        self.peeks.load(Ordering::SeqCst)
    }

    /// How often it was asked for something to do.
    pub(crate) fn takes(&self) -> u32 {
        self.takes.load(Ordering::SeqCst)
    }

    /// From now on this plan cannot be read.
    pub(crate) fn spoil(&self, plan: &PlanId) {
        *self.spoilt.lock().unwrap() = Some(plan.clone());
    }

    /// From now on beats are this long on their way.
    pub(crate) fn beats_take(&self, ms: u64) {
        self.beats_take_ms.store(ms, Ordering::SeqCst);
    }

    /// Nothing is answered, nothing is done.
    pub(crate) fn down(&self) {
        self.state_down.store(true, Ordering::SeqCst);
        self.locks_down.store(true, Ordering::SeqCst);
    }

    pub(crate) fn up(&self) {
        self.locks_down.store(false, Ordering::SeqCst);
        self.state_down.store(false, Ordering::SeqCst);
    }

    /// Only locks are away.
    pub(crate) fn locks_down(&self) {
        self.locks_down.store(true, Ordering::SeqCst);
    }

    /// The next commits of attempts are taken, and nobody hears of it; after the last the store is away.
    pub(crate) fn lose(&self, commits: u32) {
        self.lost.store(commits, Ordering::SeqCst);
    }

    /// The same for people, without the store being away afterwards.
    pub(crate) fn lose_of_people(&self, commits: u32) {
        self.lost_of_people.store(commits, Ordering::SeqCst);
    }

    /// How many commits attempts have sent.
    pub(crate) fn commits(&self) -> u32 {
        self.commits.load(Ordering::SeqCst)
    }

    /// The store itself, as an instance sees it that is not cut off.
    pub(crate) fn behind(&self) -> (Arc<dyn State>, Arc<dyn Locks>) {
        (Arc::clone(&self.state), Arc::clone(&self.locks))
    }

    /// Locks stay where they are, as after a crash between a task's end and its lock's.
    pub(crate) fn keep_locks(&self, keep: bool) {
        self.keeps.store(keep, Ordering::SeqCst);
    }

    /// How often locks were given back.
    pub(crate) fn releases(&self) -> u32 {
        self.releases.load(Ordering::SeqCst)
    }

    fn state(&self) -> Result<&dyn State, PortError> {
        match self.state_down.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => Ok(&*self.state),
        }
    }

    fn locks(&self) -> Result<&dyn Locks, PortError> {
        match self.locks_down.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => Ok(&*self.locks),
        }
    }
}

fn gone() -> PortError {
    PortError::Unavailable("it was told to be".to_owned())
}

fn one_less(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

#[async_trait]
impl State for Flaky {
    fn at_once(&self) -> Option<usize> {
        (self.turns > 0).then_some(self.turns)
    }

    fn enough(&self) -> Option<usize> {
        (self.enough > 0).then_some(self.enough)
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        let owner = matches!(steps, [Step { by: Writer::Owner { .. }, .. }]);
        self.commits.fetch_add(u32::from(owner), Ordering::SeqCst);
        let _door = match owner {
            true => self.door.acquire().await.ok(),
            false => None,
        };
        let answers = self.state()?.commit(steps).await;
        if owner && one_less(&self.lost) {
            if self.lost.load(Ordering::SeqCst) == 0 {
                self.down();
            }
            return Err(gone());
        }
        match !owner && one_less(&self.lost_of_people) {
            true => Err(gone()),
            false => answers,
        }
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        self.takes.fetch_add(1, Ordering::SeqCst);
        self.state()?.take(take).await
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        // sleep: the way is what the test is about; nothing waits for it to be over.
        tokio::time::sleep(Duration::from_millis(self.beats_take_ms.load(Ordering::SeqCst))).await;
        self.state()?.beat(instance, lease_ms).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        let spoilt = self.spoilt.lock().unwrap().clone().map(Key::Plan);
        if spoilt.is_some_and(|plan| keys.contains(&plan)) {
            return Err(PortError::Corrupt("it was told to be".to_owned()));
        }
        let rows = self.state()?.load(keys).await;
        if keys.iter().all(|key| matches!(key, Key::Plan(_))) {
            self.looks.pass().await;
        }
        if keys.iter().any(|key| matches!(key, Key::Tally(_))) {
            self.tallies.pass().await;
        }
        rows
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        let peeks = matches!(filter, Filter::Tasks { plan: Some(_), .. }) && limit == 1;
        self.peeks.fetch_add(u32::from(peeks), Ordering::SeqCst);
        let page = self.state()?.list(filter, after, limit).await;
        if matches!(filter, Filter::Tasks { plan: Some(_), statuses: Statuses::ALL, .. }) {
            self.lists.pass().await;
        }
        page
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.state()?.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.state()?.purge(before, limit).await
    }
}

#[async_trait]
impl Locks for Flaky {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        self.locks()?.acquire(want).await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        self.locks()?.renew(held, ttl_ms).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        self.releases.fetch_add(1, Ordering::SeqCst);
        match self.keeps.load(Ordering::SeqCst) {
            true => Ok(held.iter().map(|_| Ok(())).collect()),
            false => self.locks()?.release(held).await,
        }
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        self.locks()?.force(tenant, what, by, reason, op).await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        self.locks()?.load(tenants).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        self.locks()?.list(after, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.locks()?.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.locks()?.purge(before, limit).await
    }
}
