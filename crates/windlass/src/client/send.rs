//! One call: its tries, its key, its answer.

use std::error::Error as _;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode};
use secrecy::ExposeSecret as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::json::Json;

use super::{Answer, Ask, Client, Error, Page, Problem};

/// The first pause between two tries; each is twice the one before.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest pause, also when the server asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A server lets nobody wait longer in one call.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A call as it is tried.
pub(super) struct Call {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<(&'static str, String)>,
    key: Option<String>,
    wait: Duration,
}

impl Call {
    pub(super) fn get(path: impl Into<String>) -> Call {
        let (query, wait) = (Vec::new(), Duration::ZERO);
        Call { method: Method::GET, path: path.into(), query, body: None, key: None, wait }
    }

    /// A write. Its key is made here, once for all its tries, unless the caller has one.
    pub(super) fn write(method: Method, path: impl Into<String>, key: Option<&String>) -> Call {
        let key = key.cloned().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        Call { method, key: Some(key), ..Call::get(path) }
    }

    /// One that has a body and takes no key.
    pub(super) fn bare(method: Method, path: impl Into<String>) -> Call {
        Call { method, ..Call::get(path) }
    }

    pub(super) fn with(mut self, name: &'static str, value: Option<impl ToString>) -> Call {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(super) fn flag(self, name: &'static str, yes: bool) -> Call {
        self.with(name, yes.then_some("true"))
    }

    /// The server may take this long before it answers.
    pub(super) fn waiting(mut self, wait: Duration) -> Call {
        self.wait = wait.min(WAIT_MAX);
        let ms = self.wait.as_millis();
        self.with("wait", (ms > 0).then(|| format!("{ms}ms")))
    }

    /// The server waits this long because of what the body says.
    pub(super) fn patient(self, wait: Duration) -> Call {
        Call { wait: wait.min(WAIT_MAX), ..self }
    }

    pub(super) fn text(self, kind: &'static str, text: String) -> Call {
        Call { body: Some((kind, text)), ..self }
    }

    pub(super) fn json<T: Serialize + ?Sized>(self, body: &T) -> Result<Call, Error> {
        let text = serde_json::to_string(body).map_err(|error| Error::Setup(format!("no JSON: {error}")))?;
        Ok(self.text("application/json", text))
    }
}

/// Why a try has no answer, and whether another may.
enum Missed {
    /// There was no answer, or not now; after this pause, if the server named one.
    Again(Error, Option<Duration>),
    Never(Error),
}

impl Client {
    pub(super) async fn call<T: DeserializeOwned>(&self, call: Call) -> Result<Answer<T>, Error> {
        let text = self.tried(&call).await?;
        self.read(if text.is_empty() { "null" } else { &text })
    }

    /// A page of a list.
    pub(super) async fn page<T: DeserializeOwned>(&self, call: Call) -> Result<Page<T>, Error> {
        #[derive(serde::Deserialize)]
        struct Raw {
            items: Vec<Json>,
            #[serde(default)]
            next: Option<String>,
            #[serde(default)]
            more: bool,
        }
        let raw: Answer<Raw> = self.call(call).await?;
        let items = raw.view.items.iter().map(|json| self.read(json.as_str())).collect::<Result<_, _>>()?;
        Ok(Page { items, more: raw.view.more || raw.view.next.is_some(), next: raw.view.next })
    }

    /// An operation: who and why are in its body.
    pub(super) async fn operation<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        ask: &Ask,
        more: impl Serialize,
    ) -> Result<Answer<T>, Error> {
        #[derive(Serialize)]
        struct Body<A, M> {
            #[serde(flatten)]
            ask: A,
            #[serde(flatten)]
            more: M,
        }
        let call = Call::write(method, path, ask.key.as_ref());
        self.call(call.json(&Body { ask: self.signed(ask), more })?).await
    }

    /// The ask, in the client's name unless it has its own.
    pub(super) fn signed(&self, ask: &Ask) -> Ask {
        Ask { by: ask.by.clone().or_else(|| self.0.by.clone()), ..ask.clone() }
    }

