//! Whatever comes in: each mistake has its own answer, nothing is half done, and the server stays up.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use windlass_server::Limits;

use crate::world::{Got, World};

async fn raw(world: &World, path: &str, kind: &str, body: impl Into<reqwest::Body>) -> Got {
    world.send(world.request(Method::POST, path).header("content-type", kind).body(body)).await
}

/// Nothing was written by what was refused.
async fn is_clean(world: &World) {
    assert_eq!(world.get("/v1/jobs").await.ok()["items"], json!([]));
    assert_eq!(world.get("/v1/plans").await.ok()["items"], json!([]));
    assert_eq!(world.get("/v1/triggers").await.ok()["items"], json!([]));
    world.get("/healthz").await.ok();
}

#[tokio::test]
async fn bodies_that_are_wrong_are_refused_each_in_its_way() {
    let world = World::new().await;
    const JSON: &str = "application/json";
    for (body, code) in [
        ("{\"queue\": ", "WL-6001"),
        ("", "WL-6001"),
        ("{\"queue\": \"q\"} x", "WL-6001"),
        ("{\"queue\": 7}", "WL-6002"),
        ("{}", "WL-6002"),
        ("[7]", "WL-6002"),
        ("null", "WL-6002"),
        ("{\"queue\": \"q\", \"colour\": 1}", "WL-6002"),
        ("{\"queue\": \"q\", \"runAt\": \"soon\"}", "WL-6002"),
        ("{\"queue\": \"q\", \"delay\": \"1s\", \"runAt\": 5}", "WL-6002"),
        ("{\"queue\": \"q\", \"priority\": 1000}", "WL-6002"),
        ("{\"queue\": \"q\", \"payload\": 01}", "WL-6001"),
    ] {
        let got = raw(&world, "/v1/jobs", JSON, body).await;
        assert_eq!((got.status, got.body["code"].as_str()), (400, Some(code)), "{body}: {got:?}");
        assert_eq!(got.kind, "application/problem+json");
    }
    raw(&world, "/v1/jobs", JSON, "{\"queue\": \"q\", \"maxAttempts\": 0}").await.refused(422, "WL-3013");
    raw(&world, "/v1/jobs", JSON, vec![b'"', 0xff, b'"']).await.refused(400, "WL-6001");
    raw(&world, "/v1/jobs", "text/plain", "{\"queue\": \"q\"}").await.refused(415, "WL-6007");
    raw(&world, "/v1/plans", "text/plain", "plan: p").await.refused(415, "WL-6007");
    let deep = format!("{{\"queue\": \"q\", \"payload\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    raw(&world, "/v1/jobs", JSON, deep).await.refused(400, "WL-6008");
    is_clean(&world).await;
}

#[tokio::test]
async fn a_huge_body_is_refused_whether_it_says_so_or_not() {
    let world = World::with(None, Limits { body_bytes: 100_000, ..Limits::default() }).await;
    let huge = format!("{{\"queue\": \"q\", \"payload\": \"{}\"}}", "x".repeat(200_000));
    raw(&world, "/v1/jobs", "application/json", huge.clone()).await.refused(413, "WL-6006");
    let chunks = futures_util::stream::iter(
        huge.into_bytes().chunks(1_000).map(|part| Ok::<_, std::io::Error>(part.to_vec())).collect::<Vec<_>>(),
    );
    raw(&world, "/v1/jobs", "application/json", reqwest::Body::wrap_stream(chunks)).await.refused(413, "WL-6006");
    is_clean(&world).await;
}

#[tokio::test]
async fn addresses_and_methods_that_are_not_there_are_problems_too() {
    let world = World::new().await;
    world.get("/v2/plans").await.refused(404, "WL-6004");
    world.get("/").await.refused(404, "WL-6004");
    world.delete("/v1/plans").await.refused(405, "WL-6005");
    world.get("/v1/plans/a%20b").await.refused(400, "WL-6003");
    world.get("/v1/plans/a%2Fb").await.refused(400, "WL-6003");
    world.get(&format!("/v1/plans/{}", "x".repeat(65))).await.refused(400, "WL-6003");
    world.get("/v1/jobs/7").await.refused(400, "WL-6003");
    world.get("/v1/jobs/550E8400-E29B-41D4-A716-446655440000").await.refused(400, "WL-6003");
    world.get("/v1/plans?status=%ff").await.refused(400, "WL-6003");
    for key in ["", &"k".repeat(257)] {
        let request =
            world.request(Method::POST, "/v1/jobs").header("idempotency-key", key).json(&json!({"queue": "q"}));
        world.send(request).await.refused(400, "WL-6003");
    }
    is_clean(&world).await;
}

#[tokio::test]
async fn bad_cursors_are_refused_by_every_list() {
    let world = World::new().await;
    for list in ["plans", "tasks", "jobs", "queues", "triggers", "locks", "instances"] {
        for cursor in ["x", "%00", "0", "%7B%7D", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"] {
            let got = world.get(&format!("/v1/{list}?after={cursor}")).await;
            assert!(got.status == 400 || got.status == 200, "{list} {cursor}: {got:?}");
        }
    }
    world.get("/v1/plans?after=x").await.refused(400, "WL-3022");
    world.get("/v1/jobs?after=x").await.refused(400, "WL-3022");
}

#[tokio::test]
async fn a_slow_client_is_let_go_and_delays_nobody() {
    let limits = Limits { head: Duration::from_millis(200), body: Duration::from_millis(200), ..Limits::default() };
    let mut world = World::with(None, limits).await;
    // A connection that is kept would be idle too long as well.
    world.http = reqwest::Client::builder().pool_max_idle_per_host(0).build().unwrap();
    let mut head = TcpStream::connect(world.server.address()).await.unwrap();
    head.write_all(b"GET /healthz HT").await.unwrap();
    let mut body = TcpStream::connect(world.server.address()).await.unwrap();
    body.write_all(
        b"POST /v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{",
    )
    .await
    .unwrap();
    world.get("/healthz").await.ok();
    let mut said = String::new();
    let read = tokio::time::timeout(Duration::from_secs(20), body.read_to_string(&mut said));
    read.await.expect("it is let go").unwrap();
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("WL-6009"), "{said}");
    let mut nothing = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), head.read_to_end(&mut nothing));
    // Closed, with or without a word.
    drop(read.await.expect("it is let go"));
    is_clean(&world).await;
}

