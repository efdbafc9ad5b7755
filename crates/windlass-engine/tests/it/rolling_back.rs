//! Rollbacks: which stages, in which order, with which config.

use windlass_core::plan::PlanStatus;
use windlass_core::refused::RefusedCode;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;

use crate::world::{World, plan, plan_of, refused, retry};

const BACK: Command = Command::Rollback { force: false };
const A: &str = "{ name: a, handler: { name: do }, undo: { handler: { name: undo } } }";
const C: &str = "{ name: c, handler: { name: do }, undo: { handler: { name: undo } } }";

#[tokio::test]
async fn a_completed_task_runs_all_its_stages_with_what_there_was_before() {
    let world = World::new().await;
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    let view = world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\"", "acme/c/2 \"old\""]);
    assert_eq!(view.checkpoint, None);
    let events = world.events("acme").await;
    assert_eq!(
        events[9..],
        [
            "TaskRollingBack",
            "StageStarted a",
            "StageCompleted a",
            "StageStarted b",
            "StageCompleted b",
            "StageStarted c",
            "StageCompleted c",
            "TaskRolledBack"
        ]
        .map(str::to_owned)[..]
    );
    world.until_plan(&id, PlanStatus::Failed).await;
    let expected = ["PlanCreated", "PlanStarted", "PlanCompleted", "PlanResumed", "PlanFailed"];
    assert_eq!(world.plan_events(&id).await, expected);
}

#[tokio::test]
async fn undo_actions_run_in_reverse_order_and_stages_without_one_are_passed_over() {
    let world = World::new().await;
    let id = world.start(&plan_of("", &[A, "b", C], &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["undo acme/c/2 \"new\"", "undo acme/a/2 \"new\""]);
    let events = world.events("acme").await;
    assert_eq!(
        events[9..],
        [
            "TaskRollingBack",
            "StageStarted c",
            "StageCompleted c",
            "StageStarted b",
            "StageSkipped b",
            "StageStarted a",
            "StageCompleted a",
            "TaskRolledBack"
        ]
        .map(str::to_owned)[..]
    );
}

#[tokio::test]
async fn a_failed_task_takes_back_the_failed_stage_too() {
    let world = World::new().await;
    world.script.fail("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal("acme/b");
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\""]);
}

#[tokio::test]
async fn a_paused_task_takes_back_what_it_has_done() {
    let world = World::new().await;
    world.script.shut("acme/a");
    world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.pause("acme").await.unwrap();
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::Paused).await;
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    let view = world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\""]);
    crate::world::until("the lock is given back", async || world.view("acme").await.lock.is_none()).await;
    assert_eq!(view.checkpoint, None);
}

#[tokio::test]
async fn a_cancelled_task_takes_back_what_it_has_done() {
    let world = World::new().await;
    world.script.shut("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.script.entered("acme/b").await;
    world.cancel("acme").await.unwrap();
    world.script.let_go("acme/b");
    world.until_task("acme", TaskStatus::Cancelled).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\""]);
}

#[tokio::test]
async fn a_failed_rollback_is_rolled_back_again_or_retried_from_the_start_only() {
    let world = World::new().await;
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    world.script.fail("acme/b");
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RollbackFailed).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\""]);
    world.until_plan(&id, PlanStatus::Failed).await;
    let kinds: Vec<_> = world.inbox().await.into_iter().map(|item| format!("{:?}", item.kind)).collect();
    assert_eq!(kinds, ["FailedRollback"]);
    let no = refused(world.task("acme", retry(RetryFrom::Checkpoint)).await);
    assert_eq!((no.code, no.state.as_str()), (RefusedCode::Stage, "ROLLBACK_FAILED"));
    world.script.heal("acme/b");
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/3 \"old\"", "acme/b/3 \"old\"", "acme/c/3 \"old\""]);
    let no = refused(world.task("acme", retry(crate::world::from_stage("b"))).await);
    assert_eq!(no.code, RefusedCode::Stage);
    world.until_plan(&id, PlanStatus::Failed).await;
    world.task("acme", retry(RetryFrom::Start)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/4 \"new\"", "acme/b/4 \"new\"", "acme/c/4 \"new\""]);
}

#[tokio::test]
async fn a_failed_rollback_is_retried_from_the_start() {
    let world = World::new().await;
    world.script.fail("acme/c");
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.fail("acme/b");
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RollbackFailed).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    world.script.heal("acme/b");
    world.script.heal("acme/c");
    world.script.take();
    world.task("acme", retry(RetryFrom::Start)).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/3 \"new\"", "acme/b/3 \"new\"", "acme/c/3 \"new\""]);
}

#[tokio::test]
async fn nobody_is_asked_for_an_approval_on_the_way_back() {
    let world = World::new().await;
    let approval = "{ name: ok, approval: { message: 'go on?' } }";
    let id = world.start(&plan_of("", &["a", approval, "b"], &["acme"])).await;
    world.until_task("acme", TaskStatus::Paused).await;
    let no = refused(world.task("acme", BACK).await);
    assert_eq!((no.code, no.instead), (RefusedCode::ApprovalWanted, vec!["approve", "reject", "cancel"]));
    world.task("acme", Command::Approve).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    world.script.take();
    world.task("acme", BACK).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\""]);
}

#[tokio::test]
async fn without_previous_and_undo_there_is_no_way_back() {
    let world = World::new().await;
    let yaml = "plan: p\nstages: [{ name: a, handler: { name: do } }]\ntasks: [{ tenant: acme, config: 1 }]\n";
    let id = world.start(yaml).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    let no = refused(world.task("acme", BACK).await);
    assert_eq!((no.code, no.state.as_str(), no.instead), (RefusedCode::NothingToTakeBack, "COMPLETED", vec![]));
}

#[tokio::test]
async fn a_rollback_yields_to_nobody() {
    let world = World::new().await;
    let id = world.start(&plan(2, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    world.script.take();
    world.script.shut("acme/a");
    world.task("acme", BACK).await.unwrap();
    world.script.entered("acme/a").await;
    for command in [Command::Pause(windlass_core::task::Cause::Person), Command::Resume, BACK, retry(RetryFrom::Start)]
    {
        let no = refused(world.task("acme", command).await);
        assert_eq!((no.code, no.state.as_str()), (RefusedCode::State, "ROLLING_BACK"));
    }
    assert_eq!(refused(world.cancel("acme").await).code, RefusedCode::State);
    world.plan(&id, windlass_engine::command::plan::Verb::Pause).await.unwrap();
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/2 \"old\"", "acme/b/2 \"old\""]);
}
