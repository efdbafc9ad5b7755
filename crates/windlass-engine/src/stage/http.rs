//! One request, and whether its answer is a success.

use std::borrow::Cow;
use std::collections::BTreeMap;

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde::Serialize;
use windlass_core::failure::FailureKind;
use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::stage::{Http, Text};
use windlass_core::trigger::target::{Call, Header};

use super::secret::{Secrets, Used};
use super::template::Rendering;
use super::web::{Answer, Ask, Request};
use super::{Ended, Told, Trouble, strings};

/// What of an answer's body enters the context, at most.
pub const BODY_KEPT_BYTES: usize = 64 * 1024;
/// What of it a failure's message shows, at most.
const BODY_SHOWN_BYTES: usize = 512;
/// The client sets these itself.
const NOT_OURS: &[HeaderName] =
    &[header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION, header::UPGRADE];

pub(super) async fn run(
    web: &dyn Ask,
    secrets: &Secrets,
    http: &Http,
    told: &Told,
    rendering: Rendering<'_>,
) -> Result<Ended, Trouble> {
    let mut used = Used::none(secrets);
    let request = request(http, told, &rendering, &mut used)?;
    drop(rendering);
    let answer = web.ask(&request, &http.expect_status).await.map_err(|trouble| used.hide_trouble(trouble))?;
    let success = match http.expect_status.as_slice() {
        [] => (200..300).contains(&answer.status),
        wanted => wanted.contains(&answer.status),
    };
    if !success {
        let message = format!("{request} answered {}{}", answer.status, shown(&answer, &used));
        return Err(Trouble::stage(used.hide(message)));
    }
    output(&answer, &used).map(|output| Ended::Done(Some(output)))
}

/// One request of a trigger: no templates, and the occurrence's key.
pub(super) async fn call(
    web: &dyn Ask,
    secrets: &Secrets,
    call: &Call,
    payload: Option<&Json>,
    key: &str,
    fence: Fence,
) -> Result<u16, Trouble> {
    let hopeless = |why: String| Trouble::hopeless(FailureKind::Stage, why);
    let method =
        Method::from_bytes(call.method.as_bytes()).map_err(|_| hopeless(format!("{:?} is no method", call.method)))?;
    let url = Url::parse(&call.url).map_err(|error| hopeless(format!("no URL: {error}")))?;
    let mut headers = HeaderMap::with_capacity(call.headers.len() + 3);
    if payload.is_some() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let fence = fence.to_string();
    let ours = [("idempotency-key", key), ("windlass-fence", &fence)];
    let ours = ours.map(|(name, text)| (name, Header::Text(text.to_owned())));
    let mut used = Used::none(secrets);
    let given = call.headers.iter().map(|(name, value)| (name.as_str(), value));
    for (name, value) in given.chain(ours.iter().map(|(name, value)| (*name, value))) {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| hopeless(format!("{name:?} is no header")))?;
        if NOT_OURS.contains(&key) {
            return Err(hopeless(format!("the header {name} is set by the client; leave it out")));
        }
        let (text, secret) = match value {
            Header::Text(text) => (Cow::Borrowed(text.as_str()), false),
            Header::Secret(reference) => (used.secret(&reference.secret)?, true),
        };
        let value = HeaderValue::from_bytes(text.trim_ascii().as_bytes());
        let mut value = value.map_err(|_| hopeless(format!("the header {name} has a bad character")))?;
        value.set_sensitive(secret);
        headers.insert(key, value);
    }
    let body = payload.map(|payload| payload.as_str().as_bytes().to_vec());
    let request = Request { method, url, headers, body };
    let answer = web.ask(&request, &[]).await.map_err(|trouble| used.hide_trouble(trouble))?;
    match answer.status {
        status @ 200..300 => Ok(status),
        status => Err(Trouble::stage(used.hide(format!("{request} answered {status}")))),
    }
}

