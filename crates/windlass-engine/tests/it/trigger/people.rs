//! What people do with triggers.

use windlass_core::port::Refusal;
use windlass_core::trigger::Noted;
use windlass_engine::Error;
use windlass_engine::command::Caller;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_preview_is_what_then_happens() {
    for schedule in [r#"{"every": "900ms"}"#, r#"{"cron": "*/3 * * * * *"}"#, r#"{"after": "2s"}"#] {
        let hall = Hall::new();
        let desk = hall.desk().await;
        pass(123).await;
        let spec = job(schedule, "");
        let preview = desk.engine.triggers().unwrap().preview(&parse(&spec), 4);
        desk.save("t", &spec).await;
        pass(10_500).await;
        let times = hall.times().await;
        let preview: Vec<u64> = preview.iter().map(|at| at.since(BEGIN)).collect();
        assert_eq!(times[..preview.len().min(times.len())], preview[..preview.len().min(times.len())], "{schedule}");
        assert!(times.len() >= preview.len().min(3), "{schedule}: {times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    let dry = Caller { dry_run: true, ..by("ann") };
    let table = desk.engine.triggers().unwrap();
    let id = "t".parse().unwrap();
    let shown = table.save(Some("t".parse().unwrap()), parse(&job(r#"{"every": "1s"}"#, "")), &dry).await.unwrap();
    assert_eq!(shown.run.trigger_at, BEGIN.plus(1_000));
    assert!(matches!(table.get(&id).await, Err(Error::Store(Refusal::NotFound(_)))));
    let stored = desk.save("t", &job(r#"{"every": "1h"}"#, "")).await;
    table.fire(&id, &dry).await.unwrap();
    table.skip(&id, &dry).await.unwrap();
    table.pause(&id, &dry).await.unwrap();
    table.resume(&id, &dry).await.unwrap();
    pass(10).await;
    assert_eq!((table.get(&id).await.unwrap(), hall.notes("t").await), (stored, vec![]));
    assert_eq!(hall.times().await, [] as [u64; 0]);
}

#[tokio::test(start_paused = true)]
async fn pause_resume_skip_and_remove() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    let table = desk.engine.triggers().unwrap();
    let id = "t".parse().unwrap();
    desk.save("t", &job(r#"{"every": "1s"}"#, "")).await;
    pass(1_500).await;
    table.pause(&id, &by("bob")).await.unwrap();
    pass(3_000).await;
    table.resume(&id, &by("bob")).await.unwrap();
    pass(1_000).await;
    assert_eq!(hall.times().await, [1_000, 5_000]);
    table.skip(&id, &by("bob")).await.unwrap();
    pass(2_000).await;
    assert_eq!(hall.times().await, [1_000, 5_000, 7_000]);
    assert!(hall.notes("t").await.contains(&(6_000, Noted::Skipped("by bob".to_owned()))));
    assert!(table.remove(&id).await.unwrap());
    assert!(!table.remove(&id).await.unwrap(), "the second time there is none");
    pass(3_000).await;
    assert_eq!(hall.times().await, [1_000, 5_000, 7_000]);
}

#[tokio::test(start_paused = true)]
async fn fire_consumes_a_single_one_and_adds_to_a_recurring_one() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("once", &job(r#"{"after": "1h"}"#, "")).await;
    desk.save("every", &job(r#"{"every": "1h"}"#, "")).await;
    pass(10).await;
    desk.fire("once").await;
    pass(10).await;
    assert_eq!((hall.times().await, hall.status("once").await), (vec![10], TriggerStatus::Completed));
    // Two in one millisecond are two.
    desk.fire("every").await;
    desk.fire("every").await;
    pass(10).await;
    assert_eq!(hall.times().await, [10, 20, 21]);
    assert_eq!(hall.get("every").await.run.trigger_at, BEGIN.plus(3_600_000), "and the next one comes");
    let again = desk.engine.triggers().unwrap().fire(&"once".parse().unwrap(), &by("bob")).await;
    assert!(matches!(again, Err(Error::Store(Refusal::State { .. }))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_carried_out_is_not_changed_under_its_owner() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    desk.save("t", &plan(r#"{"after": "1s"}"#, "")).await;
    desk.ports.refuse_settles();
    pass(1_100).await;
    let table = desk.engine.triggers().unwrap();
    let id: TriggerId = "t".parse().unwrap();
    let saved = table.save(Some(id.clone()), parse(&job(r#"{"every": "1s"}"#, "")), &by("bob")).await;
    match saved {
        Err(Error::Store(Refusal::Owned { owner, until })) => {
            assert_eq!(owner.as_ref(), Some(desk.engine.instance()));
            assert!(until > hall.now());
        }
        other => panic!("{other:?}"),
    }
    table.pause(&id, &by("bob")).await.unwrap();
    assert!(hall.get("t").await.paused.is_some(), "a pause says what comes after");
    assert!(table.remove(&id).await.unwrap(), "whoever carries it out");
}

#[tokio::test(start_paused = true)]
async fn what_never_fires_or_cannot_is_refused_at_once() {
    let hall = Hall::new();
    let desk = hall.desk().await;
    let table = desk.engine.triggers().unwrap();
    let bad = plan(r#"{"after": "1s"}"#, "").replace(r#"{"name":"do"}"#, r#"{"name":"nobody"}"#);
    let refused = table.save(None, parse(&bad), &by("ann")).await;
    assert!(refused.is_err(), "{refused:?}");
    let new = table.save(None, parse(&job(r#"{"after": "1s"}"#, "")), &by("ann")).await.unwrap();
    assert_eq!(hall.get(new.id.as_str()).await.version, 1, "it has an id of its own");
    pass(1_100).await;
    assert_eq!(desk.queues.list(&JobFilter::default(), None, 10).await.unwrap().items.len(), 1);
}
