//! Exact stage sets and event orders.

use windlass_core::plan::PlanStatus;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::Options;

use crate::world::{World, calm, plan, plan_of, retry, until};

#[tokio::test]
async fn every_stage_of_every_task_runs_once_in_order() {
    let world = World::new().await;
    let id = world.start(&plan(3, &["acme", "blue"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    let ran = world.script.take();
    let of = |tenant: &str| ran.iter().filter(|ran| ran.starts_with(tenant)).cloned().collect::<Vec<_>>();
    assert_eq!(of("acme"), ["acme/a/1 \"new\"", "acme/b/1 \"new\"", "acme/c/1 \"new\""]);
    assert_eq!(of("blue").len(), 3);
    assert_eq!(
        world.events("acme").await,
        [
            "TaskCreated",
            "TaskStarted",
            "StageStarted a",
            "StageCompleted a",
            "StageStarted b",
            "StageCompleted b",
            "StageStarted c",
            "StageCompleted c",
            "TaskCompleted"
        ]
    );
    assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanStarted", "PlanCompleted"]);
    let view = world.view("acme").await;
    assert_eq!(view.checkpoint, None, "the last stage leaves no checkpoint");
    assert!(view.task.context.unwrap().as_str().contains("acme/c"));
    assert_eq!(view.lock, None);
}

#[tokio::test]
async fn a_failed_task_goes_on_after_its_checkpoint() {
    let world = World::new().await;
    world.script.fail("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.view("acme").await.checkpoint.unwrap().last_completed_stage_index, 0);
    world.script.take();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_task("acme", TaskStatus::Failed).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal("acme/b");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

#[tokio::test]
async fn a_pause_takes_effect_at_the_boundary_and_resume_goes_on() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.task("acme", Command::Pause(Cause::Person)).await.unwrap();
    assert!(world.view("acme").await.pause_requested);
    world.script.let_go("acme/a");
    let view = world.until_task("acme", TaskStatus::Paused).await;
    assert!(view.lock.is_some());
    world.task("acme", Command::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
}

#[tokio::test]
async fn a_crash_moves_nothing_until_a_person_says_so() {
    let mut world =
        World::with(windlass_engine::Options { lease_ms: 300, beat_ms: 100, scan_ms: 50, ..Default::default() }).await;
    world.script.shut("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/b").await;
    world.crash().await;
    world.script.let_go("acme/b");
    world.script.take();
    world.until_interrupted("acme").await;
    assert_eq!(world.script.take(), Vec::<String>::new());
    assert!(world.engine.view_plan(&id).await.unwrap().interrupted);
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

/// Longer than the test waits: nothing is found by looking now and then.
const NEVER_MS: u64 = 60_000;

#[tokio::test]
async fn an_instance_with_room_for_one_takes_the_next_when_that_ends() {
    let world = World::with(Options { tasks_max: 1, scan_ms: NEVER_MS, ..calm() }).await;
    let id = world.start(&plan(1, &["acme", "blue", "coal"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_plan_with_one_slot_hands_out_the_next_when_that_ends() {
    let world = World::with(Options { scan_ms: NEVER_MS, ..calm() }).await;
    let id = world.start(&plan_of("max_concurrency: 1", &["a"], &["acme", "blue", "coal"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
}

const FIVE: [&str; 5] = ["acme", "blue", "coal", "dune", "echo"];

#[tokio::test]
async fn no_more_begin_than_keep_the_store_busy_and_the_rest_follow_by_themselves() {
    let options = Options { scan_ms: NEVER_MS, ..calm() };
    let (world, flaky) = World::flaky_as(options, |flaky| flaky.with_enough(2)).await;
    flaky.hold();
    let id = world.start(&plan_of("max_concurrency: 5", &["a"], &FIVE)).await;
    until("as many as keep it busy are with the store", async || flaky.commits() == 2).await;
    assert_eq!(world.engine.running(), 2);
    flaky.let_go();
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn who_is_in_a_stage_does_not_keep_the_store_busy() {
    let options = Options { scan_ms: NEVER_MS, ..calm() };
    let (world, _flaky) = World::flaky_as(options, |flaky| flaky.with_enough(2)).await;
    FIVE.iter().for_each(|tenant| world.script.shut(&format!("{tenant}/a")));
    let id = world.start(&plan_of("max_concurrency: 5", &["a"], &FIVE)).await;
    for tenant in FIVE {
        world.script.entered(&format!("{tenant}/a")).await;
    }
    assert_eq!(world.engine.running(), 5);
    FIVE.iter().for_each(|tenant| world.script.let_go(&format!("{tenant}/a")));
    world.until_plan(&id, PlanStatus::Completed).await;
}
