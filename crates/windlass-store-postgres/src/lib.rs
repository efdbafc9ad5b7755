//! The store for many instances: state, locks and jobs on PostgreSQL. A boundary commit is one statement, and
//! so one round trip (`state`); what people do is judged here by core's rules on rows that were locked
//! first. Leases are judged by the server's clock. Tables, indexes and functions are made by numbered
//! migrations (`migrate`); README.md says how to read them with psql.

mod cell;
mod error;
mod examine;
mod job;
mod line;
mod lock;
mod migrate;
mod pool;
mod sql;
mod state;
mod tls;
mod trigger;
mod wake;

pub use error::OpenError;
pub use examine::{Examined, examine};
pub use migrate::schema;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use windlass_core::port::{Batches, PortError};
use windlass_core::time::Ms;

use job::feed::Feed;
use job::ring::Ring;
use job::{Submit, Turns};
use line::Line;
use pool::Pool;
use state::group::{Boundary, Load, PlanStep};
use tls::Target;
use wake::Wake;

/// How to open the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How far this process's reading of the server's clock runs ahead: 0 outside tests.
    pub ahead_ms: u64,
    /// Whether missing migrations are applied.
    pub migrate: bool,
    /// Connections for work, made when they are needed. One more listens for wake-ups.
    pub connections: usize,
    /// How long a call may go unanswered before it counts as lost.
    pub answer_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { ahead_ms: 0, migrate: true, connections: 4, answer_ms: 30_000 }
    }
}

/// A handle to an open store. Clones share its connections.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pool: Pool,
    wake: Wake,
    boundaries: Line<Boundary>,
    plan_steps: Line<PlanStep>,
    loads: Line<Load>,
    /// What was written by one statement.
    batches: Arc<Batches>,
    turns: Line<Turns>,
    submits: Line<Submit>,
    ring: Ring,
    feed: Arc<Feed>,
    ahead_ms: i64,
    teller: std::sync::OnceLock<AbortHandle>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(teller) = self.teller.get() {
            teller.abort();
        }
    }
}

impl Postgres {
    /// Opens the store at `url` (`postgres://…`), in the first schema of its search path. Needs a tokio
    /// runtime, on which it keeps running.
    pub async fn open(url: &str, options: &Options) -> Result<Postgres, OpenError> {
        let target = target(url)?;
        migrate::migrate(&target, options.migrate).await?;
        let pool = Pool::new(target.clone(), options.connections, options.answer_ms);
        let (channel, begin) = channel(&target).await?;
        let ahead_ms = cell::signed(options.ahead_ms.min(Ms::MAX.get()));
        let feed = Arc::new(Feed::new(begin));
        let wake = Wake::new(channel, target, Arc::clone(&feed));
        let inner = Arc::new(Inner {
            pool,
            wake,
            boundaries: Line::default(),
            plan_steps: Line::default(),
            loads: Line::default(),
            batches: Arc::default(),
            turns: Line::default(),
            submits: Line::default(),
            ring: Ring::default(),
            feed,
            ahead_ms,
            teller: std::sync::OnceLock::new(),
        });
        let teller = tokio::spawn(wake::teller(inner.wake.to_tell(), Arc::downgrade(&inner)));
        let _first = inner.teller.set(teller.abort_handle());
        Ok(Postgres { inner })
    }

    /// How many callers' work each statement made durable.
    #[must_use]
    pub fn batches(&self) -> Arc<Batches> {
        Arc::clone(&self.inner.batches)
    }

    /// Lets go of every connection. Calls in flight end without an answer; later ones connect again.
    pub async fn close(&self) {
        self.inner.wake.close().await;
        self.inner.pool.close().await;
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

fn target(url: &str) -> Result<Target, OpenError> {
    let mut target = Target::of(url)?;
    let config = &mut target.config;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(5));
    }
    if config.get_application_name().is_none() {
        config.application_name("windlass");
    }
    Ok(target)
}

/// Where this schema's wake-ups are heard: notifications are for a whole database. And the time, in µs, by which what this
/// process counts is told from what others did.
async fn channel(target: &Target) -> Result<(String, u64), OpenError> {
    let connection = pool::connect(target).await.map_err(OpenError::Refused)?;
    let ask = "SELECT 'windlass:' || current_schema(), trunc(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let row = connection.client().query_one(ask, &[]).await;
    row.map(|row| (row.get(0), row.get::<_, i64>(1).cast_unsigned()))
        .map_err(|error| OpenError::Refused(error::said(&error)))
}
