//! Connections: a few, each lent to one caller at a time. A lost one is made again when it is next needed, with a growing
//! pause while the server is away.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error, Row};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio::time::error::Elapsed;
use windlass_core::port::PortError;

use crate::cell::Answers;
use crate::error::Failure;
use crate::target::{SILENT, Target};
use crate::text::{Script, Trip};

/// How often a transaction that met another is repeated.
const RACES_MAX: u32 = 30;
/// The pause after a failed connection attempt: doubled from this …
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this. Calls in between are answered at once.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A connection that nobody used for so long is asked whether it is still there: the server may have closed it.
const IDLE: Duration = Duration::from_secs(1);

/// Beyond so many bytes the server makes room for what it is sent and keeps it: then it gathers what it answers in there too, and
/// nothing comes before all of it is made.
const WIDE: usize = 16 * 1024;

/// A connection that nobody uses.
struct Idle {
    conn: Conn,
    since: Instant,
    /// It was sent something large once.
    wide: bool,
}

pub(crate) struct Pool {
    target: Target,
    room: Semaphore,
    idle: Mutex<Vec<Idle>>,
    away: tokio::sync::Mutex<Option<Away>>,
    answer: Duration,
}

/// The server was not there.
struct Away {
    until: Instant,
    pause: Duration,
    why: String,
}

impl Pool {
    pub(crate) fn new(target: Target, connections: usize, answer_ms: u64) -> Pool {
        let (room, answer) = (Semaphore::new(connections.max(1)), Duration::from_millis(answer_ms));
        Pool { target, room, idle: Mutex::default(), away: tokio::sync::Mutex::new(None), answer }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps a connection for whoever comes next. Those that nobody has needed for long end with a word, before the server ends
    /// them with an entry in its log.
    fn keep(&self, conn: Conn, wide: bool) {
        let (now, long) = (Instant::now(), SILENT / 2);
        let mut idle = self.idle();
        // The last that was given back is the first to be lent: those at the front were used longest ago.
        let unused = idle.partition_point(|idle| now.duration_since(idle.since) > long);
        let unused: Vec<_> = idle.drain(..unused).collect();
        idle.push(Idle { conn, since: now, wide });
        drop(idle);
        drop(unused);
    }

    /// A connection that nobody else uses until it is given back.
    pub(crate) async fn lend(&self) -> Result<Lent<'_>, PortError> {
        // A narrow one is left for whoever reads many rows.
        self.lend_some(|idle| match idle.iter().rposition(|idle| idle.wide) {
            Some(at) => Some(idle.remove(at)),
            None => idle.pop(),
        })
        .await
    }

    /// One over which rows come as they are made, as long as there may be one more.
    async fn lend_narrow(&self) -> Result<Lent<'_>, PortError> {
        self.lend_some(|idle| match idle.iter().rposition(|idle| !idle.wide) {
            Some(at) => Some(idle.remove(at)),
            None if idle.len() <= self.room.available_permits() => None,
            None => idle.pop(),
        })
        .await
    }

    /// A connection that nobody uses, picked, or a new one.
    async fn lend_some(&self, pick: impl Fn(&mut Vec<Idle>) -> Option<Idle>) -> Result<Lent<'_>, PortError> {
        let closed = |_| PortError::Unavailable("the store is closed".to_owned());
        let permit = self.room.acquire().await.map_err(closed)?;
        loop {
            let picked = pick(&mut self.idle());
            let Some(Idle { mut conn, since, wide }) = picked else { break };
            if since.elapsed() < IDLE || matches!(tokio::time::timeout(self.answer, conn.ping()).await, Ok(Ok(()))) {
                return Ok(Lent { pool: self, conn: Some(conn), wide, _permit: permit });
            }
        }
        let conn = self.connected().await?;
        Ok(Lent { pool: self, conn: Some(conn), wide: false, _permit: permit })
    }

    async fn connected(&self) -> Result<Conn, PortError> {
        let mut away = self.away.lock().await;
        if let Some(away) = away.as_ref().filter(|away| Instant::now() < away.until) {
            return Err(PortError::Unavailable(away.why.clone()));
        }
        match self.target.connect().await {
            Ok(conn) => {
                *away = None;
                Ok(conn)
            }
            Err(why) => {
                // What the others kept led to the same server.
                self.idle().clear();
                let pause = away.as_ref().map_or(PAUSE_MIN, |away| (away.pause * 2).min(PAUSE_MAX));
                *away = Some(Away { until: Instant::now() + pause, pause, why: why.clone() });
                Err(PortError::Unavailable(why))
            }
        }
    }

    /// Runs a script that reads, or whose statements stand for themselves and may be repeated.
    pub(crate) async fn run(&self, script: &Script) -> Result<Answers, PortError> {
        let mut races = 0;
        loop {
            let mut lent = self.lend().await?;
            let done = lent.run(script).await;
            if let Some(done) = lent.settle(done, &mut races).await {
                return done;
            }
        }
    }

    /// Asks one thing.
    pub(crate) async fn ask(&self, sql: &str) -> Result<Vec<Row>, PortError> {
        let mut script = Script::default();
        script.ask(sql);
        self.run(&script).await?.next()
    }

    /// Asks one thing whose rows are read as they come, while the server makes the next.
    pub(crate) async fn read<T: Send>(
        &self,
        sql: &str,
        read: impl Fn(&Row) -> Result<T, PortError> + Send + Sync,
    ) -> Result<Vec<T>, PortError> {
        let mut races = 0;
        loop {
            let mut lent = self.lend_narrow().await?;
            let done = lent.read(sql, &read).await;
            if let Some(done) = lent.settle(done, &mut races).await {
                return done;
            }
        }
    }

    /// Lets go of every connection that is not in use.
    pub(crate) fn close(&self) {
        self.idle().clear();
    }
}

