//! The way between an instance and the store, with everything that happens on ways: delays, calls that do not
//! arrive, answers that do not, cuts, and an instance that stands still for a while and then goes on.
#![expect(clippy::redundant_locals, reason = "a call owns what it carries, also what needs no copy")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
// sleep: the clock is paused, so this passes simulated time only.
use tokio::time::sleep;
use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{Beat, Filter, Key, Op, Row, State, Step, Stepped, Take, TaskRow};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use super::witness::Witness;

/// How the way is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Open, with the occasional loss.
    Up,
    /// Nothing arrives.
    Cut,
    /// Calls arrive, answers do not.
    Mute,
    /// The instance stands still: nothing leaves it, and nothing is heard, until it goes on.
    Still,
    /// The instance is gone.
    Dead,
}

/// How much goes wrong by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weather {
    /// Calls in a thousand of which the call or the answer is lost.
    pub(super) lost: u32,
    /// Calls in a thousand that take their time …
    pub(super) slow: u32,
    /// … and how long, at most.
    pub(super) slow_ms: u64,
}

pub(super) struct Way {
    mode: Mutex<Mode>,
    changed: Notify,
    weather: Mutex<Weather>,
    dice: Mutex<fastrand::Rng>,
}

/// What becomes of one call.
pub(super) struct Fate {
    before_ms: u64,
    after_ms: u64,
    arrives: bool,
    answered: bool,
}

impl Fate {
    pub(super) fn is_smooth(&self) -> bool {
        self.before_ms == 0 && self.after_ms == 0 && self.arrives && self.answered
    }
}

impl Way {
    pub(super) fn new(weather: Weather, seed: u64) -> Way {
        let dice = Mutex::new(fastrand::Rng::with_seed(seed));
        Way { mode: Mutex::new(Mode::Up), changed: Notify::new(), weather: Mutex::new(weather), dice }
    }

    pub(super) fn set(&self, mode: Mode) {
        let mut now = self.mode.lock().unwrap();
        if *now != Mode::Dead {
            *now = mode;
            self.changed.notify_waiters();
        }
    }

    pub(super) fn mode(&self) -> Mode {
        *self.mode.lock().unwrap()
    }

    /// Nothing goes wrong any more.
    pub(super) fn clear(&self) {
        *self.weather.lock().unwrap() = Weather { lost: 0, slow: 0, slow_ms: 0 };
        self.set(Mode::Up);
    }

    /// Waits as long as the instance stands still.
    pub(super) async fn flow(&self) {
        loop {
            let changed = self.changed.notified();
            if self.mode() != Mode::Still {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn fate(&self) -> Fate {
        let weather = *self.weather.lock().unwrap();
        let mut dice = self.dice.lock().unwrap();
        let mut slow = || match weather.slow_ms > 0 && dice.u32(..1_000) < weather.slow {
            true => dice.u64(1..=weather.slow_ms),
            false => 0,
        };
        let (before_ms, after_ms) = (slow(), slow());
        let lost = weather.lost > 0 && dice.u32(..1_000) < weather.lost;
        let arrives = !(lost && dice.bool());
        match self.mode() {
            Mode::Up | Mode::Still => Fate { before_ms, after_ms, arrives, answered: !lost },
            Mode::Cut | Mode::Dead => Fate { before_ms, after_ms: 0, arrives: false, answered: false },
            Mode::Mute => Fate { before_ms, after_ms, arrives: true, answered: false },
        }
    }
}

fn lost() -> PortError {
    PortError::Unavailable("simulated".to_owned())
}

/// One instance's store, over its way.
#[derive(Clone)]
pub(super) struct Net {
    pub(super) to: Witness,
    pub(super) way: Arc<Way>,
}

impl Net {
    /// Carries a call. One that is under way when its instance dies may still arrive.
    pub(super) async fn carry<T: Send + 'static>(
        &self,
        fate: Fate,
        call: impl Future<Output = Result<T, PortError>> + Send + 'static,
    ) -> Result<T, PortError> {
        self.way.flow().await;
        let way = Arc::clone(&self.way);
        let carried = tokio::spawn(async move {
            sleep(Duration::from_millis(fate.before_ms)).await;
            let answer = if fate.arrives { call.await } else { Err(lost()) };
            sleep(Duration::from_millis(fate.after_ms)).await;
            way.flow().await;
            answer
        });
        match (carried.await, fate.answered) {
            (Ok(answer), true) => answer,
            _ => Err(lost()),
        }
    }
}

/// Smooth calls go straight through; the others own what they carry.
macro_rules! call {
    ($net:ident.$port:ident.$method:ident($($arg:ident = $owned:expr => $lent:expr),*)) => {{
        if !$net.to.truth.may_call(stringify!($port::$method)) {
            std::future::pending::<()>().await;
        }
        let fate = $net.way.fate();
        if fate.is_smooth() && $net.way.mode() == Mode::Up {
            return $port::$method(&$net.to, $($arg),*).await;
        }
        let to = $net.to.clone();
        $(let $arg = $owned;)*
        $net.carry(fate, async move { $port::$method(&to, $($lent),*).await }).await
    }};
}
pub(super) use call;

#[async_trait]
impl State for Net {
    fn at_once(&self) -> Option<usize> {
        self.to.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.to.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        call!(self.State.commit(steps = steps.to_vec() => &steps))
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        call!(self.State.take(take = take.clone() => &take))
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        let fate = self.way.fate();
        let (to, way, instance) = (self.to.clone(), Arc::clone(&self.way), instance.clone());
        if fate.is_smooth() && way.mode() == Mode::Up {
            return to.beat(&instance, lease_ms).await;
        }
        let beat = async move {
            match way.mode() {
                // Of everything that the dead have sent only this would make them look alive.
                Mode::Dead => Err(lost()),
                _ => to.beat(&instance, lease_ms).await,
            }
        };
        self.carry(fate, beat).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        call!(self.State.load(keys = keys.to_vec() => &keys))
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        call!(self.State.list(filter = filter.clone() => &filter, after = after.cloned() => after.as_ref(), limit = limit => limit))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(State::changed(&self.to, since, wait_ms)).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        call!(self.State.purge(before = before => before, limit = limit => limit))
    }
}

#[async_trait]
impl Locks for Net {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        call!(self.Locks.acquire(want = want.to_vec() => &want))
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        call!(self.Locks.renew(held = held.to_vec() => &held, ttl_ms = ttl_ms => ttl_ms))
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        call!(self.Locks.release(held = held.to_vec() => &held))
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        call!(self.Locks.force(tenant = tenant.clone() => &tenant, what = what => what, by = by.clone() => &by, reason = reason.cloned() => reason.as_ref(), op = op.cloned() => op.as_ref()))
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        call!(self.Locks.load(tenants = tenants.to_vec() => &tenants))
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        call!(self.Locks.list(after = after.cloned() => after.as_ref(), limit = limit => limit))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(Locks::changed(&self.to, since, wait_ms)).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        call!(self.Locks.purge(before = before => before, limit = limit => limit))
    }
}

impl Net {
    /// Waits for a change: nothing is delayed here, but over a way that is not open nothing is heard.
    pub(super) async fn wait<T>(&self, changed: impl Future<Output = Result<T, PortError>>) -> Result<T, PortError> {
        self.way.flow().await;
        if !self.to.truth.may_call("changed") {
            std::future::pending::<()>().await;
        }
        if self.way.mode() != Mode::Up {
            return Err(lost());
        }
        let mark = changed.await;
        self.way.flow().await;
        match self.way.mode() {
            Mode::Up => mark,
            _ => Err(lost()),
        }
    }
}
