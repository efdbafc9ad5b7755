//! The store goes away and comes back: what each policy makes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use windlass_core::failure::FailureKind;
use windlass_core::json::Json;
use windlass_core::plan::PlanStatus;
use windlass_core::port::PortError;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::bus::News;
use windlass_engine::{Error, OnOutage, Options};

use crate::flaky::Flaky;
use crate::world::{World, brief, calm, nth, plan, plan_of, retry, until};

fn policy(outage: OnOutage) -> Options {
    Options { outage, ..calm() }
}

/// A task of three stages in its first one, and the store gone.
async fn cut_off(options: Options) -> (World, Arc<Flaky>, windlass_core::id::PlanId) {
    let (world, flaky) = World::flaky(options).await;
    world.script.shut("acme/a");
    world.script.shut("acme/c");
    let id = world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/a").await;
    flaky.down();
    (world, flaky, id)
}

const ALL: [&str; 9] = [
    "TaskCreated",
    "TaskStarted",
    "StageStarted a",
    "StageCompleted a",
    "StageStarted b",
    "StageCompleted b",
    "StageStarted c",
    "StageCompleted c",
    "TaskCompleted",
];

#[tokio::test]
async fn degrade_goes_on_in_memory_says_so_and_writes_everything_when_the_store_is_back() {
    let (world, flaky, id) = cut_off(policy(OnOutage::Degrade)).await;
    let mut news = world.engine.subscribe();
    world.script.let_go("acme/a");
    world.script.entered("acme/c").await;
    let view = world.engine.view_task(&nth(&id, 0)).await.unwrap();
    assert_eq!((view.durable, view.task.completed, view.task.stage), (false, 2, Some(2)));
    let why = world.engine.why_task(&nth(&id, 0)).await.unwrap();
    assert_eq!((why.cause, why.possible), ("unsaved", vec!["pause", "cancel"]));
    assert!(why.text.starts_with("its state is held in memory since 20"), "{}", why.text);
    assert!(why.text.ends_with("the store is unreachable"), "{}", why.text);
    assert!(matches!(world.engine.inbox().await, Err(Error::Port(PortError::Unavailable(_)))));
    let before = flaky.commits();
    flaky.up();
    world.script.let_go("acme/c");
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.events("acme").await, ALL);
    assert!(flaky.commits() - before <= 3, "what was held is written in one commit");
    assert!(world.view("acme").await.durable);
    assert_eq!(world.script.take().len(), 3);
    let mut told = Vec::new();
    until("everybody has heard that the store is back", async || {
        while let Ok(news) = news.try_recv() {
            told.push(match news {
                News::Event { event, durable } => format!("{} {durable}", event.fact.name()),
                News::StoreDegraded { .. } => "degraded".to_owned(),
                News::StoreRestored => "restored".to_owned(),
                _ => continue,
            });
        }
        told.contains(&"restored".to_owned())
    })
    .await;
    assert_eq!(told[..3], ["degraded", "StageCompleted false", "StageStarted false"], "{told:?}");
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_not_written_twice() {
    let (world, flaky) = World::flaky(policy(OnOutage::Degrade)).await;
    world.script.shut("acme/a");
    world.script.shut("acme/c");
    let id = world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/a").await;
    flaky.lose(1);
    world.script.let_go("acme/a");
    world.script.entered("acme/c").await;
    flaky.up();
    world.script.let_go("acme/c");
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.events("acme").await, ALL);
    assert_eq!(world.script.take().len(), 3);
}

#[tokio::test]
async fn a_task_whose_last_answer_was_lost_has_ended_once() {
    let (world, flaky) = World::flaky(policy(OnOutage::Degrade)).await;
    world.script.shut("acme/c");
    let id = world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/c").await;
    flaky.lose(1);
    world.script.let_go("acme/c");
    until("the store is away", async || world.engine.view_plan(&id).await.is_err()).await;
    flaky.up();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.events("acme").await, ALL);
}

