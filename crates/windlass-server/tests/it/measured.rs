//! The values of /metrics, and what /readyz says: something is done, and then they are read.

use std::collections::BTreeMap;

use serde_json::json;

use crate::world::{World, approvals, until};

/// Every value, by its name with its labels.
async fn metrics(world: &World) -> BTreeMap<String, f64> {
    let text = world.get("/metrics").await.ok().as_str().unwrap().to_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

async fn value(world: &World, name: &str) -> f64 {
    *metrics(world).await.get(name).unwrap_or_else(|| panic!("{name} is not there"))
}

const HOUR_MS: u64 = 3_600_000;
/// Leases that no test outlasts, and leases that end soon.
const LONG_MS: u64 = 30_000;
const SHORT_MS: u64 = 600;

#[tokio::test]
async fn a_persons_hour_is_human_time_and_no_machines() {
    let (world, _, clock) = World::flaky(LONG_MS).await;
    world.plan(&approvals("p", &["acme"]).replace("sleep: 1ms", "sleep: 30ms"), "?start=true").await.ok();
    assert_eq!(world.get("/v1/tasks/p-0?wait=20s").await.ok()["status"], "PAUSED");
    clock.forward(HOUR_MS);
    world.post("/v1/tasks/p-0/approve", json!({})).await.ok();
    assert_eq!(world.get("/v1/tasks/p-0?wait=20s").await.ok()["status"], "COMPLETED");
    until("the events are counted", async || value(&world, "windlass_task_machine_seconds_count").await == 1.0).await;
    let all = metrics(&world).await;
    let human = all["windlass_task_human_seconds_sum"];
    assert!((3_600.0..3_660.0).contains(&human), "{human}");
    let machine = all["windlass_task_machine_seconds_sum"];
    assert!((0.03..60.0).contains(&machine), "{machine}");
    assert_eq!(all["windlass_task_human_seconds_bucket{le=\"300\"}"], 0.0, "an hour is longer than five minutes");
    assert_eq!(all["windlass_task_human_seconds_count"], 1.0);
    // The stage slept for 30 ms; the approval is no stage that took time.
    let (stages, stage) = (all["windlass_stage_seconds_count"], all["windlass_stage_seconds_sum"]);
    assert!(stages >= 1.0 && (0.03..60.0).contains(&stage), "{stages} {stage}");
    assert_eq!(all["windlass_stage_seconds_bucket{le=\"0.025\"}"], stages - 1.0, "one of 30 ms");
}

#[tokio::test]
async fn writes_that_come_too_late_and_attempts_that_are_taken_away_are_counted() {
    let (world, ..) = World::flaky(LONG_MS).await;
    let before = metrics(&world).await;
    assert_eq!((before["windlass_stale_writes_total"], before["windlass_lease_losses_total"]), (0.0, 0.0));
    let id = world.post("/v1/jobs", json!({"queue": "q"})).await.ok()["id"].clone();
    let claimed = world.post("/v1/queues/q/claim", json!({"worker": "w", "max": 1})).await.ok();
    let fence = claimed["claimed"][0]["fence"].as_u64().unwrap();
    let late = json!({"worker": "w", "complete": [{"job": id, "fence": fence - 1}]});
    assert_eq!(world.post("/v1/claim", late).await.ok()["answers"][0]["code"], "WL-3003");
    assert_eq!(value(&world, "windlass_stale_writes_total").await, 1.0);
    world
        .plan(&approvals("p", &["acme"]).replace("approval: { message: \"Well?\" }", "sleep: 1h"), "?start=true")
        .await
        .ok();
    until("it runs", async || value(&world, "windlass_tasks_running").await == 1.0).await;
    until("its lock is held", async || world.get("/v1/tenants/acme/lock").await.ok().get("holder").is_some()).await;
    world.delete("/v1/tenants/acme/lock").await.ok();
    until("it is lost", async || value(&world, "windlass_lease_losses_total").await == 1.0).await;
    until("it does not run", async || value(&world, "windlass_tasks_running").await == 0.0).await;
}

#[tokio::test]
async fn queues_are_measured_by_what_waits_and_for_how_long() {
    let (world, _, clock) = World::flaky(LONG_MS).await;
    world.post("/v1/jobs", json!([{"queue": "q"}, {"queue": "q"}, {"queue": "q"}, {"queue": "r"}])).await.ok();
    world.post("/v1/queues/q/claim", json!({"worker": "w", "max": 1})).await.ok();
    clock.forward(100_000);
    let all = metrics(&world).await;
    assert_eq!(all["windlass_queue_jobs{queue=\"q\",state=\"waiting\"}"], 2.0);
    assert_eq!(all["windlass_queue_jobs{queue=\"q\",state=\"running\"}"], 1.0);
    assert_eq!(all["windlass_queue_jobs{queue=\"r\",state=\"waiting\"}"], 1.0);
    let age = all["windlass_queue_oldest_seconds{queue=\"q\"}"];
    assert!((100.0..160.0).contains(&age), "{age}");
}

#[tokio::test]
async fn how_late_a_trigger_is_claimed_is_measured() {
    let (world, ..) = World::flaky(LONG_MS).await;
    let soon = json!({"schedule": {"after": "1ms"}, "target": {"job": {"queue": "q"}}});
    world.put("/v1/triggers/soon", soon).await.ok();
    let claimed = world.post("/v1/queues/q/claim", json!({"worker": "w", "max": 1, "wait": "20s"})).await.ok();
    assert_eq!(claimed["claimed"].as_array().unwrap().len(), 1);
    let all = metrics(&world).await;
    assert_eq!(all["windlass_trigger_delay_seconds_count"], 1.0);
    assert_eq!(all["windlass_trigger_delay_seconds_bucket{le=\"+Inf\"}"], 1.0);
    assert!((0.0..20.0).contains(&all["windlass_trigger_delay_seconds_sum"]));
}

#[tokio::test]
async fn a_store_that_is_away_makes_the_server_not_ready_until_it_is_back() {
    let (world, flaky, _) = World::flaky(SHORT_MS).await;
    until("it is ready", async || world.get("/readyz").await.status == 200).await;
    flaky.down();
    until("it is not ready", async || world.get("/readyz").await.status == 503).await;
    let body = world.get("/readyz").await.body;
    assert_eq!(body["ready"], false);
    assert!(body["storeDownSince"].is_string(), "{body}");
    let all = metrics(&world).await;
    assert_eq!((all["windlass_degraded"], all["windlass_ready"]), (1.0, 0.0));
    until("a call without an answer is counted", async || {
        let all = metrics(&world).await;
        let failed = all.iter().filter(|(name, _)| name.starts_with("windlass_store_failures_total"));
        failed.map(|(_, n)| n).sum::<f64>() >= 1.0
    })
    .await;
    world.get("/healthz").await.ok();
    flaky.up();
    until("it is ready again", async || world.get("/readyz").await.status == 200).await;
    let all = metrics(&world).await;
    assert_eq!((all["windlass_degraded"], all["windlass_ready"]), (0.0, 1.0));
}

#[tokio::test]
async fn a_loop_that_stalls_makes_the_server_not_ready_until_it_comes_round() {
    let (world, flaky, _) = World::flaky(SHORT_MS).await;
    until("it is ready", async || world.get("/readyz").await.status == 200).await;
    flaky.beats_take(5_000);
    until("it is not ready", async || world.get("/readyz").await.status == 503).await;
    let body = world.get("/readyz").await.body;
    assert_eq!(body["stalled"][0]["part"], "lease", "{body}");
    assert_eq!(value(&world, "windlass_loop_stalled{loop=\"lease\"}").await, 1.0);
    assert_eq!(value(&world, "windlass_loop_stalled{loop=\"conduct\"}").await, 0.0);
    flaky.beats_take(0);
    until("it is ready again", async || world.get("/readyz").await.status == 200).await;
    assert_eq!(value(&world, "windlass_loop_stalled{loop=\"lease\"}").await, 0.0);
}

#[tokio::test]
async fn what_the_store_writes_at_once_is_measured() {
    let (world, ..) = World::flaky(LONG_MS).await;
    let before = metrics(&world).await;
    for _ in 0..3 {
        world.post("/v1/jobs", json!({"queue": "q"})).await.ok();
    }
    let after = metrics(&world).await;
    let grown = |name: &str| after[name] - before[name];
    let (batches, callers) = (grown("windlass_store_batch_size_count"), grown("windlass_store_batch_size_sum"));
    assert!(batches >= 3.0 && callers >= batches, "three submissions, one after the other: {batches} {callers}");
    assert_eq!(after["windlass_store_batch_size_bucket{le=\"+Inf\"}"], after["windlass_store_batch_size_count"]);
}
