//! The store for many instances on MySQL and MariaDB: state and locks. What concurrent callers want is one
//! transaction, of two trips: rows are locked and read, judged here by the core's rules, and written with the commit (`line`). Leases are judged by
//! the server's clock. Tables and indexes are made by numbered migrations (`migrate`); README.md says how to read them.

mod cell;
mod clock;
mod error;
mod examine;
mod fence;
mod line;
mod lock;
mod migrate;
mod pool;
mod state;
mod target;
mod text;
mod wake;

pub use error::OpenError;
pub use examine::{Examined, examine};
pub use migrate::schema;

use std::sync::Arc;

use tokio::task::AbortHandle;
use windlass_core::port::PortError;

use clock::Clock;
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
    locks: Line<lock::Wish>,
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
        let inner = Arc::new(Inner {
            pool: Pool::new(target, options.connections, options.answer_ms),
            wake: Arc::default(),
            clock: Clock::ahead(options.ahead_ms),
            steps: Line::default(),
            locks: Line::default(),
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