fn request(http: &Http, told: &Told, rendering: &Rendering<'_>, used: &mut Used<'_>) -> Result<Request, Trouble> {
    let method = Method::from_bytes(http.method.as_bytes())
        .map_err(|_| Trouble::hopeless(FailureKind::Stage, format!("{:?} is no method", http.method)))?;
    let url = url("url", &http.url, rendering)?;
    let mut headers = headers(&http.headers, told, rendering, used)?;
    let (body, content_type) = match (&http.json, &http.body) {
        (Some(json), _) => (Some(rendering.json("json", json)?.as_str().into()), "application/json"),
        (None, Some(text)) => {
            (Some(rendering.text("body", text)?.into_owned().into_bytes()), "text/plain; charset=utf-8")
        }
        (None, None) => (None, ""),
    };
    if body.is_some() && !headers.contains_key(header::CONTENT_TYPE) {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    Ok(Request { method, url, headers, body })
}

/// What `template` renders to, as a URL.
pub(super) fn url(what: &str, template: &str, rendering: &Rendering<'_>) -> Result<Url, Trouble> {
    let text = rendering.text(what, template)?;
    // What it rendered to is not repeated: it may hold a password.
    let bad = |why: String| Trouble::hopeless(FailureKind::Stage, format!("{what} `{template}` is no URL: {why}"));
    let url = Url::parse(text.trim()).map_err(|error| bad(error.to_string()))?;
    if url.has_host() { Ok(url) } else { Err(bad("it has no host".to_owned())) }
}

/// What the stage gives, and what every request carries. Those made from secrets are marked as sensitive.
pub(super) fn headers(
    given: &BTreeMap<String, Text>,
    told: &Told,
    rendering: &Rendering<'_>,
    used: &mut Used<'_>,
) -> Result<HeaderMap, Trouble> {
    let mut headers = HeaderMap::with_capacity(given.len() + 8);
    for (name, text) in given {
        let bad = |why: &str| Trouble::hopeless(FailureKind::Stage, format!("the header {name} {why}"));
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad("has no valid name"))?;
        if NOT_OURS.contains(&key) {
            return Err(bad("is set by the client; leave it out"));
        }
        let (text, secret) = used.text(rendering, &format!("the header {name}"), text)?;
        let bytes = text.trim_ascii().as_bytes();
        let mut value = HeaderValue::from_bytes(bytes).map_err(|_| bad("has a character that headers cannot have"))?;
        value.set_sensitive(secret);
        headers.insert(key, value);
    }
    let ours = [
        ("idempotency-key", told.idempotency_key()),
        ("windlass-fence", told.fence.to_string()),
        ("windlass-tenant", told.tenant.to_string()),
        ("windlass-plan", told.plan.to_string()),
        ("windlass-task", told.task.to_string()),
        ("windlass-stage", told.stage.to_string()),
        ("windlass-attempt", told.attempt.to_string()),
    ];
    for (name, text) in ours {
        let value = HeaderValue::from_maybe_shared(text.into_bytes());
        let value = value.map_err(|error| Trouble::hopeless(FailureKind::Stage, format!("{name}: {error}")))?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok(headers)
}

/// What enters the context.
#[derive(Serialize)]
struct Output {
    status: u16,
    body: Json,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
}

/// The answer as JSON: its body is the JSON that it is, or else text, cut if it is too long to be kept.
pub(super) fn output(answer: &Answer, used: &Used<'_>) -> Result<Json, Trouble> {
    let bad = |error: serde_json::Error| Trouble::stage(format!("the answer cannot be kept: {error}"));
    let (body, truncated) = match read(answer, used) {
        Body::Nothing => (Json::null(), false),
        Body::Json(json) if json.as_str().len() <= BODY_KEPT_BYTES => (json, false),
        long => {
            let text = long.text();
            let end = text.floor_char_boundary(BODY_KEPT_BYTES);
            (Json::of(&text[..end]).map_err(bad)?, end < text.len())
        }
    };
    Json::of(&Output { status: answer.status, body, truncated }).map_err(bad)
}

/// The beginning of the body, for a message.
pub(super) fn shown(answer: &Answer, used: &Used<'_>) -> String {
    let body = read(answer, used);
    let text = body.text().trim();
    let end = text.floor_char_boundary(BODY_SHOWN_BYTES);
    match (end, end < text.len()) {
        (0, _) => String::new(),
        (_, true) => format!(": {}…", &text[..end]),
        (_, false) => format!(": {text}"),
    }
}

/// A body without secrets. They are hidden before anything is cut, and in JSON however they are escaped.
enum Body {
    Nothing,
    Json(Json),
    Text(String),
}

impl Body {
    fn text(&self) -> &str {
        match self {
            Body::Nothing => "",
            Body::Json(json) => json.as_str(),
            Body::Text(text) => text,
        }
    }
}

fn read(answer: &Answer, used: &Used<'_>) -> Body {
    if answer.body.is_empty() {
        return Body::Nothing;
    }
    let text = String::from_utf8_lossy(&answer.body);
    match strings::document(&text).filter(|_| answer.maybe_json) {
        Some(json) => Body::Json(used.hide_in(&json)),
        None => Body::Text(used.hide(text).into_owned()),
    }
}
