//! The one way of every request: who asks, whether they may, what they send; then its handler.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use http_body_util::{BodyExt as _, Limited};
use tokio::sync::OwnedSemaphorePermit;

use super::{Route, Takes};
use crate::auth::{Need, Who};
use crate::call::{Answer, Call, query};
use crate::metrics::count;
use crate::problem::Problem;
use crate::server::Shared;

pub(super) async fn answer(shared: Arc<Shared>, at: usize, route: &'static Route, request: Request) -> Response {
    let began = tokio::time::Instant::now();
    let response = answered(Arc::clone(&shared), route, request).await;
    let requests = &shared.metrics.requests[at];
    requests.took.add(began.elapsed());
    count(&requests.answers[usize::from(response.status().as_u16() / 100).min(5)], 1);
    response
}

async fn answered(shared: Arc<Shared>, route: &'static Route, request: Request) -> Response {
    match carry_out(shared, route, request).await {
        Ok(response) => response,
        Err(problem) => {
            tracing::debug!(route = route.id, code = problem.code(), detail = problem.detail(), "refused");
            problem.into_response()
        }
    }
}

async fn carry_out(shared: Arc<Shared>, route: &'static Route, request: Request) -> Answer {
    let (mut parts, body) = request.into_parts();
    let who = match route.need {
        Need::Public => Arc::new(Who::anybody_here()),
        _ => shared.door.who(&parts.headers, shared.clock.now())?,
    };
    if !route.need.is_met(who.role) {
        let (role, need) = (who.role.name(), route.need.role());
        return Err(Problem::role(format!("this key is a {role}'s; {} is for {need}", route.id)).with("role", role));
    }
    let path = RawPathParams::from_request_parts(&mut parts, &())
        .await
        .map_err(|_| Problem::parameter("the path is not UTF-8"))?;
    let path = path.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let query = query(parts.uri.query().unwrap_or_default())?;
    for (at, (name, _)) in query.iter().enumerate() {
        if !route.query.iter().any(|param| param.name == name) {
            let known: Vec<_> = route.query.iter().map(|param| param.name).collect();
            let text = format!("{name:?} is not known here; there is: {}", known.join(", "));
            return Err(Problem::parameter(text).with("parameter", name.as_str()));
        }
        if query[..at].iter().any(|(before, _)| before == name) {
            return Err(Problem::parameter(format!("{name} is given twice")).with("parameter", name.as_str()));
        }
    }
    let body = match route.takes {
        Takes::Nothing => Bytes::new(),
        _ => read(&shared, &parts.headers, body).await?,
    };
    (route.handler)(Call { shared, who, path, query, headers: parts.headers, body, route }).await
}

/// The whole body, within its bounds of size and time.
async fn read(shared: &Shared, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let most = shared.limits.body_bytes;
    let too_large = || Problem::too_large(format!("a body has at most {most} bytes")).with("limit", most);
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if said.is_some_and(|bytes| bytes > most) {
        return Err(too_large());
    }
    match tokio::time::timeout(shared.limits.body, Limited::new(body, most).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::not_json("the body ended before it was whole")),
        Err(_) => Err(Problem::too_slow(format!("the body took longer than {:?}", shared.limits.body))),
    }
}

pub(super) fn not_allowed(allowed: &str) -> Response {
    let mut response = Problem::method(format!("only {allowed} here")).into_response();
    if let Ok(value) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}

impl Call {
    /// The last part of the path: which operation.
    pub(crate) fn verb(&self) -> &'static str {
        self.route.verb()
    }

    /// A place among those that wait.
    pub(crate) fn waiting(&self) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(&self.shared.waits)
            .try_acquire_owned()
            .map_err(|_| Problem::too_many(format!("{} requests wait already", self.shared.limits.waits)))
    }
}
