//! What people do to a task that runs, waits or is queued.

use windlass_core::failure::FailureKind;
use windlass_core::plan::PlanStatus;
use windlass_core::refused::RefusedCode;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::command::task::Which;

use crate::world::{World, by, nth, of, order, plan, plan_of, refused, retry, until};

const APPROVAL: &str = "{ name: ok, approval: { message: 'go on with {{ tenant }}?' } }";
const NAP: &str = "{ name: nap, sleep: 1h }";
const AGAIN: &str = "{ name: b, handler: { name: do }, retry: { max: 3, backoff: 1h, max_backoff: 1h } }";

#[tokio::test]
async fn an_approval_waits_for_a_yes() {
    let world = World::new().await;
    let id = world.start(&plan_of("", &["a", APPROVAL, "b"], &["acme"])).await;
    let view = world.until_task("acme", TaskStatus::Paused).await;
    assert_eq!(view.checkpoint.unwrap().last_completed_stage_index, 0);
    assert!(view.lock.is_some(), "a paused task keeps its tenant");
    assert_eq!(world.why("acme").await.cause, "approval");
    assert_eq!(world.why("acme").await.possible, ["approve", "reject", "cancel"]);
    let kinds: Vec<_> = world.inbox().await.into_iter().map(|item| format!("{:?}", item.kind)).collect();
    assert_eq!(kinds, ["Approval"]);
    for command in [Command::Resume, Command::SkipStage(None), retry(RetryFrom::Checkpoint)] {
        assert_eq!(refused(world.task("acme", command).await).code, RefusedCode::ApprovalWanted);
    }
    world.task("acme", Command::Approve).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
    let events = world.events("acme").await;
    assert_eq!(
        events[2..],
        [
            "StageStarted a",
            "StageCompleted a",
            "StageStarted ok",
            "ApprovalWanted ok",
            "TaskPaused",
            "Approved ok",
            "TaskResumed",
            "StageStarted b",
            "StageCompleted b",
            "TaskCompleted"
        ]
        .map(str::to_owned)[..]
    );
}

#[tokio::test]
async fn a_rejection_fails_the_task_and_gives_its_tenant_back() {
    let world = World::new().await;
    let id = world.start(&plan_of("", &["a", APPROVAL, "b"], &["acme"])).await;
    world.until_task("acme", TaskStatus::Paused).await;
    let no = by("carl").because("too early".parse().unwrap());
    world.engine.task(&order(of("acme"), Command::Reject), &no).await.unwrap();
    let view = world.until_task("acme", TaskStatus::Failed).await;
    let failure = view.task.failure.unwrap();
    assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Rejected, "too early"));
    world.until_plan(&id, PlanStatus::Failed).await;
    crate::world::until("the lock is given back", async || world.view("acme").await.lock.is_none()).await;
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_task("acme", TaskStatus::Paused).await;
    world.task("acme", Command::Approve).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
}

#[tokio::test]
async fn a_running_stage_that_fails_is_passed_over_when_somebody_said_so() {
    let world = World::new().await;
    world.script.shut("acme/a");
    world.script.fail("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    let no = refused(world.task("acme", Command::SkipStage(Some("b".parse().unwrap()))).await);
    assert_eq!(no.code, RefusedCode::Stage);
    world.task("acme", Command::SkipStage(Some("a".parse().unwrap()))).await.unwrap();
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
    let events = world.events("acme").await;
    assert_eq!(events[2..5], ["StageStarted a", "StageSkipped a", "StageStarted b"].map(str::to_owned)[..]);
    let history = world.engine.task_history(&of("acme")).await.unwrap();
    let skipped = history.iter().find(|event| event.fact.name() == "StageSkipped").unwrap();
    assert_eq!(skipped.by.as_ref().unwrap().to_string(), "bob");
}

#[tokio::test]
async fn the_failed_stage_is_passed_over_and_a_retry_goes_on_after_it() {
    let world = World::new().await;
    world.script.fail("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.take();
    world.task("acme", Command::SkipStage(None)).await.unwrap();
    assert_eq!(world.view("acme").await.checkpoint.unwrap().last_completed_stage_index, 1);
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/c/1 \"new\""]);
}