#[tokio::test]
async fn connections_are_bounded_and_the_next_waits_its_turn() {
    let world = World::with(None, Limits { connections: 2, ..Limits::default() }).await;
    let one = TcpStream::connect(world.server.address()).await.unwrap();
    let two = TcpStream::connect(world.server.address()).await.unwrap();
    let ask = async {
        // A third that would be served at once if there were no bound.
        let mut three = TcpStream::connect(world.server.address()).await.unwrap();
        three.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut said = String::new();
        three.read_to_string(&mut said).await.unwrap();
        said
    };
    tokio::pin!(ask);
    // sleep: that nothing comes can only be seen by waiting a little.
    assert!(tokio::time::timeout(Duration::from_millis(300), &mut ask).await.is_err(), "a third was served");
    drop((one, two));
    let said = tokio::time::timeout(Duration::from_secs(20), ask).await.expect("its turn comes");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[tokio::test]
async fn a_page_of_somebody_else_cannot_use_the_loopback_of_this_machine() {
    let world = World::new().await;
    let from =
        async |name: &str, value: &str| world.send(world.request(Method::GET, "/v1/plans").header(name, value)).await;
    from("host", "evil.example").await.refused(403, "WL-6025");
    from("origin", "https://evil.example").await.refused(403, "WL-6025");
    from("origin", "null").await.refused(403, "WL-6025");
    from("origin", "http://localhost:3000").await.ok();
}

#[tokio::test]
async fn a_stop_answers_what_waits_and_ends_streams() {
    let world = World::new().await;
    world.plan(&crate::world::approvals("p1", &["acme"]), "").await.ok();
    let waiting = world.request(Method::GET, "/v1/plans/p1?wait=60s").send();
    let stream = world.request(Method::GET, "/v1/events").send().await.unwrap();
    let waiting = tokio::spawn(waiting);
    let World { server, .. } = world;
    tokio::time::timeout(Duration::from_secs(20), server.stop()).await.expect("it stops");
    drop(waiting.await);
    tokio::time::timeout(Duration::from_secs(20), stream.bytes()).await.expect("the stream ends").unwrap();
}
