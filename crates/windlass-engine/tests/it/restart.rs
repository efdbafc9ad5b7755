//! After a crash, a restart, a stop: nothing moves unless it said so, and everything says why.

use windlass_core::plan::PlanStatus;
use windlass_core::refused::RefusedCode;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::Options;
use windlass_engine::command::plan::Verb;
use windlass_engine::query::inbox::Kind;

use crate::world::{World, brief, calm, plan, plan_of, refused, retry, until};

/// Three tasks, one at a time: one is done, one is in its second stage when the process dies.
async fn crashed(settings: &str) -> (World, windlass_core::id::PlanId) {
    let mut world = World::with(brief()).await;
    world.script.shut("blue/b");
    let settings = format!("max_concurrency: 1\n{settings}");
    let id = world.start(&plan_of(&settings, &["a", "b"], &["acme", "blue", "cyan"])).await;
    world.script.entered("blue/b").await;
    world.crash().await;
    world.script.let_go("blue/b");
    world.script.take();
    (world, id)
}

#[tokio::test]
async fn a_restart_moves_nothing_and_the_inbox_names_what_was_interrupted() {
    let (world, id) = crashed("").await;
    let rows = world.engine.tasks_of(&id, &TaskStatus::ALL).await.unwrap();
    let events = world.plan_events(&id).await;
    let items = world.inbox().await;
    let kinds: Vec<_> = items.iter().map(|item| (item.kind, item.tenant.as_ref().map(ToString::to_string))).collect();
    assert_eq!(kinds, [(Kind::InterruptedPlan, None), (Kind::InterruptedTask, Some("blue".to_owned()))]);
    let why = world.why("blue").await;
    assert_eq!(why.cause, "interrupted");
    assert!(why.text.starts_with("interrupted: the lease of instance i-"), "{}", why.text);
    assert!(why.text.contains(" expired at 20"), "{}", why.text);
    assert_eq!(why.possible, ["retry", "rollback", "cancel", "skip-stage"]);
    let why = world.why("cyan").await;
    assert_eq!((why.cause, why.text), ("planInterrupted", format!("nobody conducts its plan {id}: resume the plan")));
    let why = world.engine.why_plan(&id).await.unwrap();
    assert_eq!((why.cause, why.possible), ("interrupted", vec!["resume", "pause", "cancel"]));
    // Another plan runs from its beginning to its end meanwhile: time enough to move something.
    let other = world.start(&plan(3, &["other"])).await;
    world.until_plan(&other, PlanStatus::Completed).await;
    assert_eq!(world.script.of("other").len(), world.script.take().len());
    assert_eq!(world.engine.tasks_of(&id, &TaskStatus::ALL).await.unwrap(), rows);
    assert_eq!(world.plan_events(&id).await, events);
}

