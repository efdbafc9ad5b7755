//! The server about itself: whether it lives, whether it can work, who asks, what there is.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::{Answer, Call, json, ok};
use crate::problem::{self, Problem};
use crate::schema::Time;
use crate::{openapi, page};

/// That it lives.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Alive {
    status: &'static str,
    version: &'static str,
}

pub(crate) async fn healthz(_: Call) -> Answer {
    ok(&Alive { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Whether it can work.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ready {
    ready: bool,
    instance: String,
    stopping: bool,
    /// Since when the store has not answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    store_down_since: Option<Time>,
    /// Loops that do not come round, and for how many milliseconds.
    stalled: Vec<Stalled>,
}

/// A loop that does not come round.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stalled {
    part: &'static str,
    quiet_ms: u64,
}

pub(crate) async fn readyz(call: Call) -> Answer {
    let pulse = call.engine().pulse();
    let ready = Ready {
        ready: pulse.is_well(),
        instance: call.engine().instance().to_string(),
        stopping: pulse.stopping,
        store_down_since: pulse.down_since.map(Time),
        stalled: pulse
            .stalled
            .iter()
            .map(|(part, quiet_ms)| Stalled { part: part.name(), quiet_ms: *quiet_ms })
            .collect(),
    };
    json(if ready.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, &ready)
}

/// Who asks.
#[derive(Serialize, JsonSchema)]
pub(crate) struct WhoAmI {
    name: String,
    /// viewer, worker, operator or admin.
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenants: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<Vec<String>>,
    /// Nobody needs a key: only this machine is served.
    loopback: bool,
}

pub(crate) async fn whoami(call: Call) -> Answer {
    let who = &call.who;
    ok(&WhoAmI {
        name: who.by.as_ref().unwrap_or(&call.shared.anonymous).to_string(),
        role: who.role.name(),
        tenants: who.tenants.as_ref().map(|set| set.iter().map(ToString::to_string).collect()),
        queues: who.queues.as_ref().map(|set| set.iter().map(ToString::to_string).collect()),
        loopback: who.by.is_none(),
    })
}

pub(crate) async fn openapi(_: Call) -> Answer {
    Ok(text("application/json", openapi::text()))
}

pub(crate) async fn metrics(call: Call) -> Answer {
    call.who.for_everybody("what is measured")?;
    Ok(text("text/plain; version=0.0.4", crate::metrics::render(&call.shared).await?))
}

pub(crate) async fn docs(_: Call) -> Answer {
    Ok(text("text/html; charset=utf-8", page::api()))
}

pub(crate) async fn error_page(call: Call) -> Answer {
    let code: String = call.part("code")?;
    let (_, page) = problem::page(&code).ok_or_else(|| Problem::not_found(format!("error code {code:?}")))?;
    Ok(text("text/markdown; charset=utf-8", page.to_owned()))
}

fn text(kind: &'static str, body: String) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'"),
    );
    response
}
