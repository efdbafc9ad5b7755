//! The connection that carries every call: one, shared by all callers at once, so that what they ask at the same time
//! goes out together. A lost one is made again when it is next needed, with a growing pause while the server is away.

use std::io;
use std::sync::RwLock;
use std::time::Duration;

use redis::{Client, Cmd, Pipeline, RedisError, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use windlass_core::port::PortError;

use crate::connect::Target;
use crate::error::{breaks, corrupt, is_unknown_script, port, said};
use crate::script::Call;
use crate::wire::{Answers, Texts, Wire};

/// The pause after a failed connection attempt: doubled from this …
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// … up to this. Calls in between are answered at once.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

pub(crate) struct Link {
    target: Target,
    answer: Duration,
    live: RwLock<Option<Wire>>,
    away: Mutex<Option<Away>>,
}

/// The server was not there.
struct Away {
    until: Instant,
    pause: Duration,
    why: String,
}

impl Link {
    pub(crate) fn new(target: Target, answer_ms: u64) -> Link {
        let answer = Duration::from_millis(answer_ms);
        Link { target, answer, live: RwLock::new(None), away: Mutex::new(None) }
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
        // Begun, queued each, and ended; the last has all the answers.
        let (atomic, asked) = (pipe.is_transaction(), if pipe.is_transaction() { count + 2 } else { count });
        let asked = self.answered(live.ask(pipe.get_packed_pipeline(), asked)).await;
        let values = asked.and_then(|answers| answers.values().map_err(Failed::Said));
        let mut answers = values.map_err(|failed| self.failed(&live, failed))?;
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

    /// Reads so many lists of texts in one go, and hands each over as it came: many of them are taken apart twice as fast.
    pub(crate) async fn lists(
        &self,
        pipe: &Pipeline,
        count: usize,
        mut one: impl FnMut(Texts<'_, '_>) -> Result<(), PortError>,
    ) -> Result<(), PortError> {
        let live = self.connected().await?;
        let asked = self.answered(live.ask(pipe.get_packed_pipeline(), count)).await;
        let answers = asked.map_err(|failed| self.failed(&live, failed))?;
        let mut part = answers.part();
        (0..count).try_for_each(|_| match part.texts() {
            Ok(Ok(texts)) => one(texts),
            Ok(Err(value)) => Err(match value.extract_error() {
                Err(error) => self.failed(&live, Failed::Said(error)),
                Ok(other) => corrupt("an answer", format!("{other:?} is no list")),
            }),
            Err(error) => Err(self.failed(&live, Failed::Said(error.into()))),
        })
    }

    /// A connection of somebody's own, who makes another when it is lost.
    pub(crate) async fn another(&self) -> Result<Wire, PortError> {
        self.connect().await.map_err(|error| PortError::Unavailable(said(&error)))
    }

    /// Asks on such a connection.
    pub(crate) async fn on(&self, wire: &Wire, bytes: Vec<u8>, count: usize) -> Result<Answers, PortError> {
        self.answered(wire.ask(bytes, count)).await.map_err(|failed| self.failed(wire, failed))
    }

    /// What connections are made of, for the one that listens.
    pub(crate) fn client(&self) -> &Client {
        self.target.client()
    }

    /// Lets go of the connection; what is in flight ends without an answer.
    pub(crate) fn close(&self) {
        *self.live.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    async fn send(&self, live: &Wire, cmd: &Cmd) -> Result<Value, Failed> {
        let answers = self.answered(live.ask(cmd.get_packed_command(), 1)).await?;
        let answer = answers.values().map_err(Failed::Said)?.pop();
        answer.unwrap_or(Value::Nil).extract_error().map_err(Failed::Said)
    }

    async fn answered(&self, answers: impl Future<Output = Result<Answers, RedisError>>) -> Result<Answers, Failed> {
        timeout(self.answer, answers).await.map_err(|_| Failed::Silent)?.map_err(Failed::Said)
    }

    /// No answer for too long is no answer, and the connection is not used again.
    fn failed(&self, live: &Wire, failed: Failed) -> PortError {
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

    fn drop(&self, dead: &Wire) {
        let mut live = self.live.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if live.as_ref().is_some_and(|live| live.is(dead)) {
            *live = None;
        }
    }

    fn live(&self) -> Option<Wire> {
        self.live.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    async fn connected(&self) -> Result<Wire, PortError> {
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
            Ok(live) => {
                *away = None;
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

    async fn connect(&self) -> Result<Wire, RedisError> {
        let late = || RedisError::from(io::Error::from(io::ErrorKind::TimedOut));
        timeout(CONNECT, self.target.connect()).await.unwrap_or_else(|_| Err(late()))
    }
}

enum Failed {
    /// Nothing came back in time.
    Silent,
    /// The server or the driver said no.
    Said(RedisError),
}
