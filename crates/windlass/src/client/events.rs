//! Events as they happen (server-sent events).

use reqwest::Response;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::json::Json;

use super::send::Call;
use super::{Client, Error};

/// What of a line is kept, at most: no event is longer.
const LINE_BYTES_MAX: usize = 4 << 20;

/// A stream of events. It goes on by itself where it was cut off.
pub struct Events {
    client: Client,
    plan: Option<PlanId>,
    task: Option<TaskId>,
    response: Option<Response>,
    rest: Vec<u8>,
    last: Option<String>,
}

/// One thing that was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// What sort: the fact's name, or `reset` when some events are missing.
    pub event: String,
    /// What it says.
    pub data: Json,
}

impl Client {
    /// Hears what happens to a plan or a task, or to everything from now on.
    #[must_use]
    pub fn events(&self, plan: Option<&PlanId>, task: Option<&TaskId>) -> Events {
        let (plan, task) = (plan.cloned(), task.cloned());
        Events { client: self.clone(), plan, task, response: None, rest: Vec::new(), last: None }
    }
}

impl Events {
    /// The next one. An error means that the stream ended; asking again connects again, after the last one heard. The
    /// caller decides how often.
    pub async fn next(&mut self) -> Result<Heard, Error> {
        loop {
            if let Some(heard) = self.taken() {
                return Ok(heard);
            }
            let mut response = match self.response.take() {
                Some(response) => response,
                None => self.connect().await?,
            };
            let chunk = response.chunk().await.map_err(|error| self.client.unreachable(&error))?;
            match chunk {
                Some(bytes) if self.rest.len() + bytes.len() <= LINE_BYTES_MAX => {
                    self.rest.extend_from_slice(&bytes);
                    self.response = Some(response);
                }
                _ => {
                    self.rest.clear();
                    let why = "the stream of events ended".to_owned();
                    return Err(Error::Unreachable { server: self.client.server().into(), why });
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Response, Error> {
        self.rest.clear();
        let call = Call::get("v1/events").with("plan", self.plan.as_ref()).with("task", self.task.as_ref());
        self.client.stream(&call, self.last.as_deref()).await
    }

    /// The first whole event of what has come.
    fn taken(&mut self) -> Option<Heard> {
        loop {
            let end = self.rest.windows(2).position(|two| two == b"\n\n")?;
            let block: Vec<u8> = self.rest.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block).into_owned();
            let (mut event, mut data) = ("message".to_owned(), String::new());
            for line in block.lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "event" => event = value.to_owned(),
                    "data" => data.push_str(value),
                    "id" => self.last = Some(value.to_owned()),
                    // Comments keep the connection alive.
                    _ => {}
                }
            }
            if event != "message" || !data.is_empty() {
                let data = Json::parse(&data).unwrap_or_else(|_| Json::null());
                return Some(Heard { event, data });
            }
        }
    }
}
