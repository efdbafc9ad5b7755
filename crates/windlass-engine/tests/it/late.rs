//! What comes too late: an instance that was taken for lost and is back, a lock that was taken away before anything was written
//! under it, a count of tasks that is old when it is told.

use std::sync::atomic::Ordering;

use windlass_core::event::Fact;
use windlass_core::plan::PlanStatus;
use windlass_core::port::lock::Force;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::Options;

use crate::flaky::{Flaky, Gate};
use crate::world::{World, brief, calm, nth, plan, retry, until};

/// What is asked of an interrupted task while its instance comes back and goes on.
async fn asked_for_nothing(command: Command, requested: &str, said: &str) {
    let (world, flaky) = World::flaky(brief()).await;
    world.script.shut("acme/b");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/b").await;
    flaky.down();
    // It has room for one task, which it has: what is asked of it waits.
    let options = Options { tasks_max: 1, ..brief() };
    let other = World::over(flaky.behind().0, flaky.behind().1, options).await;
    other.script.shut("blue/a");
    let busy = other.start(&plan(1, &["blue"])).await;
    other.script.entered("blue/a").await;
    other.until_interrupted("acme").await;
    other.task("acme", command).await.unwrap();
    flaky.up();
    until("its instance is back", async || !other.view("acme").await.interrupted).await;
    let why = other.why("acme").await;
    assert_eq!(why.cause, "running");
    let asked = format!("{said} was asked for by bob; the instance that was lost is back");
    assert!(why.text.starts_with("stage b runs on instance") && why.text.contains(&asked), "{}", why.text);
    world.script.let_go("acme/b");
    other.until_task("acme", TaskStatus::Completed).await;
    let events = ["TaskCreated", "TaskStarted", "StageStarted a", "StageCompleted a", "StageStarted b", requested];
    let end = ["StageCompleted b", "TaskCompleted"];
    assert_eq!(other.events("acme").await, [&events[..], &end[..]].concat());
    let why = other.why("acme").await;
    assert_eq!(why.cause, "completed");
    assert!(why.text.contains(&format!("; {said} was asked for by bob at 20")), "{}", why.text);
    assert!(why.text.ends_with("and dropped: the task moved on without it"), "{}", why.text);
    other.script.let_go("blue/a");
    other.until_plan(&busy, PlanStatus::Completed).await;
    other.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(other.script.of("acme"), Vec::<String>::new());
    assert_eq!(other.why("blue").await.text, "every stage is done");
}

#[tokio::test]
async fn a_retry_that_its_returning_owner_outran_is_in_the_history_and_why_says_so() {
    asked_for_nothing(retry(RetryFrom::Checkpoint), "TaskRetryRequested", "retry").await;
}

#[tokio::test]
async fn a_rollback_that_its_returning_owner_outran_is_in_the_history_and_why_says_so() {
    asked_for_nothing(Command::Rollback { force: false }, "TaskRollbackRequested", "rollback").await;
}

#[tokio::test]
async fn a_retry_that_begins_is_not_called_dropped() {
    let mut world = World::with(brief()).await;
    world.script.shut("acme/b");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/b").await;
    world.crash().await;
    world.script.let_go("acme/b");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    let events = world.events("acme").await;
    assert_eq!(events[5..7], ["TaskRetryRequested", "TaskRetryStarted"], "{events:?}");
    assert_eq!(world.why("acme").await.text, "every stage is done");
}

#[tokio::test]
async fn who_loses_its_lock_before_its_first_commit_does_nothing_once_another_has_written() {
    let (world, flaky) = World::flaky(calm()).await;
    flaky.hold();
    let before = flaky.commits();
    let id = world.start(&plan(2, &["acme"])).await;
    until("its first commit is on its way", async || flaky.commits() > before).await;
    assert_eq!(world.view("acme").await.task.status, TaskStatus::Pending, "nothing is written yet");
    let other = World::over(flaky.behind().0, flaky.behind().1, calm()).await;
    let held = other.tenant("acme", Force::Release).await.holder.unwrap();
    let second = other.start(&plan(2, &["acme"])).await;
    other.until_plan(&second, PlanStatus::Completed).await;
    let winner = other.engine.view_task(&nth(&second, 0)).await.unwrap().task.fence;
    assert!(winner > held.fence, "{winner:?} is not above {:?}", held.fence);
    assert_eq!(other.events_of(&nth(&id, 0)).await, ["TaskCreated", "LockForceReleased"]);
    flaky.let_go();
    until("it is refused", async || world.engine.counts().lost.load(Ordering::Relaxed) == 1).await;
    // It was never begun, so it is handed out again, under a fence of its own.
    other.until_plan(&id, PlanStatus::Completed).await;
    let history = other.engine.task_history(&nth(&id, 0)).await.unwrap();
    let fences = history.iter().filter_map(|event| match &event.fact {
        Fact::TaskStarted(begun) => Some(begun.fence),
        _ => None,
    });
    let fences: Vec<_> = fences.collect();
    assert!(matches!(fences[..], [fence] if fence > winner), "{fences:?} beside {:?} and {winner:?}", held.fence);
    let ran = [world.script.take(), other.script.take()].concat();
    assert_eq!(ran.len(), 4, "two plans of two stages, each once: {ran:?}");
}

