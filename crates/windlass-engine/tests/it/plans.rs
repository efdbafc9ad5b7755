//! Plans: order, slots, what a failure does to the rest, and how they end.

use windlass_core::plan::PlanStatus;
use windlass_core::refused::RefusedCode;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::command::plan::Verb;

use crate::world::{World, nth, plan, plan_of, refused, retry, until};

/// Tenants t000, t001, …
fn tenants(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("t{i:03}")).collect()
}

fn wide(settings: &str, stages: &[&str], n: usize) -> String {
    let tenants = tenants(n);
    plan_of(settings, stages, &tenants.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn tasks_begin_in_the_order_of_the_plan() {
    let world = World::new().await;
    let id = world.start(&wide("max_concurrency: 1", &["a"], 12)).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    let expected: Vec<_> = tenants(12).iter().map(|tenant| format!("{tenant}/a/1 \"new\"")).collect();
    assert_eq!(world.script.take(), expected);
    assert_eq!(world.script.most_at_once(&id), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_together_never_run_more_tasks_than_the_plan_allows() {
    let world = World::new().await;
    let other = world.another().await;
    world.heard().await;
    let first = ["t000/a", "t001/a", "t002/a"];
    for at in first {
        world.script.shut(at);
    }
    let id = world.start(&wide("max_concurrency: 3", &["a", "b"], 60)).await;
    for at in first {
        world.script.entered(at).await;
    }
    assert_eq!(world.why("t003").await.text, "it waits for one of its plan's 3 slots; 3 tasks have them");
    for at in first {
        world.script.let_go(at);
    }
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.script.take().len(), 120);
    assert_eq!(world.script.most_at_once(&id), 3);
    let stages = (world.engine.stages(), other.stages());
    assert_eq!(stages.0 + stages.1, 120);
    assert!(stages.0 > 0 && stages.1 > 0, "both took part: {stages:?}");
}

#[tokio::test]
async fn a_plan_that_was_not_started_hands_out_nothing() {
    let world = World::new().await;
    let yaml = crate::world::file(&plan(1, &["acme"]));
    let id = world.engine.create(&yaml, false, &crate::world::by("ann")).await.unwrap().plan;
    let other = world.start(&plan(1, &["blue"])).await;
    world.until_plan(&other, PlanStatus::Completed).await;
    assert_eq!(world.why("acme").await.cause, "planReady");
    assert_eq!(world.engine.why_plan(&id).await.unwrap().possible, ["start", "cancel"]);
    for verb in [Verb::Pause, Verb::Resume] {
        let no = refused(world.plan(&id, verb).await);
        assert_eq!((no.code, no.state.as_str()), (RefusedCode::State, "READY"));
    }
    world.plan(&id, Verb::Start).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    let no = refused(world.plan(&id, Verb::Start).await);
    assert_eq!((no.code, no.instead), (RefusedCode::State, vec!["retry or rollback of a task"]));
}

#[tokio::test]
async fn a_plan_that_was_not_started_is_cancelled() {
    let world = World::new().await;
    let yaml = crate::world::file(&plan(1, &["acme", "blue"]));
    let id = world.engine.create(&yaml, false, &crate::world::by("ann")).await.unwrap().plan;
    world.plan(&id, Verb::Cancel).await.unwrap();
    world.until_plan(&id, PlanStatus::Cancelled).await;
    assert_eq!(world.engine.view_plan(&id).await.unwrap().tally.of(TaskStatus::Cancelled), 2);
    assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanCancelled"]);
}

#[tokio::test]
async fn when_a_task_fails_the_others_go_on() {
    let world = World::new().await;
    world.script.fail("t001/a");
    let id = world.start(&wide("max_concurrency: 1", &["a"], 4)).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.script.take().len(), 4);
    let tally = world.engine.view_plan(&id).await.unwrap().tally;
    assert_eq!((tally.of(TaskStatus::Completed), tally.of(TaskStatus::Failed), tally.total()), (3, 1, 4));
    let history = world.engine.plan_history(&id).await.unwrap();
    let last = &history.last().unwrap().fact;
    assert_eq!(*last, windlass_core::event::Fact::PlanFailed { tally }, "the outcome has its counts");
}

#[tokio::test]
async fn with_stop_nothing_begins_after_the_failure_and_the_plan_ends() {
    for _ in 0..10 {
        let world = World::new().await;
        world.script.fail("t001/a");
        let id = world.start(&wide("max_concurrency: 1\non_failure: stop", &["a"], 5)).await;
        world.until_plan(&id, PlanStatus::Failed).await;
        assert_eq!(world.script.take(), ["t000/a/1 \"new\"", "t001/a/1 \"new\""]);
        let tally = world.engine.view_plan(&id).await.unwrap().tally;
        let counts = [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Cancelled].map(|status| tally.of(status));
        assert_eq!(counts, [1, 1, 3]);
        assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanStarted", "PlanPaused", "PlanFailed"]);
    }
}

#[tokio::test]
async fn with_pause_nothing_begins_after_the_failure_and_resume_goes_on() {
    let world = World::new().await;
    world.script.fail("t001/a");
    let id = world.start(&wide("max_concurrency: 1\non_failure: pause", &["a"], 5)).await;
    world.until_plan(&id, PlanStatus::Paused).await;
    let why = world.engine.why_plan(&id).await.unwrap();
    assert!(why.text.starts_with("paused by windlass at 20"), "{}", why.text);
    assert!(
        why.text.contains("on_failure: pause; task") && why.text.ends_with("of tenant t001 failed"),
        "{}",
        why.text
    );
    assert_eq!(world.why("t003").await.cause, "planPaused");
    assert_eq!(world.script.take(), ["t000/a/1 \"new\"", "t001/a/1 \"new\""]);
    world.plan(&id, Verb::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.script.take().len(), 3);
}

#[tokio::test]
async fn with_pause_what_runs_pauses_at_its_boundary() {
    let world = World::new().await;
    world.script.shut("acme/a");
    world.script.fail("blue/a");
    let id = world.start(&plan_of("on_failure: pause", &["a", "b"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    world.until_plan(&id, PlanStatus::Paused).await;
    until("the pause has reached it", async || world.view("acme").await.pause_requested).await;
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::Paused).await;
    world.plan(&id, Verb::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.script.of("acme"), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
}

#[tokio::test]
async fn a_rejection_is_a_failure_that_pauses_the_plan_too() {
    let world = World::new().await;
    let yes = "{ name: ok, approval: { message: 'go on?' } }";
    let id = world.start(&plan_of("max_concurrency: 1\non_failure: pause", &[yes], &["acme", "blue"])).await;
    world.until_task("acme", TaskStatus::Paused).await;
    world.until_task("blue", TaskStatus::Paused).await;
    world.task("acme", Command::Reject).await.unwrap();
    world.until_plan(&id, PlanStatus::Paused).await;
    assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanStarted", "PlanPaused"]);
}

#[tokio::test]
async fn a_retry_in_a_paused_plan_runs_its_task_and_nothing_else() {
    let world = World::new().await;
    world.script.fail("t001/a");
    let id = world.start(&wide("max_concurrency: 1\non_failure: pause", &["a"], 4)).await;
    world.until_plan(&id, PlanStatus::Paused).await;
    world.script.take();
    world.script.heal("t001/a");
    world.task("t001", retry(RetryFrom::Checkpoint)).await.unwrap();
    world.until_task("t001", TaskStatus::Completed).await;
    assert_eq!(world.script.take(), ["t001/a/1 \"new\""]);
    assert_eq!(world.engine.view_plan(&id).await.unwrap().plan.status, PlanStatus::Paused);
    world.plan(&id, Verb::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_cancelled_plan_ends_cancelled_with_its_counts() {
    let world = World::new().await;
    world.script.shut("t001/a");
    let id = world.start(&wide("max_concurrency: 1", &["a", "b"], 4)).await;
    world.script.entered("t001/a").await;
    world.plan(&id, Verb::Cancel).await.unwrap();
    assert_eq!(world.engine.why_plan(&id).await.unwrap().cause, "cancelling");
    for verb in [Verb::Cancel, Verb::Pause, Verb::Resume] {
        assert_eq!(refused(world.plan(&id, verb).await).state, "RUNNING, cancelling");
    }
    world.script.let_go("t001/a");
    world.until_plan(&id, PlanStatus::Cancelled).await;
    let tally = world.engine.view_plan(&id).await.unwrap().tally;
    assert_eq!((tally.of(TaskStatus::Completed), tally.of(TaskStatus::Cancelled)), (1, 3));
    assert_eq!(world.script.take(), ["t000/a/1 \"new\"", "t000/b/1 \"new\"", "t001/a/1 \"new\""]);
    world.script.take();
    let no = refused(
        world.engine.task(&crate::world::order(nth(&id, 2), retry(RetryFrom::Start)), &crate::world::by("bob")).await,
    );
    assert_eq!(no.state, "CANCELLED", "only what a conflict skipped may be retried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_plans_than_an_instance_remembers_are_carried_out_all_the_same() {
    let world = World::new().await;
    let mut plans = Vec::new();
    for n in 0..1_300 {
        let yaml = crate::world::plan(1, &[&format!("t{n}")]);
        let made = world.engine.create(&crate::world::file(&yaml), false, &crate::world::by("ann")).await.unwrap();
        plans.push(made.plan);
    }
    for plan in &plans {
        world.plan(plan, Verb::Start).await.unwrap();
    }
    for plan in &plans {
        world.until_plan(plan, PlanStatus::Completed).await;
    }
}
