//! Waiting for plans and tasks, and how an instance says that it is well.

use std::time::Duration;

use windlass_core::plan::PlanStatus;
use windlass_core::port::Refusal;
use windlass_core::task::command::RetryFrom;
use windlass_core::task::status::TaskStatus;
use windlass_engine::Error;
use windlass_engine::query::pulse::Part;

use crate::world::{PATIENCE, World, brief, nth, of, plan, plan_of, retry, until};

#[tokio::test]
async fn whoever_waits_for_a_plan_is_told_when_it_has_ended() {
    let world = World::new().await;
    world.script.shut("acme/b");
    let id = world.start(&plan(2, &["acme", "bolt"])).await;
    let waits = world.engine.wait_plan(&id, PATIENCE);
    let goes_on = async {
        world.script.entered("acme/b").await;
        world.script.let_go("acme/b");
    };
    let (waited, ()) = tokio::join!(waits, goes_on);
    assert_eq!(waited.unwrap().unwrap().plan.status, PlanStatus::Completed);
    // It has ended: nobody waits.
    assert!(world.engine.wait_plan(&id, Duration::ZERO).await.unwrap().is_some());
}

#[tokio::test]
async fn a_plan_that_only_people_can_move_is_not_waited_for() {
    let world = World::new().await;
    world.script.fail("acme/a");
    // Paused by the one that failed, while the other has not begun.
    let id = world.start(&plan_of("on_failure: pause\nmax_concurrency: 1", &["a", "b"], &["acme", "beta"])).await;
    let waited = world.engine.wait_plan(&id, PATIENCE).await.unwrap().unwrap();
    assert_eq!((waited.plan.status, waited.tally.of(TaskStatus::Failed)), (PlanStatus::Paused, 1));
    // A retry that was asked for is something that moves, also before it has begun.
    world.script.heal("acme/a");
    world.script.shut("acme/b");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    assert!(world.engine.wait_plan(&id, Duration::ZERO).await.unwrap().is_none());
    world.script.let_go("acme/b");
    let waited = world.engine.wait_plan(&id, PATIENCE).await.unwrap().unwrap();
    assert_eq!((waited.plan.status, waited.tally.of(TaskStatus::Completed)), (PlanStatus::Paused, 1));
}

#[tokio::test]
async fn the_time_of_a_wait_is_kept_and_what_is_not_there_is_said_at_once() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    let limit = Duration::from_millis(20);
    assert!(world.engine.wait_plan(&id, limit).await.unwrap().is_none());
    assert!(world.engine.wait_task(&of("acme"), limit).await.unwrap().is_none());
    let nothing = world.engine.wait_plan(&"no-such".parse().unwrap(), PATIENCE).await;
    assert!(matches!(nothing, Err(Error::Store(Refusal::NotFound(_)))), "{nothing:?}");
    let nothing = world.engine.wait_task(&of("nobody"), PATIENCE).await;
    assert!(matches!(nothing, Err(Error::Store(Refusal::NotFound(_)))), "{nothing:?}");
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn what_another_instance_does_ends_a_wait_too() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    let other = world.another().await;
    let goes_on = async {
        world.script.let_go("acme/a");
        world.until_plan(&id, PlanStatus::Completed).await;
    };
    let acme = of("acme");
    let (plan, task, ()) = tokio::join!(other.wait_plan(&id, PATIENCE), other.wait_task(&acme, PATIENCE), goes_on);
    assert_eq!(plan.unwrap().unwrap().plan.status, PlanStatus::Completed);
    assert_eq!(task.unwrap().unwrap().task.status, TaskStatus::Completed);
}

#[tokio::test]
async fn a_wait_for_a_task_ends_when_it_rests_whatever_else_goes_on() {
    let world = World::new().await;
    world.script.shut("bolt/a");
    world.script.fail("acme/a");
    let id = world.start(&plan_of("on_failure: continue", &["a"], &["acme", "bolt"])).await;
    let waited = world.engine.wait_task(&nth(&id, 0), PATIENCE).await.unwrap().unwrap();
    assert_eq!(waited.task.status, TaskStatus::Failed);
    assert!(!world.engine.rests(&id).await.unwrap(), "bolt's goes on");
    world.script.let_go("bolt/a");
    world.engine.wait_plan(&id, PATIENCE).await.unwrap().unwrap();
}

#[tokio::test]
async fn nobody_waits_for_an_engine_that_stops() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    let waits = world.engine.wait_plan(&id, PATIENCE);
    // It hears of the stop at its next look.
    let stops = async { world.engine.kill() };
    let (waited, ()) = tokio::join!(waits, stops);
    assert!(waited.unwrap().is_none());
    assert!(world.engine.pulse().stopping && !world.engine.pulse().is_well());
}

#[tokio::test]
async fn an_instance_is_well_while_its_loops_come_round_and_its_store_answers() {
    let (world, flaky) = World::flaky(brief()).await;
    until("it is well", async || world.engine.pulse().is_well()).await;
    flaky.down();
    until("the store is found to be away", async || world.engine.pulse().down_since.is_some()).await;
    assert!(!world.engine.pulse().is_well());
    flaky.up();
    until("it is well again", async || world.engine.pulse().is_well()).await;
}

#[tokio::test]
async fn a_loop_that_does_not_come_round_is_named_and_only_that_one() {
    let (world, flaky) = World::flaky(brief()).await;
    until("it is well", async || world.engine.pulse().is_well()).await;
    flaky.beats_take(3_000);
    let mut stalled = Vec::new();
    until("the loop is missed", async || {
        stalled = world.engine.pulse().stalled;
        !stalled.is_empty()
    })
    .await;
    assert_eq!(stalled.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [Part::Lease]);
    assert!(stalled[0].1 > 3 * 100 + 600, "{stalled:?}");
    assert!(!world.engine.pulse().is_well());
    flaky.beats_take(0);
    until("it is well again", async || world.engine.pulse().is_well()).await;
}
