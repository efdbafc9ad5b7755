//! Connections: a few, each shared by many statements at once or lent to one transaction alone. A
//! lost one is made again when it is next needed, with a growing pause while the server is away.

mod connection;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::Instant;
use tokio_postgres::Row;
use windlass_core::port::PortError;

use crate::cell::Params;
use crate::error::Failure;
use crate::tls::Target;

pub(crate) use connection::{Connection, connect, listen};

/// How often a statement or a transaction that met another is repeated.
const RACES_MAX: usize = 20;
/// The pause after a failed connection attempt: doubled from this …
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this. Calls in between are answered at once.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A statement and what goes with it.
pub(crate) struct Call {
    pub(crate) sql: &'static str,
    pub(crate) params: Params,
}

impl Call {
    pub(crate) fn new(sql: &'static str, params: Params) -> Call {
        Call { sql, params }
    }

    pub(crate) fn bare(sql: &'static str) -> Call {
        Call { sql, params: Vec::new() }
    }
}

pub(crate) struct Pool {
    target: Target,
    slots: Vec<Slot>,
    turn: AtomicUsize,
    away: Mutex<Option<Away>>,
    answer: Duration,
}

#[derive(Default)]
struct Slot {
    /// Read: statements that stand for themselves. Written: a transaction.
    gate: Arc<RwLock<()>>,
    connection: Mutex<Option<Arc<Connection>>>,
    /// Statements under way.
    busy: Arc<AtomicUsize>,
}

/// A statement under way.
struct Busy {
    _gate: OwnedRwLockReadGuard<()>,
    count: Arc<AtomicUsize>,
}