#[tokio::test]
async fn when_the_last_stage_is_passed_over_a_retry_completes_the_task() {
    let world = World::new().await;
    world.script.fail("acme/b");
    let id = world.start(&plan(2, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.take();
    world.task("acme", Command::SkipStage(None)).await.unwrap();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), Vec::<String>::new());
}

#[tokio::test]
async fn a_paused_task_passes_over_its_next_stage() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.pause("acme").await.unwrap();
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::Paused).await;
    world.task("acme", Command::SkipStage(Some("b".parse().unwrap()))).await.unwrap();
    world.task("acme", Command::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/c/1 \"new\""]);
}

#[tokio::test]
async fn a_queued_task_is_cancelled_at_once() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan_of("max_concurrency: 1", &["a"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    let which = nth(&id, 1);
    world.engine.task(&order(which.clone(), Command::Cancel(Cause::Person)), &by("bob")).await.unwrap();
    let view = world.engine.view_task(&which).await.unwrap();
    assert_eq!(view.task.status, TaskStatus::Cancelled);
    assert_eq!(world.events_of(&which).await, ["TaskCreated", "TaskCancelled"]);
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\""]);
}

#[tokio::test]
async fn a_running_task_is_cancelled_at_its_boundary() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.cancel("acme").await.unwrap();
    assert_eq!(world.view("acme").await.task.status, TaskStatus::Running);
    let no = refused(world.cancel("acme").await);
    assert_eq!((no.code, no.state.as_str()), (RefusedCode::Asked, "RUNNING, cancelling"));
    assert_eq!(refused(world.pause("acme").await).code, RefusedCode::State);
    world.script.let_go("acme/a");
    let view = world.until_task("acme", TaskStatus::Cancelled).await;
    assert_eq!(view.checkpoint.unwrap().last_completed_stage_index, 0, "kept for diagnosis");
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\""]);
    let events = world.events("acme").await;
    let end = ["StageStarted a", "TaskCancelRequested", "StageCompleted a", "TaskCancelled"];
    assert_eq!(events[2..], end.map(str::to_owned)[..]);
    crate::world::until("the lock is given back", async || world.view("acme").await.lock.is_none()).await;
}

#[tokio::test]
async fn a_paused_task_is_cancelled_at_once_and_gives_its_tenant_back() {
    let world = World::new().await;
    let id = world.start(&plan_of("", &["a", APPROVAL], &["acme"])).await;
    world.until_task("acme", TaskStatus::Paused).await;
    world.cancel("acme").await.unwrap();
    assert_eq!(world.view("acme").await.task.status, TaskStatus::Cancelled);
    world.until_plan(&id, PlanStatus::Failed).await;
    crate::world::until("the lock is given back", async || world.view("acme").await.lock.is_none()).await;
}

#[tokio::test]
async fn a_pause_during_a_long_stage_is_visible_before_it_takes_effect() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    let caller = by("bob").because("lunch".parse().unwrap());
    world.engine.task(&order(of("acme"), Command::Pause(Cause::Person)), &caller).await.unwrap();
    let view = world.view("acme").await;
    assert_eq!((view.task.status, view.pause_requested), (TaskStatus::Running, true));
    let why = world.why("acme").await;
    assert!(why.text.starts_with("pausing by bob: lunch; stage a still runs on instance"), "{}", why.text);
    let no = refused(world.pause("acme").await);
    assert_eq!((no.code, no.instead), (RefusedCode::Asked, vec!["resume", "cancel", "skip-stage"]));
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::Paused).await;
    assert_eq!(world.why("acme").await.text, "paused by bob: lunch");
    crate::world::until("its attempt is over", async || world.engine.running() == 0).await;
    assert_eq!(refused(world.pause("acme").await).code, RefusedCode::State);
    world.task("acme", Command::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    let events = world.events("acme").await;
    assert_eq!(
        events[2..],
        [
            "StageStarted a",
            "TaskPauseRequested",
            "StageCompleted a",
            "TaskPaused",
            "TaskResumed",
            "StageStarted b",
            "StageCompleted b",
            "TaskCompleted"
        ]
        .map(str::to_owned)[..]
    );
}

#[tokio::test]
async fn a_pause_that_is_taken_back_before_the_boundary_stops_nothing() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.pause("acme").await.unwrap();
    world.task("acme", Command::Resume).await.unwrap();
    assert!(!world.view("acme").await.pause_requested);
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Completed).await;
    assert!(!world.events("acme").await.contains(&"TaskPaused".to_owned()));
}

