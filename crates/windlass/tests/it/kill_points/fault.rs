//! A store that ends its own process at a given write: before it, while it is being made, or after it, when its answer
//! has not been delivered yet. It also counts how often the engine over it has looked for work.
//!
//! It wraps the ports and is handed to `Builder::stores`, so it needs no feature of the product: what can end the process
//! is compiled into the tests and the example `puppet`, and no build of the executable can hold it.
//!
//! Writes are numbered in the order in which they come: commits, takes, grants and releases of locks. Beats, renewals and
//! purges are made by the clock and are not counted, and neither is a take when nothing is ready, so that the number of a
//! write is nearly the same in every run.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::{Signal, getpid, kill_process};
use windlass::core::by::{By, Reason};
use windlass::core::id::{InstanceId, TenantId};
use windlass::core::lock::{Acquire, Held, Holder};
use windlass::core::port::lock::{Force, Locks, Tenant};
use windlass::core::port::state::{Beat, Filter, Key, Row, State, Step, Stepped, Take, TaskRow, Writer};
use windlass::core::port::{Cursor, Each, Mark, PAGE_MAX, Page, PortError};
use windlass::core::task::status::Statuses;
use windlass::core::time::Ms;
use windlass::open::Stores;

/// When the process ends: `before:7`, `during:7`, `after:7`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    moment: Moment,
    write: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    During,
    After,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let bad = || format!("{text:?} is no fault; expected before:N, during:N or after:N");
        let (moment, write) = text.split_once(':').ok_or_else(bad)?;
        let moment = match moment {
            "before" => Moment::Before,
            "during" => Moment::During,
            "after" => Moment::After,
            _ => return Err(bad()),
        };
        Ok(Fault { moment, write: write.parse().map_err(|_| bad())? })
    }
}

/// What an attempt is told once a write of its own was acknowledged.
type Acknowledged = Box<dyn Fn(&Step) + Send + Sync>;

/// A store under watch.
pub(crate) struct Watched {
    state: Arc<dyn State>,
    locks: Arc<dyn Locks>,
    fault: Option<Fault>,
    acknowledged: Acknowledged,
    writes: AtomicU32,
    takes: AtomicU32,
    plans: AtomicU32,
}

impl Watched {
    /// Over these stores; `acknowledged` hears of every owner's commit that was taken.
    pub(crate) fn over(
        stores: &Stores,
        fault: Option<Fault>,
        acknowledged: impl Fn(&Step) + Send + Sync + 'static,
    ) -> Arc<Watched> {
        Arc::new(Watched {
            state: Arc::clone(&stores.state),
            locks: Arc::clone(&stores.locks),
            fault,
            acknowledged: Box::new(acknowledged),
            writes: AtomicU32::new(0),
            takes: AtomicU32::new(0),
            plans: AtomicU32::new(0),
        })
    }

    /// As a builder takes them.
    pub(crate) fn stores(self: &Arc<Self>) -> Stores {
        Stores { state: Arc::clone(self) as _, locks: Arc::clone(self) as _, jobs: None, triggers: None }
    }

    /// How often the engine has looked for tasks, and at the list of open plans: the smaller of both.
    pub(crate) fn looks(&self) -> u32 {
        self.takes.load(Ordering::SeqCst).min(self.plans.load(Ordering::SeqCst))
    }

    /// One counted write.
    async fn write<T>(&self, write: impl Future<Output = T>) -> T {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let Some(Fault { moment, .. }) = self.fault.filter(|fault| fault.write == number) else { return write.await };
        match moment {
            Moment::Before => {}
            Moment::During => {
                die_in(delay(number));
                write.await;
            }
            Moment::After => drop(write.await),
        }
        if moment != Moment::During {
            die();
        }
        // Nobody hears what has become of the write.
        std::future::pending().await
    }

    /// Whether a take would find something.
    async fn is_ready(&self) -> bool {
        let filter = Filter::Tasks { plan: None, tenant: None, statuses: Statuses::ALL, interrupted: false };
        let free = |row: &Row| matches!(row, Row::Task(row) if row.task.owner.is_none() && row.task.readiness(&row.control).is_some());
        self.state.list(&filter, None, PAGE_MAX).await.is_ok_and(|page| page.items.iter().any(free))
    }
}

/// As `kill -9` would: nothing is flushed, nothing is given back.
fn die() {
    kill_process(getpid(), Signal::KILL).unwrap();
}

/// A write takes about this long; another point of it at each number.
fn delay(number: u32) -> Duration {
    Duration::from_micros(u64::from(number) * 337 % 2_000)
}

/// From a thread of its own, so that nothing the runtime does delays it.
fn die_in(delay: Duration) {
    std::thread::spawn(move || {
        // sleep: the point is to die while a write is on its way, and nobody tells where it is.
        std::thread::sleep(delay);
        die();
    });
}

#[async_trait]
impl State for Watched {
    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        let commit = async {
            let answers = self.state.commit(steps).await;
            for (step, answer) in steps.iter().zip(answers.iter().flatten()) {
                if answer.is_ok() && matches!(step.by, Writer::Owner { .. }) {
                    (self.acknowledged)(step);
                }
            }
            answers
        };
        self.write(commit).await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        let taken = match self.is_ready().await {
            true => self.write(self.state.take(take)).await,
            false => self.state.take(take).await,
        };
        self.takes.fetch_add(1, Ordering::SeqCst);
        taken
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.state.beat(instance, lease_ms).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        self.state.load(keys).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        let page = self.state.list(filter, after, limit).await;
        // The conductor asks for all open plans; whoever hands out tasks, for those that run, if not any will do.
        match filter {
            Filter::Plans { statuses } if statuses.len() > 1 => self.plans.fetch_add(1, Ordering::SeqCst),
            Filter::Plans { .. } => self.takes.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        page
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.state.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.state.purge(before, limit).await
    }
}

#[async_trait]
impl Locks for Watched {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        self.write(self.locks.acquire(want)).await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        self.locks.renew(held, ttl_ms).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        self.write(self.locks.release(held)).await
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
    ) -> Result<Tenant, PortError> {
        self.locks.force(tenant, what, by, reason).await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        self.locks.load(tenants).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        self.locks.list(after, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.locks.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.locks.purge(before, limit).await
    }
}