/// A connection in use. One that is dropped without being settled is closed, which undoes what it has begun.
pub(crate) struct Lent<'p> {
    pool: &'p Pool,
    conn: Option<Conn>,
    wide: bool,
    _permit: SemaphorePermit<'p>,
}

impl Lent<'_> {
    /// Sends a script; the answers to what it asks come in order. The first failure is the answer, and nothing after it was done.
    pub(crate) async fn run(&mut self, script: &Script) -> Result<Answers, Failure> {
        let mut answers = Vec::new();
        for trip in script.trips() {
            self.wide |= trip.sql.len() > WIDE;
            let (conn, answer) = self.conn()?;
            let done = tokio::time::timeout(answer, travel(conn, trip, &mut answers)).await;
            self.answered(done)?;
        }
        Ok(Answers::of(answers))
    }

    async fn read<T: Send>(
        &mut self,
        sql: &str,
        read: &(impl Fn(&Row) -> Result<T, PortError> + Send + Sync),
    ) -> Result<Vec<T>, Failure> {
        self.wide |= sql.len() > WIDE;
        let (conn, answer) = self.conn()?;
        let rows = async { conn.query_iter(sql).await?.map(|row| read(&row)).await };
        let done = tokio::time::timeout(answer, rows).await;
        let rows = self.answered(done)?;
        Ok(rows.into_iter().collect::<Result<_, _>>()?)
    }

    fn conn(&mut self) -> Result<(&mut Conn, Duration), Failure> {
        match &mut self.conn {
            Some(conn) => Ok((conn, self.pool.answer)),
            None => Err(PortError::Unavailable("the connection was lost".to_owned()).into()),
        }
    }

    fn answered<T>(&mut self, done: Result<Result<T, Error>, Elapsed>) -> Result<T, Failure> {
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => {
                if error.is_fatal() {
                    self.conn = None;
                }
                Err(error.into())
            }
            // No answer for too long is no answer, and the connection is not used again.
            Err(_) => {
                self.conn = None;
                let why = format!("MySQL has not answered for {} ms", self.pool.answer.as_millis());
                Err(PortError::Unavailable(why).into())
            }
        }
    }

    /// Ends the script with a commit and sends it.
    pub(crate) async fn commit(&mut self, mut script: Script) -> Result<Answers, Failure> {
        script.say("COMMIT");
        self.run(&script).await
    }

    /// Gives the connection back, undone what it had begun if that failed. `None` if it met another and is to be repeated from
    /// the beginning.
    pub(crate) async fn settle<T>(mut self, done: Result<T, Failure>, races: &mut u32) -> Option<Result<T, PortError>> {
        if done.is_err() {
            let mut undo = Script::default();
            undo.say("ROLLBACK");
            if self.run(&undo).await.is_err() {
                self.conn = None;
            }
        }
        if let Some(conn) = self.conn.take() {
            self.pool.keep(conn, self.wide);
        }
        match done {
            Err(Failure::Again(why)) if *races < RACES_MAX => {
                tracing::debug!(%why, "a transaction is repeated");
                *races += 1;
                drop(self);
                // Those who met would meet again at the same time.
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..1_000 * u64::from(*races)))).await;
                None
            }
            done => Some(done.map_err(PortError::from)),
        }
    }
}

async fn travel(conn: &mut Conn, trip: &Trip, answers: &mut Vec<Vec<Row>>) -> Result<(), Error> {
    let mut sets = conn.query_iter(trip.sql.as_str()).await?;
    for asks in &trip.asks {
        let rows: Vec<Row> = sets.collect().await?;
        if *asks {
            answers.push(rows);
        }
    }
    Ok(())
}