#[tokio::test]
async fn a_plan_does_not_end_under_a_task_that_began_after_its_tasks_were_counted() {
    let (world, flaky) = World::flaky(Options { tasks_max: 1, ..calm() }).await;
    world.script.fail("acme/b");
    let id = world.start(&plan(2, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    // The only place is taken, so that what is asked for waits.
    world.script.shut("blue/a");
    let busy = world.start(&plan(1, &["blue"])).await;
    world.script.entered("blue/a").await;
    world.script.heal("acme/b");
    world.script.shut("acme/b");
    world.script.take();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    flaky.tallies.hold();
    let before = flaky.tallies.came();
    until("its tasks are counted: all have ended", async || flaky.tallies.came() > before).await;
    world.script.let_go("blue/a");
    world.script.entered("acme/b").await;
    flaky.tallies.let_go();
    // One conductor sees to both, one after the other.
    world.until_plan(&busy, PlanStatus::Completed).await;
    world.script.let_go("acme/b");
    world.until_plan(&id, PlanStatus::Completed).await;
    let events = world.plan_events(&id).await;
    assert_eq!(events, ["PlanCreated", "PlanStarted", "PlanFailed", "PlanResumed", "PlanCompleted"]);
}

/// Fails at its only stage; is asked for again once its plan's tasks were looked at through this gate, and before that is told.
async fn asked_for_behind(gate: &Gate, world: &World, flaky: &Flaky) {
    gate.hold();
    let before = gate.came();
    world.script.let_go("acme/a");
    until("its tasks are looked at", async || gate.came() > before).await;
    flaky.hold();
    world.script.heal("acme/a");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    gate.let_go();
    let busy = world.start(&plan(1, &["blue"])).await;
    flaky.let_go();
    // One conductor sees to both, one after the other.
    world.until_plan(&busy, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_plan_does_not_end_under_a_task_that_was_asked_for_after_its_tasks_were_looked_at() {
    let (world, flaky) = World::flaky(calm()).await;
    world.script.fail("acme/a");
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    asked_for_behind(&flaky.tallies, &world, &flaky).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanStarted", "PlanCompleted"]);
}

#[tokio::test]
async fn a_plan_that_was_taken_up_again_does_not_end_under_a_task_that_was_asked_for_after_its_tasks_were_looked_at() {
    let (world, flaky) = World::flaky(calm()).await;
    world.script.fail("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.take();
    world.script.shut("acme/a");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.script.entered("acme/a").await;
    asked_for_behind(&flaky.lists, &world, &flaky).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    let events = ["PlanCreated", "PlanStarted", "PlanFailed", "PlanResumed", "PlanCompleted"];
    assert_eq!(world.plan_events(&id).await, events);
}

#[tokio::test]
async fn a_plan_does_not_end_under_a_task_that_was_asked_for_before_its_tasks_were_looked_at() {
    let one = || Options { tasks_max: 1, ..calm() };
    let (world, flaky) = World::flaky(one()).await;
    world.script.fail("acme/a");
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    let other = World::over(flaky.behind().0, flaky.behind().1, one()).await;
    other.script.shut("blue/a");
    other.script.entered("blue/a").await;
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::Failed).await;
    world.script.heal("acme/a");
    // It is claimed, and that it begins is not written yet.
    flaky.hold();
    let before = flaky.commits();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    until("it is about to begin", async || flaky.commits() > before).await;
    other.script.let_go("blue/a");
    other.until_task("blue", TaskStatus::Completed).await;
    // One conductor sees to both, one after the other.
    let next = other.start(&plan(1, &["cyan"])).await;
    other.until_plan(&next, PlanStatus::Completed).await;
    flaky.let_go();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanStarted", "PlanCompleted"]);
}