#[tokio::test]
async fn a_quick_restart_moves_nothing_however_long_a_beat_is_on_its_way() {
    let options = Options { tasks_max: 1, ..brief() };
    let (mut world, flaky) = World::flaky(options).await;
    world.script.shut("acme/a");
    // There is room in the plan for both, and in the instance for one: the other is ready when the process dies.
    let id = world.start(&plan_of("", &["a"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    world.engine.kill();
    // While the lease of the dead runs; when it is over, the new one hears of the store's clock late.
    flaky.beats_take(150);
    world.engine = world.another().await;
    until("the plan is interrupted", async || world.engine.view_plan(&id).await.unwrap().interrupted).await;
    let other = world.start(&plan(3, &["other"])).await;
    world.until_plan(&other, PlanStatus::Completed).await;
    assert_eq!(world.script.of("blue"), Vec::<String>::new());
    assert_eq!(world.why("blue").await.cause, "planInterrupted");
}

#[tokio::test]
async fn resume_moves_the_rest_of_an_interrupted_plan_and_not_its_interrupted_task() {
    let (world, id) = crashed("").await;
    world.plan(&id, Verb::Resume).await.unwrap();
    until("the interrupted task holds its slot", async || world.why("cyan").await.cause == "slot").await;
    assert!(world.view("blue").await.interrupted);
    for command in [Command::Pause(windlass_core::task::Cause::Person), Command::Resume] {
        let no = refused(world.task("blue", command).await);
        assert_eq!((no.code, no.state.as_str()), (RefusedCode::Interrupted, "RUNNING, interrupted"));
    }
    world.task("blue", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["blue/b/1 \"new\"", "cyan/a/1 \"new\"", "cyan/b/1 \"new\""]);
    assert_eq!(world.view("blue").await.task.retries, 1);
}

#[tokio::test]
async fn an_interrupted_task_is_rolled_back_with_the_stage_it_was_in() {
    let (world, _) = crashed("").await;
    world.task("blue", Command::Rollback { force: false }).await.unwrap();
    world.until_task("blue", TaskStatus::RolledBack).await;
    assert_eq!(world.script.of("blue"), ["blue/a/2 \"old\"", "blue/b/2 \"old\""]);
}

#[tokio::test]
async fn an_interrupted_task_is_cancelled_at_once_and_its_stage_is_not_forgotten() {
    let (world, id) = crashed("").await;
    world.cancel("blue").await.unwrap();
    let view = world.view("blue").await;
    assert_eq!(view.task.status, TaskStatus::Cancelled);
    let events = world.events("blue").await;
    assert_eq!(events[4..], ["StageStarted b", "StageFailed b", "TaskCancelled"].map(str::to_owned)[..]);
    world.plan(&id, Verb::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Failed).await;
    world.task("blue", Command::Rollback { force: false }).await.unwrap();
    world.until_task("blue", TaskStatus::RolledBack).await;
    assert_eq!(world.script.of("blue"), ["blue/a/2 \"old\"", "blue/b/2 \"old\""]);
}

#[tokio::test]
async fn an_interrupted_plan_is_cancelled() {
    let (world, id) = crashed("").await;
    world.plan(&id, Verb::Cancel).await.unwrap();
    world.until_plan(&id, PlanStatus::Cancelled).await;
    assert_eq!(world.script.take(), Vec::<String>::new());
}

#[tokio::test]
async fn an_interrupted_rollback_is_rolled_back_again_or_retried_from_the_start() {
    let mut world = World::with(brief()).await;
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    world.script.take();
    world.script.shut("acme/b");
    world.task("acme", Command::Rollback { force: false }).await.unwrap();
    world.script.entered("acme/b").await;
    world.crash().await;
    world.script.let_go("acme/b");
    world.script.take();
    assert_eq!(world.why("acme").await.possible, ["rollback", "retry"]);
    assert_eq!(refused(world.task("acme", retry(RetryFrom::Checkpoint)).await).code, RefusedCode::Stage);
    world.task("acme", Command::Rollback { force: false }).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/3 \"old\"", "acme/b/3 \"old\"", "acme/c/3 \"old\""]);
}

#[tokio::test]
async fn with_recovery_auto_the_plan_and_its_tasks_go_on_and_that_counts_as_a_retry() {
    let (world, id) = crashed("recovery: auto").await;
    world.until_plan(&id, PlanStatus::Completed).await;
    let ran = world.script.take();
    assert_eq!(ran, ["blue/b/1 \"new\"", "cyan/a/1 \"new\"", "cyan/b/1 \"new\""]);
    assert_eq!(world.view("blue").await.task.retries, 1);
    let expected = ["PlanCreated", "PlanStarted", "PlanResumed", "PlanCompleted"];
    assert_eq!(world.plan_events(&id).await, expected);
}

#[tokio::test]
async fn with_recovery_auto_the_limit_of_retries_holds_and_the_task_waits_for_a_person() {
    let mut world = World::with(windlass_engine::Options { retry_limit: 1, ..brief() }).await;
    world.script.shut("acme/a");
    let id = world.start(&plan_of("recovery: auto", &["a"], &["acme"])).await;
    for _ in 0..2 {
        world.script.entered("acme/a").await;
        world.script.take();
        world.crash().await;
    }
    until("the plan is conducted", async || !world.engine.view_plan(&id).await.unwrap().interrupted).await;
    let kinds: Vec<_> = world.inbox().await.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [Kind::InterruptedTask]);
    assert_eq!(refused(world.task("acme", retry(RetryFrom::Checkpoint)).await).code, RefusedCode::RetryLimit);
    assert_eq!(world.script.take(), Vec::<String>::new());
}