impl Busy {
    fn on(slot: &Slot, gate: OwnedRwLockReadGuard<()>) -> Busy {
        slot.busy.fetch_add(1, Ordering::Relaxed);
        Busy { _gate: gate, count: Arc::clone(&slot.busy) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The server was not there.
struct Away {
    until: Instant,
    pause: Duration,
    why: String,
}

impl Pool {
    pub(crate) fn new(target: Target, connections: usize, answer_ms: u64) -> Pool {
        let slots = (0..connections.max(1)).map(|_| Slot::default()).collect();
        let answer = Duration::from_millis(answer_ms);
        Pool { target, slots, turn: AtomicUsize::new(0), away: Mutex::new(None), answer }
    }

    /// Runs one statement, which is a transaction of its own, beside others on the same connection.
    pub(crate) async fn query(&self, call: &Call) -> Result<Vec<Row>, PortError> {
        self.read(call, Ok).await
    }

    /// Likewise; its rows are read as they come.
    pub(crate) async fn read<T>(
        &self,
        call: &Call,
        read: impl Fn(Row) -> Result<T, PortError>,
    ) -> Result<Vec<T>, PortError> {
        let mut races = 0;
        loop {
            let (_gate, slot) = self.shared().await;
            let connection = self.connected(slot).await?;
            match self.within(&connection, connection.query(call, &read)).await {
                Err(Failure::Again(why)) if races < RACES_MAX => {
                    tracing::debug!(%why, "a statement is repeated");
                    races += 1;
                }
                done => return Ok(done?),
            }
        }
    }

    /// A connection for one transaction, which nobody else uses until it is settled.
    pub(crate) async fn begin(&self) -> Result<Tx<'_>, PortError> {
        let (gate, slot) = self.alone().await;
        let connection = self.connected(slot).await?;
        Ok(Tx { pool: self, connection, _gate: gate })
    }

    /// The connection with the least to do, the same again if it has nothing: the server's process behind it is warm.
    async fn shared(&self) -> (Busy, &Slot) {
        let mut slots: Vec<(usize, &Slot)> =
            self.slots.iter().map(|slot| (slot.busy.load(Ordering::Relaxed), slot)).collect();
        slots.sort_by_key(|(busy, _)| *busy);
        for (_, slot) in slots {
            if let Ok(gate) = Arc::clone(&slot.gate).try_read_owned() {
                return (Busy::on(slot, gate), slot);
            }
        }
        let slot = &self.slots[self.turn.fetch_add(1, Ordering::Relaxed) % self.slots.len()];
        let gate = Arc::clone(&slot.gate).read_owned().await;
        (Busy::on(slot, gate), slot)
    }

    async fn alone(&self) -> (OwnedRwLockWriteGuard<()>, &Slot) {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for i in 0..self.slots.len() {
            let slot = &self.slots[(first + i) % self.slots.len()];
            if let Ok(gate) = Arc::clone(&slot.gate).try_write_owned() {
                return (gate, slot);
            }
        }
        let slot = &self.slots[first % self.slots.len()];
        (Arc::clone(&slot.gate).write_owned().await, slot)
    }

    async fn connected(&self, slot: &Slot) -> Result<Arc<Connection>, PortError> {
        let mut held = slot.connection.lock().await;
        if let Some(connection) = held.as_ref().filter(|connection| connection.is_sound()) {
            return Ok(Arc::clone(connection));
        }
        *held = None;
        let mut away = self.away.lock().await;
        if let Some(away) = away.as_ref().filter(|away| Instant::now() < away.until) {
            return Err(PortError::Unavailable(away.why.clone()));
        }
        match connect(&self.target).await {
            Ok(connection) => {
                *away = None;
                let connection = Arc::new(connection);
                *held = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(why) => {
                let pause = away.as_ref().map_or(PAUSE_MIN, |away| (away.pause * 2).min(PAUSE_MAX));
                *away = Some(Away { until: Instant::now() + pause, pause, why: why.clone() });
                Err(PortError::Unavailable(why))
            }
        }
    }

    /// No answer for too long is no answer, and the connection is not used again.
    async fn within<T>(
        &self,
        connection: &Connection,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        match tokio::time::timeout(self.answer, work).await {
            Ok(done) => done,
            Err(_) => {
                connection.spoil();
                let why = format!("PostgreSQL has not answered for {} ms", self.answer.as_millis());
                Err(PortError::Unavailable(why).into())
            }
        }
    }

    /// Lets go of every connection; what is in flight ends without an answer.
    pub(crate) async fn close(&self) {
        for slot in &self.slots {
            if let Some(connection) = slot.connection.lock().await.take() {
                connection.spoil();
            }
        }
    }
}

/// A transaction on a connection of its own: begun with what it reads, committed with what it writes.
pub(crate) struct Tx<'p> {
    pool: &'p Pool,
    connection: Arc<Connection>,
    _gate: OwnedRwLockWriteGuard<()>,
}

impl Tx<'_> {
    /// Begins and sends `calls` in one go; their answers come in order.
    pub(crate) async fn open(&self, begin: &'static str, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, Failure> {
        let mut all = vec![Call::bare(begin)];
        all.extend(calls);
        let mut rows = self.pool.within(&self.connection, self.connection.pipeline(&all)).await?;
        rows.remove(0);
        Ok(rows)
    }

    /// Sends `calls` in one go; their answers come in order.
    pub(crate) async fn query(&self, calls: Vec<Call>) -> Result<Vec<Vec<Row>>, Failure> {
        self.pool.within(&self.connection, self.connection.pipeline(&calls)).await
    }

    /// Sends `calls` and the commit in one go.
    pub(crate) async fn commit(&self, mut calls: Vec<Call>) -> Result<Vec<Vec<Row>>, Failure> {
        calls.push(Call::bare("COMMIT"));
        self.pool.within(&self.connection, self.connection.pipeline(&calls)).await
    }

    /// Ends it: undone if it failed. `None` if it met another and is to be repeated from the beginning.
    pub(crate) async fn settle<T>(self, done: Result<T, Failure>, races: &mut usize) -> Option<Result<T, PortError>> {
        let failure = match done {
            Ok(done) => return Some(Ok(done)),
            Err(failure) => failure,
        };
        let undo = [Call::bare("ROLLBACK")];
        if self.pool.within(&self.connection, self.connection.pipeline(&undo)).await.is_err() {
            self.connection.spoil();
        }
        *races += 1;
        match failure {
            Failure::Again(why) if *races <= RACES_MAX => {
                tracing::debug!(%why, "a transaction is repeated");
                None
            }
            failure => Some(Err(failure.into())),
        }
    }
}
