//! The store for many instances on MySQL and MariaDB: state, locks, jobs and triggers. What concurrent callers want is one
//! transaction, of two trips: rows are locked and read, judged here by the core's rules, and written with the commit (`line`). Leases are judged by
//! the server's clock. Tables and indexes are made by numbered migrations (`migrate`); README.md says how to read them.

mod cell;
mod clock;
mod error;
mod examine;
mod fence;
mod job;
mod line;
mod lock;
mod migrate;
mod pool;
mod state;
mod target;
mod text;
mod trigger;
mod wake;

pub use error::OpenError;
pub use examine::{Examined, examine};
pub use migrate::schema;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::task::AbortHandle;
use windlass_core::id::QueueName;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use clock::Clock;
use job::claim::Ring;
use job::feed::Feed;
use line::Line;
use pool::Pool;
use target::Target;
use wake::Wake;

/// How to open the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How far this process's reading of the server's clock runs ahead: 0 outside tests.
    pub ahead_ms: u64,
    /// Whether missing migrations are applied.
    pub migrate: bool,
    /// Connections, made when they are needed.
    pub connections: usize,
    /// How long a call may go unanswered before it counts as lost.
    pub answer_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { ahead_ms: 0, migrate: true, connections: 8, answer_ms: 30_000 }
    }
}

/// A handle to an open store. Clones share its connections.
#[derive(Clone)]
pub struct MySql {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pool: Pool,
    wake: Arc<Wake>,
    clock: Clock,
    steps: Line<state::commit::Steps>,
    onward: Line<state::commit::Onward>,
    locks: Line<lock::Wish>,
    turns: Line<job::Turns>,
    submits: Line<job::Submit>,
    ring: Ring,
    feed: Feed,
    known: state::Known,
    roomy: state::Roomy,
    /// Until when it was last said that a queue is asked for.
    askers: Mutex<HashMap<QueueName, Ms>>,
    looker: std::sync::OnceLock<AbortHandle>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(looker) = self.looker.get() {
            looker.abort();
        }
    }
}

impl MySql {
    /// Opens the store at `url` (`mysql://…/DATABASE`). Needs a tokio runtime, on which it keeps running.
    pub async fn open(url: &str, options: &Options) -> Result<MySql, OpenError> {
        let target = Target::of(url)?;
        migrate::migrate(&target, options.migrate).await?;
        let pool = Pool::new(target, options.connections, options.answer_ms);
        let feed = Feed::new(begin(&pool).await.map_err(|error| OpenError::Refused(error.to_string()))?);
        let inner = Arc::new(Inner {
            pool,
            wake: Arc::default(),
            clock: Clock::ahead(options.ahead_ms),
            steps: Line::default(),
            onward: Line::default(),
            locks: Line::default(),
            turns: Line::default(),
            submits: Line::default(),
            ring: Ring::default(),
            feed,
            known: state::Known::default(),
            roomy: state::Roomy::default(),
            askers: Mutex::default(),
            looker: std::sync::OnceLock::new(),
        });
        let looker = tokio::spawn(wake::looker(Arc::clone(&inner.wake), Arc::downgrade(&inner)));
        let _first = inner.looker.set(looker.abort_handle());
        Ok(MySql { inner })
    }

    /// Lets go of every connection that is not in use. Later calls connect again.
    pub fn close(&self) {
        self.inner.pool.close();
    }

    /// Runs `work` in a task of its own, which goes on when the caller does not.
    async fn run<T, F, W>(&self, work: W) -> Result<T, PortError>
    where
        W: FnOnce(Arc<Inner>) -> F,
        F: Future<Output = Result<T, PortError>> + Send + 'static,
        T: Send + 'static,
    {
        let task = tokio::spawn(work(Arc::clone(&self.inner)));
        task.await.unwrap_or_else(|error| Err(PortError::Unavailable(format!("the call was ended: {error}"))))
    }
}

/// The time, in µs, by which what this process counts is told from what others did.
async fn begin(pool: &Pool) -> Result<u64, PortError> {
    let rows = pool.ask("SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED)").await?;
    cell::one(&rows)?.parse()
}