    async fn tried(&self, call: &Call) -> Result<String, Error> {
        let mut pause = PAUSE;
        for _ in 1..self.0.tries {
            match self.once(call).await {
                Ok(text) => return Ok(text),
                Err(Missed::Never(error)) => return Err(error),
                Err(Missed::Again(_, asked)) => tokio::time::sleep(asked.unwrap_or(pause).min(PAUSE_MAX)).await,
            }
            pause = pause.saturating_mul(4);
        }
        match self.once(call).await {
            Ok(text) => Ok(text),
            Err(Missed::Never(error) | Missed::Again(error, _)) => Err(error),
        }
    }

    async fn once(&self, call: &Call) -> Result<String, Missed> {
        let response = self.request(call).map_err(Missed::Never)?.send().await;
        let response = response.map_err(|error| Missed::Again(self.unreachable(&error), None))?;
        let status = response.status();
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let text = response.text().await.map_err(|error| Missed::Again(self.unreachable(&error), None))?;
        if status.is_success() {
            return Ok(text);
        }
        let error = Error::Problem(Box::new(problem(status, &text)));
        let again = [StatusCode::BAD_GATEWAY, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
        match again.contains(&status) {
            true => Err(Missed::Again(error, after.map(Duration::from_secs))),
            false => Err(Missed::Never(error)),
        }
    }

    fn request(&self, call: &Call) -> Result<reqwest::RequestBuilder, Error> {
        let bad = |error: &dyn std::fmt::Display| Error::Setup(format!("{}: {error}", call.path));
        let mut url = self.0.base.join(&call.path).map_err(|error| bad(&error))?;
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let mut request = self.0.http.request(call.method.clone(), url).timeout(self.0.timeout + call.wait);
        if let Some(key) = &self.0.key {
            let value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()));
            let mut value = value.map_err(|_| Error::Setup("the key holds characters no key has".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(key) = &call.key {
            let value = HeaderValue::from_str(key).map_err(|_| bad(&"the idempotency key must be printable ASCII"))?;
            request = request.header("Idempotency-Key", value);
        }
        Ok(match &call.body {
            Some((kind, text)) => request.header(CONTENT_TYPE, *kind).body(text.clone()),
            None => request,
        })
    }

    /// Opens a stream of events; the caller reads it.
    pub(super) async fn stream(&self, call: &Call, last: Option<&str>) -> Result<Response, Error> {
        let mut request = self.request(call)?.timeout(Duration::from_secs(24 * 3600));
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let text = response.text().await.map_err(|error| self.unreachable(&error))?;
        Err(Error::Problem(Box::new(problem(status, &text))))
    }

    fn read<T: DeserializeOwned>(&self, text: &str) -> Result<Answer<T>, Error> {
        let bad = |error: serde_json::Error| Error::Unreadable { server: self.server().into(), why: error.to_string() };
        let json = Json::parse(text).map_err(bad)?;
        Ok(Answer { view: json.to().map_err(bad)?, json })
    }

    pub(super) fn unreachable(&self, error: &reqwest::Error) -> Error {
        // The innermost cause says what happened; the others repeat the address.
        let mut why: &dyn std::error::Error = error;
        while let Some(inner) = why.source() {
            why = inner;
        }
        let why = if error.is_timeout() { "no answer in time".to_owned() } else { why.to_string() };
        Error::Unreachable {
            server: self.server().into(),
            why: error.source().map_or_else(|| error.to_string(), |_| why),
        }
    }
}

/// A refusal; also of something between here and there that does not speak problem+json.
fn problem(status: StatusCode, text: &str) -> Problem {
    let read: Problem = serde_json::from_str(text).unwrap_or_else(|_| Problem {
        detail: text.chars().take(200).collect(),
        title: status.canonical_reason().unwrap_or_default().to_owned(),
        ..Problem::default()
    });
    Problem { status: status.as_u16(), ..read }
}
