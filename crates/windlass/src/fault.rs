//! A process that ends itself at a given write to its store: before it, while it is being made, torn in the middle of it, or
//! after it, when nobody has heard of it yet. For tests of real processes, and in no release build.
//!
//! `WINDLASS_FAULT` says when: `before:7`, `after:7`, `during:7:35` (when 35 % of the time is over that a write has taken so
//! far), `torn:7:120` (when the write has put 120 bytes into the journal of an embedded store). Without it nothing is wrapped.
//!
//! Writes are numbered in the order in which they come: commits, takes, grants and releases of locks, and what people do to
//! locks. Beats, renewals and purges are made by the clock and are not counted, and neither is a take when nothing is ready, so
//! that the number of a write is nearly the same in every run.

use std::fs::File;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::process::{Resource, Rlimit, Signal, getpid, kill_process, setrlimit};
use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{Beat, Filter, Key, Op, Row, State, Step, Stepped, Take, TaskRow};
use windlass_core::port::{Cursor, Each, Mark, PAGE_MAX, Page, PortError, Refusal};
use windlass_core::task::status::Statuses;
use windlass_core::time::Ms;

use crate::open::{StoreUrl, Stores};

#[cfg(not(debug_assertions))]
compile_error!("the feature `fault` ends its own process: it is for tests, and no release build may have it");

/// Where the process is told.
const VARIABLE: &str = "WINDLASS_FAULT";

/// Said on the standard error by a process that was to die during a write and has lived to see its answer.
pub const TOO_LATE: &str = "fault: the write was answered before the process died";

/// At which write the process ends, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fault {
    moment: Moment,
    write: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    During { percent: u32 },
    Torn { bytes: u32 },
    After,
}

/// Why `WINDLASS_FAULT` is not understood.
#[derive(Debug, thiserror::Error)]
#[error("WINDLASS_FAULT={0:?} is no fault; expected before:N, after:N, during:N:PERCENT or torn:N:BYTES")]
pub struct BadFault(String);

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Fault, BadFault> {
        let bad = || BadFault(text.to_owned());
        let number = |word: &str| word.parse::<u32>().map_err(|_| bad());
        let words: Vec<&str> = text.split(':').collect();
        let (moment, write) = match words[..] {
            ["before", write] => (Moment::Before, write),
            ["after", write] => (Moment::After, write),
            ["during", write, percent] => (Moment::During { percent: number(percent)? }, write),
            ["torn", write, bytes] => (Moment::Torn { bytes: number(bytes)? }, write),
            _ => return Err(bad()),
        };
        Ok(Fault { moment, write: number(write)? })
    }
}

/// These stores, deadly if the process is told so.
pub(crate) fn armed(stores: Stores, url: &StoreUrl) -> Result<Stores, BadFault> {
    #[expect(clippy::disallowed_methods, reason = "a test's word to a process, and no setting")]
    let Ok(text) = std::env::var(VARIABLE) else { return Ok(stores) };
    let folder = match url {
        StoreUrl::Embedded(folder) => Some(folder.clone()),
        StoreUrl::Memory | StoreUrl::Postgres(_) | StoreUrl::MySql(_) | StoreUrl::Redis(_) => None,
    };
    let deadly = Arc::new(Deadly {
        stores,
        fault: text.parse()?,
        folder,
        writes: AtomicU32::new(0),
        timed: AtomicU32::new(0),
        took_us: AtomicU64::new(0),
    });
    let (jobs, triggers) = (Arc::clone(&deadly.stores.jobs), Arc::clone(&deadly.stores.triggers));
    let batches = deadly.stores.batches.clone();
    Ok(Stores { state: Arc::clone(&deadly) as _, locks: deadly as _, jobs, triggers, batches })
}

/// A store that ends the process.
struct Deadly {
    stores: Stores,
    fault: Fault,
    /// Of an embedded store.
    folder: Option<PathBuf>,
    writes: AtomicU32,
    /// How many writes were timed, and how long all of them took.
    timed: AtomicU32,
    took_us: AtomicU64,
}