#[tokio::test]
async fn hold_waits_at_the_boundary_and_goes_on() {
    for settings in ["", "recovery: auto"] {
        let outage = if settings.is_empty() { OnOutage::Hold } else { OnOutage::Degrade };
        let (world, flaky) = World::flaky(policy(outage)).await;
        world.script.shut("acme/a");
        let id = world.start(&plan_of(settings, &["a", "b"], &["acme"])).await;
        world.script.entered("acme/a").await;
        let before = flaky.commits();
        flaky.down();
        world.script.let_go("acme/a");
        until("the boundary is reached", async || flaky.commits() > before).await;
        assert_eq!(world.script.take(), ["acme/a/1 \"new\""], "nothing further begins");
        until("it says why", async || {
            world.engine.why_task(&nth(&id, 0)).await.is_ok_and(|why| why.cause == "unsaved")
        })
        .await;
        flaky.up();
        world.until_plan(&id, PlanStatus::Completed).await;
        assert_eq!(world.script.take(), ["acme/b/1 \"new\""]);
        assert_eq!(world.events("acme").await.len(), 7);
    }
}

#[tokio::test]
async fn fail_ends_the_task_with_its_place_kept() {
    let (world, flaky, id) = cut_off(policy(OnOutage::Fail)).await;
    world.script.let_go("acme/a");
    until("it has failed in memory", async || {
        world.engine.view_task(&nth(&id, 0)).await.is_ok_and(|view| view.task.status == TaskStatus::Failed)
    })
    .await;
    assert!(!world.engine.view_task(&nth(&id, 0)).await.unwrap().durable);
    flaky.up();
    world.until_plan(&id, PlanStatus::Failed).await;
    let view = world.view("acme").await;
    assert_eq!(view.task.failure.unwrap().kind, FailureKind::Persistence);
    assert_eq!(view.checkpoint.unwrap().last_completed_stage_index, 0);
    let end = ["StageCompleted a", "StageStarted b", "StageFailed b", "TaskFailed"];
    assert_eq!(world.events("acme").await[3..], end.map(str::to_owned)[..]);
    world.script.let_go("acme/c");
    world.script.take();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

#[tokio::test]
async fn fail_in_the_first_commit_of_a_retry_keeps_the_checkpoint() {
    let (world, flaky) = World::flaky(policy(OnOutage::Fail)).await;
    world.script.fail("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal("acme/b");
    world.script.take();
    flaky.lose(1);
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    until("the store is away", async || world.engine.view_plan(&id).await.is_err()).await;
    flaky.up();
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.view("acme").await.checkpoint.unwrap().last_completed_stage_index, 0);
    assert_eq!(world.script.take(), Vec::<String>::new());
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

#[tokio::test]
async fn a_failure_that_was_written_late_pauses_its_plan_all_the_same() {
    let (world, flaky) = World::flaky(policy(OnOutage::Degrade)).await;
    world.script.shut("acme/a");
    world.script.fail("acme/a");
    let id = world.start(&plan_of("max_concurrency: 1\non_failure: pause", &["a"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    flaky.down();
    world.script.let_go("acme/a");
    until("it has failed in memory", async || {
        world.engine.view_task(&nth(&id, 0)).await.is_ok_and(|view| view.task.status == TaskStatus::Failed)
    })
    .await;
    flaky.up();
    world.until_plan(&id, PlanStatus::Paused).await;
    assert_eq!(world.view("blue").await.task.status, TaskStatus::Pending, "nothing more is handed out");
}

#[tokio::test]
async fn a_context_that_is_too_large_fails_the_task() {
    let world = World::new().await;
    world.script.returns("acme/b", Json::parse(&format!("\"{}\"", "x".repeat(300_000))).unwrap());
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    let view = world.view("acme").await;
    let failure = view.task.failure.unwrap();
    assert_eq!((failure.kind, failure.stage.to_string().as_str()), (FailureKind::Persistence, "b"));
    assert_eq!(view.checkpoint.unwrap().last_completed_stage_index, 0);
}

#[tokio::test]
async fn a_pause_is_taken_from_memory_while_the_store_is_away() {
    let (world, flaky, id) = cut_off(policy(OnOutage::Degrade)).await;
    let done = world.engine.task(&crate::world::order(nth(&id, 0), pause()), &crate::world::by("bob")).await.unwrap();
    assert!(done.asked && done.state.contains("in memory"), "{done:?}");
    let no = world.engine.task(&crate::world::order(nth(&id, 0), Command::Approve), &crate::world::by("bob")).await;
    assert!(matches!(no, Err(Error::Port(PortError::Unavailable(_)))), "{no:?}");
    world.script.let_go("acme/a");
    until("it has paused in memory", async || {
        world.engine.view_task(&nth(&id, 0)).await.is_ok_and(|view| view.task.status == TaskStatus::Paused)
    })
    .await;
    flaky.up();
    world.until_task("acme", TaskStatus::Paused).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\""]);
    assert_eq!(world.view("acme").await.task.hold.unwrap().by.unwrap().to_string(), "bob");
}

fn pause() -> Command {
    Command::Pause(windlass_core::task::Cause::Person)
}

#[tokio::test]
async fn an_attempt_stops_at_its_boundary_once_its_lock_may_have_run_out() {
    let (world, flaky, id) = cut_off(Options { lock_ms: 600, ..brief() }).await;
    let began = tokio::time::Instant::now();
    until("the lock has run out", async || began.elapsed().as_millis() > 700).await;
    world.script.let_go("acme/a");
    flaky.up();
    until("it is interrupted", async || world.engine.view_task(&nth(&id, 0)).await.is_ok_and(|view| view.interrupted))
        .await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\""]);
    assert_eq!(world.events("acme").await, ALL[..3]);
}

#[tokio::test]
async fn state_that_the_store_refuses_afterwards_is_dropped_counted_and_shown() {
    let (world, flaky, id) = cut_off(policy(OnOutage::Degrade)).await;
    world.script.let_go("acme/a");
    world.script.entered("acme/c").await;
    // Meanwhile somebody else was given the tenant, and has written under a higher fence.
    let other = World::over(flaky.behind().0, flaky.behind().1, calm()).await;
    other.tenant("acme", windlass_core::port::lock::Force::Release).await;
    let second = other.start(&plan(1, &["acme"])).await;
    other.until_plan(&second, PlanStatus::Completed).await;
    let events = other.events_of(&nth(&id, 0)).await;
    flaky.up();
    world.script.let_go("acme/c");
    until("it is dropped", async || world.engine.counts().dropped.load(Ordering::Relaxed) == 1).await;
    until("it is interrupted", async || world.engine.view_task(&nth(&id, 0)).await.unwrap().interrupted).await;
    let why = world.engine.why_task(&nth(&id, 0)).await.unwrap();
    assert_eq!(why.cause, "interrupted");
    assert!(why.text.contains("state kept in memory was dropped at 20"), "{}", why.text);
    assert_eq!(other.events_of(&nth(&id, 0)).await, events, "nothing of it was written");
}

#[tokio::test]
async fn without_locks_nothing_new_starts_and_with_them_it_does() {
    let (world, flaky) = World::flaky(calm()).await;
    flaky.locks_down();
    let id = world.start(&plan(1, &["acme"])).await;
    until("it is claimed", async || {
        let rows = world.engine.tasks_of(&id, &[TaskStatus::Pending]).await.unwrap();
        rows.iter().all(|row| row.task.owner.is_some())
    })
    .await;
    assert_eq!(world.script.take(), Vec::<String>::new());
    flaky.up();
    world.until_plan(&id, PlanStatus::Completed).await;
}
