//! Targets that fail, do not answer, or take long.

use std::sync::atomic::{AtomicU32, Ordering};

use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use windlass_core::trigger::Noted;

use super::*;
use crate::stage::server::read;
use crate::world::until;

/// Nobody has a plan of this name, so the operation fails.
fn hopeless(schedule: &str, more: &str) -> String {
    let target = r#"{"operation": {"do": "start", "on": {"plan": "nobody-1"}}}"#;
    format!(r#"{{"schedule": {schedule}, "target": {target}, "backoff": {{"firstMs": 100, "maxMs": 400}}{more}}}"#)
}

#[tokio::test(start_paused = true)]
async fn a_target_that_fails_is_tried_again_then_dead_and_a_person_may_requeue_it() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("t", &hopeless(r#"{"every": "60s"}"#, r#", "maxRetries": 2"#)).await;
    pass(60_050).await;
    let run = hall.get("t").await.run;
    assert_eq!((run.retry_count, run.status, run.trigger_at), (1, TriggerStatus::Pending, BEGIN.plus(60_000)));
    assert!((60_050..=60_100).contains(&run.try_at.since(BEGIN)), "it backs off: {}", run.try_at);
    assert!(run.error.unwrap().contains("nobody-1"));
    pass(4_950).await;

    let notes = hall.notes("t").await;
    let names: Vec<_> = notes.iter().map(|(at, what)| (*at, matches!(what, Noted::Died(_)))).collect();
    assert_eq!(names, [(60_000, false), (60_000, false), (60_000, true)]);
    let dead = format!("t-{}", BEGIN.plus(60_000).get());
    assert_eq!(desk.inbox().await, [(Kind::DeadOccurrence, dead.parse().unwrap())]);
    assert_eq!(hall.status(&dead).await, TriggerStatus::Dead);
    let next = hall.get("t").await.run;
    assert_eq!((next.trigger_at, next.retry_count, next.error), (BEGIN.plus(120_000), 0, None));

    // What it wants is there now.
    let yaml = crate::world::plan(1, &["acme"]).replace("plan: p", "plan: p\nid: nobody-1");
    desk.engine.create(&crate::world::file(&yaml), false, &by("ann")).await.unwrap();
    desk.fire(&dead).await;
    pass(100).await;
    let done = hall.get(&dead).await;
    assert_eq!((done.run.status, done.key()), (TriggerStatus::Completed, format!("t@{}", BEGIN.plus(60_000).get())));
    assert_eq!(desk.inbox().await, []);
    pass(60_000).await;
    assert_eq!(hall.get("t").await.run.trigger_at, BEGIN.plus(180_000), "the next occurrence came");
}

#[tokio::test(start_paused = true)]
async fn a_store_of_jobs_that_is_away_loses_nothing_and_counts_nothing() {
    let hall = Hall::new();
    let first = hall.desk().await;
    first.save("t", &job(r#"{"after": "1s"}"#, r#", "maxRetries": 0"#)).await;
    first.save("e", &job(r#"{"every": "10s"}"#, r#", "maxRetries": 0"#)).await;
    first.engine.stop().await;
    pass(10_500).await;

    let ports = Shaky::over(&hall.store);
    ports.refuse_jobs(true);
    let desk = hall.desk_with(ports, 2).await;
    pass(8_000).await;
    for id in ["t", "e"] {
        let run = hall.get(id).await.run;
        assert_eq!((run.retry_count, run.error), (0, None), "{id}");
        assert_ne!(run.status, TriggerStatus::Dead);
        assert_eq!(hall.notes(id).await, [], "{id}");
    }
    assert_eq!(hall.times().await, [] as [u64; 0]);
    desk.ports.refuse_jobs(false);
    pass(200).await;
    let mut times = hall.times().await;
    times.sort_unstable();
    assert_eq!(times, [1_000, 10_000]);
    assert_eq!(hall.status("t").await, TriggerStatus::Completed);
}

#[tokio::test]
async fn work_that_outlasts_scans_and_leases_runs_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/slow", listener.local_addr().unwrap());
    let (calls, open) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let (counted, opened) = (Arc::clone(&calls), Arc::clone(&open));
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read(&mut stream).await;
            counted.fetch_add(1, Ordering::SeqCst);
            opened.notified().await;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    });
    // Real connections want real time.
    let mut hall = Hall::new();
    hall.options = Options { lease_ms: 300, beat_ms: 100, scan_ms: 50, ..options() };
    let desk = hall.desk().await;
    let _other = hall.desk_with(Shaky::over(&hall.store), 2).await;
    let target = format!(r#"{{"http": {{"url": "{url}"}}}}"#);
    desk.save("slow", &format!(r#"{{"schedule": {{"after": "1ms"}}, "target": {target}}}"#)).await;
    until("it is called", async || calls.load(Ordering::SeqCst) > 0).await;
    let first = hall.get("slow").await.run;
    until("its lease would be over twice", async || hall.now() > first.lease_until.plus(300)).await;
    let now = hall.get("slow").await.run;
    assert_eq!((now.status, now.fence, now.retry_count), (TriggerStatus::Processing, first.fence, 0), "it is renewed");
    open.notify_one();
    until("it is over", async || hall.status("slow").await == TriggerStatus::Completed).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn a_frozen_tenant_fires_when_it_is_unfrozen() {
    use windlass_core::port::lock::Force;
    let hall = Hall::new();
    let desk = hall.desk().await;
    let freeze = async |what| desk.engine.tenant(&"acme".parse().unwrap(), what, &by("eve")).await.unwrap();
    freeze(Force::Freeze).await;
    desk.save("f", &job(r#"{"after": "1s"}"#, r#", "tenant": "acme""#)).await;
    desk.save("g", &job(r#"{"after": "1s"}"#, r#", "tenant": "other""#)).await;
    pass(60_000).await;
    let keys = async || hall.jobs().await.into_iter().map(|job| job.key.unwrap()).collect::<Vec<_>>();
    assert_eq!(keys().await, [format!("g@{}", BEGIN.plus(1_000).get())]);
    assert_eq!(hall.get("f").await.run.retry_count, 0);
    freeze(Force::Unfreeze).await;
    pass(5_000).await;
    assert_eq!(keys().await[1..], [format!("f@{}", BEGIN.plus(1_000).get())]);
}

#[tokio::test(start_paused = true)]
async fn notes_are_bounded() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("t", &job(r#"{"every": "100ms"}"#, "")).await;
    pass(30_050).await;
    let notes = hall.notes("t").await;
    assert_eq!(notes.len(), windlass_core::trigger::NOTES_MAX);
    assert_eq!((notes[0].0, notes[99].0), (20_100, 30_000), "the newest");
    assert_eq!(hall.times().await.len(), 300);
}
