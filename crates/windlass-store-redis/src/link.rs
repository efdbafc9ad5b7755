//! The connection that carries every call: one, shared by all callers at once, so that what they ask at the same time
//! goes out together. A lost one is made again when it is next needed, with a growing pause while the server is away.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use windlass_core::port::PortError;

use crate::error::{breaks, is_unknown_script, port, said};
use crate::script::Call;

/// The pause after a failed connection attempt: doubled from this …
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this. Calls in between are answered at once.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Calls that wait to be written.
const WAITING: usize = 4_096;

pub(crate) struct Link {
    client: Client,
    answer: Duration,
    live: RwLock<Option<Live>>,
    away: Mutex<Option<Away>>,
}

/// A connection, and which one it is.
#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    number: Arc<()>,
}

/// The server was not there.
struct Away {
    until: Instant,
    pause: Duration,
    why: String,
}

impl Link {
    pub(crate) fn new(client: Client, answer_ms: u64) -> Link {
        let answer = Duration::from_millis(answer_ms);
        Link { client, answer, live: RwLock::new(None), away: Mutex::new(None) }
    }

    /// Calls a script. One that the server does not know has done nothing: it is made known, and called again.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, PortError> {
        let live = self.connected().await?;
        let done = match self.send(&live, call.cmd()).await {
            Err(Failed::Said(error)) if is_unknown_script(&error) => match self.send(&live, &call.load()).await {
                Ok(_digest) => self.send(&live, call.cmd()).await,
                Err(failed) => Err(failed),
            },
            done => done,
        };
        done.map_err(|failed| self.failed(&live, failed))
    }

    /// Sends one command.
    pub(crate) async fn ask(&self, cmd: &Cmd) -> Result<Value, PortError> {
        let live = self.connected().await?;
        self.send(&live, cmd).await.map_err(|failed| self.failed(&live, failed))
    }

    /// Reads in one go, answered in order; nothing comes between two of them if the pipeline is atomic.
    pub(crate) async fn read(&self, pipe: &Pipeline, count: usize) -> Result<Vec<Value>, PortError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let live = self.connected().await?;
        let mut connection = live.connection.clone();
        let atomic = pipe.is_transaction();
        let (offset, wanted) = if atomic { (count + 1, 1) } else { (0, count) };
        let sent = match timeout(self.answer, connection.req_packed_commands(pipe, offset, wanted)).await {
            Ok(done) => done.map_err(Failed::Said),
            Err(_) => Err(Failed::Silent),
        };
        let mut answers = sent.map_err(|failed| self.failed(&live, failed))?;
        if atomic {
            answers = match answers.pop().map(Value::extract_error) {
                Some(Ok(Value::Array(all))) => all,
                Some(Err(error)) => return Err(self.failed(&live, Failed::Said(error))),
                other => return Err(PortError::Unavailable(format!("the reads were not taken: {other:?}"))),
            };
        }
        answers
            .into_iter()
            .map(|answer| answer.extract_error().map_err(|error| self.failed(&live, Failed::Said(error))))
            .collect()
    }

    /// What connections are made of, for the one that listens.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Lets go of the connection; what is in flight ends without an answer.
    pub(crate) fn close(&self) {
        *self.live.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    async fn send(&self, live: &Live, cmd: &Cmd) -> Result<Value, Failed> {
        let mut connection = live.connection.clone();
        match timeout(self.answer, connection.req_packed_command(cmd)).await {
            Ok(done) => done.and_then(Value::extract_error).map_err(Failed::Said),
            Err(_) => Err(Failed::Silent),
        }
    }

    /// No answer for too long is no answer, and the connection is not used again.
    fn failed(&self, live: &Live, failed: Failed) -> PortError {
        match failed {
            Failed::Silent => {
                self.drop(live);
                PortError::Unavailable(format!("Redis has not answered for {} ms", self.answer.as_millis()))
            }
            Failed::Said(error) => {
                if breaks(&error) {
                    self.drop(live);
                }
                port(&error)
            }
        }
    }

    fn drop(&self, dead: &Live) {
        let mut live = self.live.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(&live.number, &dead.number)) {
            *live = None;
        }
    }

    fn live(&self) -> Option<Live> {
        self.live.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    async fn connected(&self) -> Result<Live, PortError> {
        if let Some(live) = self.live() {
            return Ok(live);
        }
        let mut away = self.away.lock().await;
        if let Some(live) = self.live() {
            return Ok(live);
        }
        if let Some(away) = away.as_ref().filter(|away| Instant::now() < away.until) {
            return Err(PortError::Unavailable(away.why.clone()));
        }
        match self.connect().await {
            Ok(connection) => {
                *away = None;
                let live = Live { connection, number: Arc::new(()) };
                *self.live.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                let why = said(&error);
                let pause = away.as_ref().map_or(PAUSE_MIN, |away| (away.pause * 2).min(PAUSE_MAX));
                *away = Some(Away { until: Instant::now() + pause, pause, why: why.clone() });
                Err(PortError::Unavailable(why))
            }
        }
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(WAITING);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}

enum Failed {
    /// Nothing came back in time.
    Silent,
    /// The server or the driver said no.
    Said(RedisError),
}
