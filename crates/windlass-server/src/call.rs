//! One request, as a handler sees it: checked as far as its route says, and nothing of HTTP but what it needs.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::by::{By, Reason};
use windlass_core::json::Json;
use windlass_core::port::{Cursor, PAGE_MAX, PortError};
use windlass_core::time::duration::parse_ms;
use windlass_engine::Engine;
use windlass_engine::command::{Caller, IdempotencyKey};
use windlass_engine::job::Queues;

use crate::auth::Who;
use crate::options::{DEPTH_MAX, KEY_BYTES_MAX, PAGE_DEFAULT, WAIT_MS_MAX};
use crate::problem::Problem;
use crate::router::Route;
use crate::schema::{Name, Text};
use crate::server::Shared;

/// What a handler answers.
pub(crate) type Answer = Result<Response, Problem>;

/// One request.
pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    pub(crate) who: Arc<Who>,
    pub(crate) path: Vec<(String, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) route: &'static Route,
}

/// What every operation may be told beside what it is about.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Operation {
    /// Who asks; only without API keys, otherwise it is the key's name.
    #[schemars(with = "Option<Name>")]
    pub(crate) by: Option<By>,
    /// Why.
    #[schemars(with = "Option<Text>")]
    pub(crate) reason: Option<Reason>,
    /// Only say what would happen.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

impl Call {
    pub(crate) fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.shared.queues
    }

    /// A part of the path.
    pub(crate) fn part<T: FromStr>(&self, name: &str) -> Result<T, Problem>
    where
        T::Err: std::fmt::Display,
    {
        let text = self.path.iter().find(|(known, _)| known == name).map_or("", |(_, text)| text.as_str());
        text.parse().map_err(|why| bad_parameter(name, why))
    }

    /// A parameter, if it is given.
    pub(crate) fn given<T: FromStr>(&self, name: &str) -> Result<Option<T>, Problem>
    where
        T::Err: std::fmt::Display,
    {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|why| bad_parameter(name, why))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str())
    }

    /// `true` or `false`; not given is `false`.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, Problem> {
        Ok(self.given(name)?.unwrap_or(false))
    }

    /// Words of a list: `status=FAILED,PAUSED`.
    pub(crate) fn words<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        word: impl Fn(T) -> &'static str,
    ) -> Result<Vec<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(Vec::new()) };
        let known = |given: &str| {
            all.iter().copied().find(|one| word(*one).eq_ignore_ascii_case(given)).ok_or_else(|| {
                let words: Vec<_> = all.iter().map(|one| word(*one)).collect();
                bad_parameter(name, format!("{given:?} is none of {}", words.join(", ")))
            })
        };
        text.split(',').map(|given| known(given.trim())).collect()
    }

    /// Which page.
    pub(crate) fn page(&self) -> Result<(Option<Cursor>, u32), Problem> {
        let limit = self.given::<u32>("limit")?.unwrap_or(PAGE_DEFAULT);
        if limit == 0 || limit > PAGE_MAX {
            return Err(bad_parameter("limit", format!("{limit} is not within 1 to {PAGE_MAX}")));
        }
        Ok((self.text("after").map(|after| Cursor(after.to_owned())), limit))
    }

    /// How long to wait, in milliseconds; 0 without.
    pub(crate) fn wait_ms(&self) -> Result<u64, Problem> {
        self.text("wait").map_or(Ok(0), |text| wait_ms(text).map_err(|why| bad_parameter("wait", why)))
    }

    /// The body, decoded. None at all counts as an empty object.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        if self.body.is_empty() {
            return decode(b"{}");
        }
        self.is_json()?;
        decode(&self.body)
    }

    pub(crate) fn is_json(&self) -> Result<(), Problem> {
        match self.media_type() {
            Some(kind) if kind == "application/json" || kind.ends_with("+json") => Ok(()),
            Some(kind) => Err(Problem::media_type(format!("{kind:?} is not taken here; send application/json"))),
            None => Err(Problem::media_type("the Content-Type is missing; send application/json")),
        }
    }

    pub(crate) fn media_type(&self) -> Option<String> {
        let text = self.headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// Who asks, why and how, of an operation.
    pub(crate) fn caller(&self, by: Option<By>, reason: Option<Reason>, dry_run: bool) -> Result<Caller, Problem> {
        let by = match (&self.who.by, by) {
            (Some(name), _) => name.clone(),
            (None, Some(by)) => by,
            (None, None) => self.shared.anonymous.clone(),
        };
        let dry_run = dry_run || self.flag("dryRun")?;
        Ok(Caller { by, reason, key: self.idempotency_key()?, dry_run })
    }

    /// Does something once under the caller's key: what it answered is kept, and is the answer to the same request again.
    pub(crate) async fn once(
        &self,
        caller: &Caller,
        status: StatusCode,
        what: impl Future<Output = Result<Json, Problem>>,
    ) -> Answer {
        let path: Vec<_> = self.path.iter().chain(&self.query).collect();
        let request = format!("{} {path:?} {}", self.route.id, String::from_utf8_lossy(&self.body));
        json(status, &self.engine().once(caller, &request, what).await?)
    }

    pub(crate) fn operation(&self) -> Result<Caller, Problem> {
        let Operation { by, reason, dry_run } = self.json()?;
        self.caller(by, reason, dry_run)
    }

    /// The key of a request that may be repeated, with whose it is.
    pub(crate) fn idempotency_key(&self) -> Result<Option<IdempotencyKey>, Problem> {
        let Some(value) = self.headers.get("idempotency-key") else { return Ok(None) };
        let bad = || {
            Problem::parameter(format!("Idempotency-Key must be 1 to {KEY_BYTES_MAX} printable ASCII characters"))
                .with("parameter", "Idempotency-Key")
        };
        let key = value.to_str().map_err(|_| bad())?.trim();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(bad());
        }
        let credential = self.who.by.as_ref().map_or("", By::as_str).to_owned();
        Ok(Some(IdempotencyKey { credential, key: key.to_owned() }))
    }
}

