//! How the server says no: problem+json with a stable code. The text outside never contains one from inside that may
//! hold more than its reader should know.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use windlass_core::plan::file::Problems;
use windlass_core::port::{PortError, Refusal};
use windlass_core::refused::Refused;
use windlass_engine::Error;

/// Every code with its title and its page, sorted.
pub(crate) static PAGES: &[(&str, &str, &str)] = &include!(concat!(env!("OUT_DIR"), "/errors.rs"));

/// The page of a code: its title and its text.
pub(crate) fn page(code: &str) -> Option<(&'static str, &'static str)> {
    let at = PAGES.binary_search_by(|(name, ..)| (*name).cmp(code)).ok()?;
    Some((PAGES[at].1, PAGES[at].2))
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    code: String,
    detail: String,
    more: Map<String, Value>,
    retry_after_s: Option<u32>,
}

macro_rules! problems {
    ($($(#[$doc:meta])* $name:ident $status:ident $code:literal)+) => {$(
        $(#[$doc])*
        pub(crate) fn $name(detail: impl Into<String>) -> Problem {
            Problem::new(StatusCode::$status, $code, detail)
        }
    )+};
}

impl Problem {
    problems! {
        not_json BAD_REQUEST "WL-6001"
        misfit BAD_REQUEST "WL-6002"
        parameter BAD_REQUEST "WL-6003"
        no_route NOT_FOUND "WL-6004"
        method METHOD_NOT_ALLOWED "WL-6005"
        too_large PAYLOAD_TOO_LARGE "WL-6006"
        media_type UNSUPPORTED_MEDIA_TYPE "WL-6007"
        too_deep BAD_REQUEST "WL-6008"
        too_slow REQUEST_TIMEOUT "WL-6009"
        too_many TOO_MANY_REQUESTS "WL-6010"
        no_key UNAUTHORIZED "WL-6020"
        bad_key UNAUTHORIZED "WL-6021"
        expired_key UNAUTHORIZED "WL-6022"
        role FORBIDDEN "WL-6023"
        beyond FORBIDDEN "WL-6024"
        elsewhere FORBIDDEN "WL-6025"
    }

    fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Problem {
        Problem { status, code: code.to_owned(), detail: detail.into(), more: Map::new(), retry_after_s: None }
    }

    /// A thing that is not there, or not for this key: the same answer.
    pub(crate) fn not_found(what: impl std::fmt::Display) -> Problem {
        Refusal::NotFound(what.to_string()).into()
    }

    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Problem {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn pointer(self, pointer: impl Into<Value>) -> Problem {
        self.with("pointer", pointer)
    }

    fn later(mut self) -> Problem {
        self.retry_after_s = Some(1);
        self
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    fn document(&self) -> Value {
        let mut all = Map::new();
        all.insert("type".into(), format!("/docs/errors/{}", self.code).into());
        all.insert("title".into(), page(&self.code).map_or("", |(title, _)| title).into());
        all.insert("status".into(), self.status.as_u16().into());
        all.insert("code".into(), self.code.as_str().into());
        all.insert("detail".into(), self.detail.as_str().into());
        all.extend(self.more.clone());
        Value::Object(all)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.document().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `WL-3001 job x does not exist` is a code and what it means here.
fn divided(text: &str) -> (&str, &str) {
    text.split_once(' ').filter(|(code, _)| code.starts_with("WL-")).unwrap_or(("WL-5104", text))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let status = match &refusal {
            Refusal::NotFound(_) => StatusCode::NOT_FOUND,
            Refusal::Full { .. } => StatusCode::TOO_MANY_REQUESTS,
            Refusal::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::CONFLICT,
        };
        let text = refusal.to_string();
        let (code, detail) = divided(&text);
        let problem = Problem::new(status, code, detail);
        match refusal {
            Refusal::State { status, .. } => problem.with("state", status),
            Refusal::Full { .. } => problem.later(),
            _ => problem,
        }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        Problem::new(StatusCode::CONFLICT, refused.code.as_str(), format!("cannot {}: {}", refused.tried, refused.why))
            .with("state", refused.state)
            .with("possible", refused.instead)
    }
}

impl From<PortError> for Problem {
    fn from(error: PortError) -> Problem {
        match error {
            PortError::Unavailable(why) => {
                tracing::warn!(why, "a request found the store away");
                let detail = "the store does not answer; whether a change took effect is unknown, repeat it with the \
                              same Idempotency-Key";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "WL-3020", detail).later()
            }
            PortError::Corrupt(why) => {
                tracing::error!(why, "stored data is damaged");
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "WL-3021", "stored data is damaged; the log says where")
            }
            PortError::Invalid(why) => Problem::new(StatusCode::BAD_REQUEST, "WL-3022", why),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let text = error.to_string();
        let (code, detail) = divided(&text);
        match error {
            Error::Refused(refused) => refused.into(),
            Error::Store(refusal) => refusal.into(),
            Error::Port(error) => error.into(),
            Error::Invalid(_) => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail),
            Error::Contended => Problem::new(StatusCode::CONFLICT, code, detail).later(),
            Error::Conflict(who) => Problem::new(StatusCode::CONFLICT, code, detail).with("conflicts", who),
            Error::Misfit(_) => {
                tracing::error!(detail, "the rules contradict what is stored");
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, code, "what is stored contradicts the rules")
            }
            Error::Stopping => Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).later(),
        }
    }
}

impl From<Problems> for Problem {
    fn from(problems: Problems) -> Problem {
        let list: Vec<Value> = problems
            .iter()
            .map(|one| {
                json!({"code": one.code.as_str(), "pointer": one.pointer, "line": one.line, "column": one.column,
                    "detail": one.message, "help": one.help})
            })
            .collect();
        let Some(first) = problems.iter().next() else { return Problem::misfit("the plan cannot be read") };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, first.code.as_str(), first.message.clone())
            .pointer(first.pointer.clone())
            .with("line", first.line)
            .with("column", first.column)
            .with("help", first.help.clone())
            .with("problems", list)
            .with("more", problems.more())
    }
}
