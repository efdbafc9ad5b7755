//! Streams of events.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use windlass_server::Limits;

use crate::world::{World, approvals};

/// One frame that is no comment.
#[derive(Debug)]
struct Frame {
    id: Option<String>,
    kind: String,
    data: Value,
}

struct Stream {
    bytes: std::pin::Pin<Box<dyn futures_util::Stream<Item = reqwest::Result<bytes::Bytes>> + Send>>,
    text: String,
}

impl Stream {
    async fn open(world: &World, path: &str, last: Option<&str>) -> Stream {
        let mut request = world.request(Method::GET, path);
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        Stream { bytes: Box::pin(response.bytes_stream()), text: String::new() }
    }

    async fn next(&mut self) -> Frame {
        loop {
            while let Some((frame, rest)) = self.text.split_once("\n\n") {
                let (frame, rest) = (frame.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if let Some(kind) = field("event: ") {
                    let data = serde_json::from_str(&field("data: ").unwrap()).unwrap();
                    return Frame { id: field("id: "), kind, data };
                }
            }
            let chunk =
                tokio::time::timeout(Duration::from_secs(20), self.bytes.next()).await.expect("an event").unwrap();
            self.text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        }
    }

    async fn until(&mut self, kind: &str) -> Frame {
        loop {
            let frame = self.next().await;
            if frame.kind == kind {
                return frame;
            }
        }
    }
}

#[tokio::test]
async fn events_come_as_they_happen_and_of_what_was_asked_for() {
    let world = World::new().await;
    world.plan(&approvals("p1", &["acme"]), "").await.ok();
    world.plan(&approvals("p2", &["bolt"]), "").await.ok();
    let mut all = Stream::open(&world, "/v1/events", None).await;
    let mut one = Stream::open(&world, "/v1/events?plan=p2", None).await;
    world.post("/v1/plans/p1/start", json!({"by": "zoe"})).await.ok();
    let started = all.until("PlanStarted").await;
    assert_eq!((started.data["plan"].as_str(), started.data["by"].as_str()), (Some("p1"), Some("zoe")));
    all.until("ApprovalWanted").await;
    world.post("/v1/plans/p2/start", json!({})).await.ok();
    let first = one.next().await;
    assert_eq!((first.kind.as_str(), first.data["plan"].as_str()), ("PlanStarted", Some("p2")));
    assert_eq!(one.until("ApprovalWanted").await.data["tenant"], "bolt");
}

#[tokio::test]
async fn a_stream_of_a_task_is_taken_up_where_it_was_cut_off() {
    let world = World::new().await;
    world.plan(&approvals("p1", &["acme"]), "?start=true").await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    let mut stream = Stream::open(&world, "/v1/events?task=p1-0", Some("p1-0:0")).await;
    let first = stream.next().await;
    assert_eq!((first.kind.as_str(), first.id.as_deref()), ("TaskCreated", Some("p1-0:1")));
    let second = stream.next().await;
    drop(stream);
    world.post("/v1/tasks/p1-0/approve", json!({})).await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    let mut stream = Stream::open(&world, "/v1/events?task=p1-0", second.id.as_deref()).await;
    let mut seen = Vec::new();
    loop {
        let frame = stream.next().await;
        seen.push(frame.data["seq"].as_u64().unwrap());
        if frame.kind == "TaskCompleted" {
            break;
        }
    }
    let wanted: Vec<u64> = (3..3 + seen.len() as u64).collect();
    assert_eq!(seen, wanted, "each once, in order, from where it was cut off");
}

#[tokio::test]
async fn a_stream_of_a_plan_is_taken_up_with_the_events_of_its_tasks() {
    let world = World::new().await;
    world.plan(&approvals("p1", &["acme", "bolt"]), "?start=true").await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    let history = world.get("/v1/tasks/p1-0/history").await.ok();
    let last = history["items"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    world.post("/v1/tasks/p1-1/approve", json!({})).await.ok();
    world.post("/v1/tasks/p1-0/approve", json!({})).await.ok();
    world.get("/v1/plans/p1?wait=20s").await.ok();
    let mut stream = Stream::open(&world, "/v1/events?plan=p1", Some(&last)).await;
    let mut ids = Vec::new();
    loop {
        let frame = stream.next().await;
        ids.push(frame.id.unwrap());
        if frame.kind == "PlanCompleted" {
            break;
        }
    }
    let mut unique = ids.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ids.len(), "each once: {ids:?}");
    assert!(ids.iter().any(|id| id.starts_with("p1-1:")) && !ids.contains(&last), "{ids:?}");
}

#[tokio::test]
async fn what_is_too_old_or_unknown_is_a_reset() {
    let world = World::new().await;
    world.plan(&approvals("p1", &["acme"]), "").await.ok();
    for last in ["p1-0:77", "elsewhere:3", "nonsense"] {
        let mut stream = Stream::open(&world, "/v1/events?task=p1-0", Some(last)).await;
        assert_eq!(stream.next().await.kind, "reset", "{last}");
    }
    world.get("/v1/events?plan=none").await.refused(404, "WL-3001");
    world.get("/v1/events?plan=a&task=b").await.refused(400, "WL-6003");
}

#[tokio::test]
async fn streams_and_waits_are_bounded() {
    let world = World::with(None, Limits { streams: 1, waits: 0, ..Limits::default() }).await;
    world.plan(&approvals("p1", &["acme"]), "").await.ok();
    let open = Stream::open(&world, "/v1/events", None).await;
    world.get("/v1/events").await.refused(429, "WL-6010");
    world.get("/v1/plans/p1?wait=1s").await.refused(429, "WL-6010");
    world.get("/v1/plans/p1?wait=61s").await.refused(400, "WL-6003");
    drop(open);
    // Its place is free once the server has noticed.
    let again = async {
        while world.request(Method::GET, "/v1/events").send().await.unwrap().status().as_u16() != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again).await.expect("a place");
}