#[tokio::test]
async fn an_instance_that_was_up_takes_the_plan_over_and_leaves_interrupted_tasks_to_a_person() {
    let world = World::with(brief()).await;
    world.script.shut("acme/a");
    let id = world.start(&plan_of("max_concurrency: 1", &["a"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    let other = world.another().await;
    assert_eq!(world.view("acme").await.task.owner.as_ref(), Some(world.engine.instance()));
    world.heard().await;
    world.engine.kill();
    world.script.let_go("acme/a");
    let world = World { engine: other, ..world };
    until("it is conducted", async || {
        let plan = world.engine.view_plan(&id).await.unwrap().plan;
        plan.conductor.as_ref() == Some(world.engine.instance())
    })
    .await;
    world.until_interrupted("acme").await;
    let kinds: Vec<_> = world.inbox().await.iter().map(|item| item.kind).collect();
    assert_eq!(kinds, [Kind::InterruptedTask]);
    world.cancel("acme").await.unwrap();
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.script.of("blue"), ["blue/a/1 \"new\""]);
    assert_eq!(world.script.of("acme"), ["acme/a/1 \"new\""]);
}

#[tokio::test]
async fn a_stop_lets_stages_end_and_hands_everything_back_at_once() {
    let mut world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan_of("max_concurrency: 1", &["a", "b"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    let engine = world.engine.clone();
    let stop = tokio::spawn(async move { engine.stop().await });
    let look = windlass_engine::command::Caller { dry_run: true, ..crate::world::by("bob") };
    let pause = crate::world::order(crate::world::of("acme"), Command::Pause(windlass_core::task::Cause::Person));
    until("it takes no more orders", async || {
        matches!(world.engine.task(&pause, &look).await, Err(windlass_engine::Error::Stopping))
    })
    .await;
    world.script.let_go("acme/a");
    assert_eq!(stop.await.unwrap().interrupted, []);
    world.engine = world.another().await;
    let view = world.view("acme").await;
    assert!(view.interrupted, "long before the lease would have ended");
    assert_eq!(view.checkpoint.unwrap().last_completed_stage_index, 0, "what the stage did is kept");
    assert!(world.engine.view_plan(&id).await.unwrap().interrupted);
    world.script.take();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "blue/a/1 \"new\"", "blue/b/1 \"new\""]);
}

#[tokio::test]
async fn a_stop_that_cannot_wait_says_what_it_interrupted() {
    let mut world = World::with(windlass_engine::Options { drain_ms: 20, ..calm() }).await;
    world.script.shut("acme/a");
    world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    let stopped = world.engine.stop().await;
    assert_eq!(stopped.interrupted, [world.view("acme").await.task.id]);
    world.engine = world.another().await;
    assert!(world.view("acme").await.interrupted);
    world.script.let_go("acme/a");
    world.script.take();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_task("acme", TaskStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
}

#[tokio::test]
async fn a_plan_of_which_only_interrupted_tasks_are_left_rests_until_a_person_decides() {
    let mut world = World::with(brief()).await;
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    world.until_task("blue", TaskStatus::Completed).await;
    assert!(!world.engine.rests(&id).await.unwrap(), "it runs");
    world.crash().await;
    world.until_interrupted("acme").await;
    assert!(world.engine.rests(&id).await.unwrap(), "nobody runs it");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    assert!(!world.engine.rests(&id).await.unwrap(), "it is asked for, or runs again");
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Completed).await;
    assert!(world.engine.rests(&id).await.unwrap());
}
