//! Events as they happen, as a stream. One of a plan or a task can be taken up where it was cut off: what was missed comes
//! from the stored history. What this instance does is told at once, what others do is found in the store soon after.

mod feed;
mod position;

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use tokio::sync::mpsc;
use windlass_core::id::{PlanId, TaskId};
use windlass_engine::command::task::Which;

use crate::call::{Answer, Call, bad_parameter};
use crate::problem::Problem;
use feed::Feed;
use position::Position;

/// Frames that wait for a client; one that is slower than this is cut off.
const BEHIND_MAX: usize = 256;

/// What a stream is about.
pub(crate) enum About {
    Everything,
    Plan(PlanId),
    Task(TaskId),
}

pub(crate) async fn stream(call: Call) -> Answer {
    let about = match (call.given("plan")?, call.given("task")?) {
        (None, None) => About::Everything,
        (Some(plan), None) => About::Plan(plan),
        (None, Some(task)) => About::Task(task),
        (Some(_), Some(_)) => return Err(bad_parameter("plan", "plan and task exclude each other")),
    };
    let place = Arc::clone(&call.shared.streams)
        .try_acquire_owned()
        .map_err(|_| Problem::too_many(format!("{} streams are open already", call.shared.limits.streams)))?;
    match &about {
        About::Everything => {}
        About::Plan(plan) => {
            call.engine().view_plan(plan).await?;
            call.own_tasks(plan).await?;
        }
        About::Task(task) => call.own_task(&Which::Task(task.clone())).await?,
    }
    // Before the first look at what is stored: what happens meanwhile is not missed.
    let news = call.engine().subscribe();
    let last = call.headers.get("last-event-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    let (position, missed) = Position::begin(&call, &about, last.as_deref()).await?;
    let (to, mut from) = mpsc::channel::<Bytes>(BEHIND_MAX);
    let feed = Feed { call, about, position, to };
    tokio::spawn(async move {
        feed.run(news, missed).await;
        drop(place);
    });
    let frames = futures_util::stream::poll_fn(move |context| {
        from.poll_recv(context).map(|frame| frame.map(Ok::<Bytes, Infallible>))
    });
    let mut response = Response::new(Body::from_stream(frames));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