/// `30s`, or milliseconds; at most a minute.
pub(crate) fn wait_ms(text: &str) -> Result<u64, String> {
    let ms = text.parse().ok().or_else(|| parse_ms(text)).ok_or("not a duration: write 30s or milliseconds")?;
    within_wait(ms)
}

pub(crate) fn within_wait(ms: u64) -> Result<u64, String> {
    match ms {
        0..=WAIT_MS_MAX => Ok(ms),
        _ => Err(format!("{ms} ms; at most {WAIT_MS_MAX} may be waited")),
    }
}

pub(crate) fn bad_parameter(name: &str, why: impl std::fmt::Display) -> Problem {
    Problem::parameter(format!("{name}: {why}")).with("parameter", name)
}

/// Decodes a body; what does not fit is named by its place.
pub(crate) fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    check_depth(body)?;
    serde_json::from_slice(body).map_err(|error| explain::<T>(body, &error))
}

/// Looks again, with an eye on where it went wrong: only for those who made a mistake.
fn explain<T: DeserializeOwned>(body: &[u8], error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    if !error.is_data() {
        return Problem::not_json(format!("the body is not JSON: {error}")).with("line", line).with("column", column);
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    let pointer = match serde_path_to_error::deserialize::<_, T>(&mut from) {
        Err(error) => pointer(error.path()),
        Ok(_) => String::new(),
    };
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    Problem::misfit(text).pointer(pointer).with("line", line).with("column", column)
}

fn pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let part = |segment: &Segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", key.replace('~', "~0").replace('/', "~1")),
        Segment::Enum { variant } => format!("/{variant}"),
        Segment::Unknown => String::new(),
    };
    path.iter().map(part).collect()
}

/// Bounds how deep a body nests, before anything reads it recursively.
fn check_depth(body: &[u8]) -> Result<(), Problem> {
    let (mut depth, mut inside, mut escaped) = (0usize, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if inside => escaped = true,
            b'"' => inside = !inside,
            b'[' | b'{' if !inside => {
                depth += 1;
                if depth > DEPTH_MAX {
                    return Err(Problem::too_deep(format!("arrays and objects nest deeper than {DEPTH_MAX}")));
                }
            }
            b']' | b'}' if !inside => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// `a=b&c=d`, decoded.
pub(crate) fn query(text: &str) -> Result<Vec<(String, String)>, Problem> {
    let decoded = |text: &str| {
        let plain: Cow<'_, str> = if text.contains('+') { text.replace('+', " ").into() } else { text.into() };
        let bytes = percent_decode_str(&plain).decode_utf8();
        bytes.map(Cow::into_owned).map_err(|_| Problem::parameter("the query is not UTF-8"))
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// An answer that is kept: its text.
pub(crate) fn kept<T: Serialize + ?Sized>(value: &T) -> Result<Json, Problem> {
    Json::of(value).map_err(|why| Problem::from(PortError::Corrupt(why.to_string())))
}

/// An answer in JSON.
pub(crate) fn json<T: Serialize + ?Sized>(status: StatusCode, value: &T) -> Answer {
    let mut body = Vec::with_capacity(256);
    serde_json::to_writer(&mut body, value).map_err(|why| {
        tracing::error!(%why, "an answer cannot be written");
        Problem::from(PortError::Corrupt(why.to_string()))
    })?;
    let mut response = (status, Bytes::from(body)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub(crate) fn ok<T: Serialize + ?Sized>(value: &T) -> Answer {
    json(StatusCode::OK, value)
}

/// A part of a list.
#[derive(Serialize, JsonSchema)]
pub(crate) struct List<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// Where the next part begins; `null` at the end.
    pub(crate) next: Option<String>,
}

impl<T: Serialize> List<T> {
    pub(crate) fn new(items: Vec<T>, next: Option<Cursor>) -> List<T> {
        List { items, next: next.map(|cursor| cursor.0) }
    }

    pub(crate) fn whole(items: Vec<T>) -> List<T> {
        List { items, next: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_outside_texts_only() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(check_depth(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(check_depth(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        assert!(check_depth(format!("{{\"a\\\"{}\": 1}}", "[".repeat(100)).as_bytes()).is_ok());
    }

    #[test]
    fn a_value_of_the_wrong_type_is_named_by_its_place() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Body {
            #[serde(rename = "list")]
            _list: Vec<u8>,
        }
        let problem = decode::<Body>(br#"{"list": [1, 2, "x"]}"#).unwrap_err();
        let text = format!("{problem:?}");
        assert!(problem.code() == "WL-6002" && text.contains("/list/2"), "{text}");
        assert_eq!(decode::<Body>(b"{\"list\": [").unwrap_err().code(), "WL-6001");
        assert_eq!(decode::<Body>(b"{\"list\": [], \"lits\": 1}").unwrap_err().code(), "WL-6002");
    }

    #[test]
    fn a_query_is_decoded_once() {
        let pairs = query("a=b%20c&d=%2526&e&f=x+y").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(pairs, [("a", "b c"), ("d", "%26"), ("e", ""), ("f", "x y")]);
        assert!(query("a=%ff").is_err());
    }
}