impl Deadly {
    /// One counted write.
    async fn write<T>(&self, write: impl Future<Output = T>) -> T {
        let number = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if number != self.fault.write {
            return self.timed(write).await;
        }
        match self.fault.moment {
            Moment::Before => {}
            Moment::During { percent } => {
                die_in(self.usual() * percent / 100);
                drop(write.await);
                drop(writeln!(std::io::stderr(), "{TOO_LATE}"));
                // The other thread is about to.
                return std::future::pending().await;
            }
            Moment::Torn { bytes } => {
                tear(self.folder.as_deref(), bytes);
                // Fewer bytes than that have been enough: then it dies after its write.
                drop(write.await);
                drop(writeln!(std::io::stderr(), "{TOO_LATE}"));
            }
            Moment::After => drop(write.await),
        }
        die();
        // Nobody hears what has become of the write.
        std::future::pending().await
    }

    async fn timed<T>(&self, write: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let answer = write.await;
        self.timed.fetch_add(1, Ordering::SeqCst);
        self.took_us.fetch_add(begun.elapsed().as_micros() as u64, Ordering::SeqCst);
        answer
    }

    /// How long a write takes, as far as it is known here.
    fn usual(&self) -> Duration {
        let timed = u64::from(self.timed.load(Ordering::SeqCst));
        Duration::from_micros(self.took_us.load(Ordering::SeqCst) / timed.max(1))
    }

    /// Whether a take would find something.
    async fn is_ready(&self) -> bool {
        let filter = Filter::Tasks { plan: None, tenant: None, statuses: Statuses::ALL, interrupted: false };
        let free = |row: &Row| matches!(row, Row::Task(row) if row.task.owner.is_none() && row.task.readiness(&row.control).is_some());
        self.stores.state.list(&filter, None, PAGE_MAX).await.is_ok_and(|page| page.items.iter().any(free))
    }
}

/// As `kill -9` would: nothing is flushed, nothing is given back.
fn die() {
    if kill_process(getpid(), Signal::KILL).is_err() {
        std::process::abort();
    }
}

/// From a thread of its own, so that nothing the runtime does delays it.
fn die_in(delay: Duration) {
    std::thread::spawn(move || {
        // sleep: the point is to die while a write is on its way, and nobody tells where it is.
        std::thread::sleep(delay);
        die();
    });
}

/// Lets the journal grow by so many bytes: the kernel takes those of the next write, and ends the process (SIGXFSZ) when it
/// comes with the rest. What is on the disk then is the beginning of a record.
fn tear(folder: Option<&Path>, bytes: u32) {
    let Some(end) = folder.and_then(journal_end) else { return };
    let limit = Some(end + u64::from(bytes));
    if setrlimit(Resource::Fsize, Rlimit { current: limit, maximum: limit }).is_err() {
        std::process::abort();
    }
}

/// Where the next record goes: behind the last byte that is not zero, because the file is allocated beforehand.
fn journal_end(folder: &Path) -> Option<u64> {
    /// Longer than any record, so that zeros in one are not taken for the end.
    const PIECE: usize = 1 << 20;
    let mut journals: Vec<PathBuf> = walk(folder).into_iter().filter(|path| is_journal(path)).collect();
    journals.sort();
    let mut file = File::open(journals.pop()?).ok()?;
    let (mut end, mut at, mut piece) = (0, 0, vec![0; PIECE]);
    loop {
        let read = file.read(&mut piece).ok()?;
        match piece[..read].iter().rposition(|byte| *byte != 0) {
            Some(last) => end = at + last as u64 + 1,
            None => return Some(end),
        }
        at += read as u64;
    }
}

fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jnl")
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] }).collect()
}

#[async_trait]
impl State for Deadly {
    fn at_once(&self) -> Option<usize> {
        self.stores.state.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.stores.state.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        self.write(self.stores.state.commit(steps)).await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        match self.is_ready().await {
            true => self.write(self.stores.state.take(take)).await,
            false => self.stores.state.take(take).await,
        }
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.timed(self.stores.state.beat(instance, lease_ms)).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        self.stores.state.load(keys).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        self.stores.state.list(filter, after, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.stores.state.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.stores.state.purge(before, limit).await
    }
}

#[async_trait]
impl Locks for Deadly {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        self.write(self.stores.locks.acquire(want)).await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        self.stores.locks.renew(held, ttl_ms).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        self.write(self.stores.locks.release(held)).await
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        self.write(self.stores.locks.force(tenant, what, by, reason, op)).await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        self.stores.locks.load(tenants).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        self.stores.locks.list(after, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.stores.locks.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.stores.locks.purge(before, limit).await
    }
}

#[cfg(test)]
mod tests;
