//! Clients that do not read what they asked for.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use windlass_server::Limits;

use crate::world::{World, until};

/// Asks, and does not read. Little room on this side, so that the other side notices soon.
async fn asks(address: SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream
}

async fn value(world: &World, name: &str) -> f64 {
    let text = world.get("/metrics").await.ok().as_str().unwrap().to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not there")).parse().unwrap()
}

fn hurried() -> Limits {
    Limits { write: Duration::from_millis(200), ..Limits::default() }
}

#[tokio::test]
async fn whoever_does_not_read_a_long_list_is_cut_off_and_delays_nobody() {
    let world = World::with(None, hurried()).await;
    let job = json!({"queue": "q", "payload": "x".repeat(50_000)});
    world.post("/v1/jobs", Value::Array(vec![job; 300])).await.ok();
    let mut slow = asks(world.server.address(), "/v1/jobs?limit=1000").await;
    until("it is cut off", async || value(&world, "windlass_http_slow_clients_total").await == 1.0).await;
    // What it gets is a part, and then an end.
    let mut part = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), slow.read_to_end(&mut part)).await.expect("an end");
    assert!(read.is_err() || part.len() < 15_000_000, "{} bytes", part.len());
    // Whoever reads slowly, and reads, gets all of it.
    let whole = world.get("/v1/jobs?limit=1000").await.ok();
    assert_eq!(whole["items"].as_array().unwrap().len(), 300);
    assert_eq!(value(&world, "windlass_http_slow_clients_total").await, 1.0);
}

#[tokio::test]
async fn a_stream_that_is_not_read_is_ended_and_counted_and_its_place_is_free_again() {
    let world = World::with(None, hurried()).await;
    let slow = asks(world.server.address(), "/v1/events").await;
    until("it is open", async || value(&world, "windlass_http_streams").await == 1.0).await;
    let mut plans = 0;
    until("it is cut off", async || {
        plans += 1;
        let tasks: Vec<Value> = (0..200).map(|n| json!({"tenant": format!("t-{plans}-{n}"), "config": {}})).collect();
        // Long names make much to read.
        let name = |n: usize| format!("{n}-{}", "x".repeat(56));
        let stages: Vec<Value> = (0..30).map(|n| json!({"name": name(n), "sleep": "0ms"})).collect();
        let id = format!("p-{plans}");
        let plan = json!({"plan": "p", "id": id, "max_concurrency": 200, "stages": stages, "tasks": tasks});
        world.post("/v1/plans?start=true", plan).await.ok();
        world.get(&format!("/v1/plans/{id}?wait=20s")).await.ok();
        let cut = value(&world, "windlass_http_slow_clients_total").await;
        cut + value(&world, "windlass_http_slow_streams_total").await >= 1.0
    })
    .await;
    until("its place is free", async || value(&world, "windlass_http_streams").await == 0.0).await;
    drop(slow);
    world.get("/healthz").await.ok();
}