#[tokio::test]
async fn the_last_stage_completes_the_task_whatever_was_asked_meanwhile() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.pause("acme").await.unwrap();
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Completed).await;
}

/// A task that sleeps, and what becomes of it.
async fn asleep() -> (World, windlass_core::id::PlanId) {
    let world = World::new().await;
    let id = world.start(&plan_of("", &["a", NAP, "b"], &["acme"])).await;
    let which = Which::Tenant("acme".parse().unwrap());
    crate::world::until("it sleeps", async || {
        world.engine.view_task(&which).await.is_ok_and(|view| view.task.stage == Some(1))
    })
    .await;
    (world, id)
}

#[tokio::test]
async fn a_sleep_yields_to_a_pause_and_begins_again() {
    let (world, _) = asleep().await;
    world.pause("acme").await.unwrap();
    let view = world.until_task("acme", TaskStatus::Paused).await;
    assert_eq!((view.task.completed, view.task.stage), (1, None));
    world.task("acme", Command::Resume).await.unwrap();
    world.until_task("acme", TaskStatus::Running).await;
    world.cancel("acme").await.unwrap();
    world.until_task("acme", TaskStatus::Cancelled).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\""]);
}

#[tokio::test]
async fn a_sleep_is_passed_over() {
    let (world, id) = asleep().await;
    world.task("acme", Command::SkipStage(None)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
}

/// A task that waits before it tries its stage again.
async fn backing_off() -> (World, windlass_core::id::PlanId) {
    let world = World::new().await;
    world.script.fail("acme/b");
    let id = world.start(&plan_of("", &["a", AGAIN, "c"], &["acme"])).await;
    world.script.entered("acme/b").await;
    (world, id)
}

#[tokio::test]
async fn a_back_off_yields_to_a_pause_and_the_stage_is_tried_again_on_resume() {
    let (world, id) = backing_off().await;
    world.pause("acme").await.unwrap();
    let view = world.until_task("acme", TaskStatus::Paused).await;
    assert_eq!(view.checkpoint.unwrap().failure_history.len(), 1, "what the stage did is not forgotten");
    world.script.heal("acme/b");
    world.script.take();
    world.task("acme", Command::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

#[tokio::test]
async fn a_back_off_yields_to_a_cancel_and_its_stage_is_taken_back_too() {
    let (world, id) = backing_off().await;
    world.cancel("acme").await.unwrap();
    world.until_task("acme", TaskStatus::Cancelled).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal("acme/b");
    world.script.take();
    world.task("acme", Command::Rollback { force: false }).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\""]);
}

#[tokio::test]
async fn a_back_off_is_passed_over() {
    let (world, id) = backing_off().await;
    world.task("acme", Command::SkipStage(None)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/b/1 \"new\"", "acme/c/1 \"new\""]);
}

/// Lists come in pages of a thousand; what is counted is counted over all of them.
#[tokio::test]
async fn why_counts_every_task_of_a_large_plan() {
    let world = World::new().await;
    let tenants: Vec<_> = (0..1_100).map(|i| format!("t{i}")).collect();
    let tenants: Vec<_> = tenants.iter().map(String::as_str).collect();
    let id = world.start(&plan_of("max_concurrency: 1100", &[APPROVAL], &tenants)).await;
    until("every task waits for a person", async || world.engine.rests(&id).await.unwrap()).await;
    let why = world.engine.why_plan(&id).await.unwrap();
    assert!(
        why.text.contains("1100 tasks have not ended: 0 interrupted, 1100 wait for an approval, 0 paused"),
        "{why:?}"
    );
    assert_eq!(world.engine.tasks_of(&id, &TaskStatus::ALL).await.unwrap().len(), 1_100);
}

#[tokio::test]
async fn an_approval_may_be_the_last_stage() {
    let world = World::new().await;
    let id = world.start(&plan_of("", &["a", APPROVAL], &["acme"])).await;
    world.until_task("acme", TaskStatus::Paused).await;
    world.task("acme", Command::Approve).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    let events = world.events("acme").await;
    assert_eq!(events[7..], ["Approved ok", "TaskResumed", "TaskCompleted"].map(str::to_owned)[..]);
    let context = world.view("acme").await.task.context.unwrap();
    assert!(context.as_str().contains("acme/a"), "{context}");
}
