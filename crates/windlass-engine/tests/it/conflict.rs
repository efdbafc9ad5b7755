//! Two plans want one tenant; tenants are frozen, and locks taken away.

use windlass_core::event::Fact;
use windlass_core::id::PlanId;
use windlass_core::lock::Acquire;
use windlass_core::plan::PlanStatus;
use windlass_core::port::lock::Force;
use windlass_core::refused::RefusedCode;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::command::plan::Verb;
use windlass_engine::{Error, Options};

use crate::world::{World, brief, by, calm, file, nth, of, order, plan, plan_of, refused, retry, until};

/// A plan that holds acme in its first stage.
async fn holding(options: Options) -> (World, PlanId) {
    let world = World::with(options).await;
    world.script.shut("acme/a");
    let first = world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    (world, first)
}

#[tokio::test]
async fn a_task_whose_tenant_is_locked_is_skipped_by_name_and_may_be_retried() {
    let (world, first) = holding(calm()).await;
    let second = world.start(&plan_of("", &["b"], &["acme", "blue"])).await;
    world.until_plan(&second, PlanStatus::Failed).await;
    let which = nth(&second, 0);
    let view = world.engine.view_task(&which).await.unwrap();
    assert_eq!(view.task.status, TaskStatus::Cancelled);
    let why = world.engine.why_task(&which).await.unwrap();
    let expected = format!("the tenant is locked by task {} of plan {first}", nth_id(&first));
    assert!(why.text.ends_with(&expected), "{}", why.text);
    assert_eq!(why.possible, ["retry"]);
    assert_eq!(world.events_of(&which).await, ["TaskCreated", "TaskCancelled"]);
    let held = world.engine.task(&order(which.clone(), retry(RetryFrom::Checkpoint)), &by("bob")).await;
    assert!(matches!(&held, Err(Error::Store(refusal)) if refusal.to_string().contains(nth_id(&first).as_str())));
    world.script.let_go("acme/a");
    world.until_plan(&first, PlanStatus::Completed).await;
    world.engine.task(&order(which.clone(), retry(RetryFrom::Checkpoint)), &by("bob")).await.unwrap();
    world.until_plan(&second, PlanStatus::Completed).await;
    assert_eq!(world.script.of("acme"), ["acme/a/1 \"new\"", "acme/b/1 \"new\""]);
}

fn nth_id(plan: &PlanId) -> windlass_core::id::TaskId {
    windlass_core::id::TaskId::of(plan, 0)
}

/// With an hour between two looks, only a wake-up can do it.
#[tokio::test]
async fn tasks_that_wait_start_one_after_the_other_when_the_lock_is_released() {
    let (world, first) = holding(Options { scan_ms: 60_000, ..calm() }).await;
    let yaml = plan_of("on_conflict: wait", &["b"], &["acme"]);
    let plans = [world.start(&yaml).await, world.start(&yaml).await, world.start(&yaml).await];
    for plan in &plans {
        until("it waits for its tenant", async || {
            let view = world.engine.view_task(&nth(plan, 0)).await.unwrap();
            view.task.owner.is_none() && view.task.ready_at > windlass_core::time::Ms::ZERO
        })
        .await;
        let why = world.engine.why_task(&nth(plan, 0)).await.unwrap();
        assert_eq!(why.cause, "locked");
        assert!(why.text.contains(&format!("of plan {first} since 20")), "{}", why.text);
        assert_eq!(why.possible, ["cancel"]);
    }
    assert_eq!(world.script.of("acme"), ["acme/a/1 \"new\""]);
    world.script.let_go("acme/a");
    for plan in &plans {
        world.until_plan(plan, PlanStatus::Completed).await;
    }
    assert_eq!(world.script.take().len(), 4);
    assert_eq!(world.events_of(&nth(&plans[0], 0)).await.len(), 5);
}

#[tokio::test]
async fn a_waiting_task_is_cancelled_at_once() {
    let (world, first) = holding(calm()).await;
    let second = world.start(&plan_of("on_conflict: wait", &["b"], &["acme"])).await;
    let cancel = Command::Cancel(windlass_core::task::Cause::Person);
    world.engine.task(&order(nth(&second, 0), cancel), &by("bob")).await.unwrap();
    world.until_plan(&second, PlanStatus::Failed).await;
    world.script.let_go("acme/a");
    world.until_plan(&first, PlanStatus::Completed).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\""]);
}

#[tokio::test]
async fn a_plan_that_refuses_conflicts_does_not_start_and_names_the_holders() {
    let (world, first) = holding(calm()).await;
    let yaml = file(&plan_of("id: careful\non_conflict: refuse", &["b"], &["acme", "blue"]));
    let no = world.engine.create(&yaml, true, &by("ann")).await;
    let Err(Error::Conflict(holders)) = no else { panic!("{no:?}") };
    assert_eq!(holders.len(), 1);
    assert!(holders[0].contains("tenant acme is locked by task") && holders[0].contains(first.as_str()), "{holders:?}");
    let second = world.engine.create(&yaml, false, &by("ann")).await.unwrap().plan;
    let no = world.plan(&second, Verb::Start).await;
    assert!(matches!(no, Err(Error::Conflict(_))), "{no:?}");
    assert_eq!(world.plan_events(&second).await, ["PlanCreated"]);
    world.script.let_go("acme/a");
    world.until_plan(&first, PlanStatus::Completed).await;
    world.plan(&second, Verb::Start).await.unwrap();
    world.until_plan(&second, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_lock_younger_than_its_tasks_end_is_somebodys_who_is_about_to_begin() {
    let (world, flaky) = World::flaky(calm()).await;
    world.script.fail("acme/a");
    let first = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&first, PlanStatus::Failed).await;
    world.script.heal("acme/a");
    // Somebody retries the task, has claimed and locked it, and that it begins is not written yet.
    flaky.hold();
    let before = flaky.commits();
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    until("it is about to begin", async || flaky.commits() > before).await;
    let other = World::over(flaky.behind().0, flaky.behind().1, calm()).await;
    let second = other.start(&plan(1, &["acme"])).await;
    other.until_plan(&second, PlanStatus::Failed).await;
    flaky.let_go();
    world.until_plan(&first, PlanStatus::Completed).await;
    assert_eq!(other.script.take(), Vec::<String>::new(), "the tenant was locked");
}

#[tokio::test]
async fn a_crash_between_a_tasks_end_and_its_locks_end_does_not_skip_the_next_task() {
    let (world, flaky) = World::flaky(calm()).await;
    world.script.shut("acme/b");
    let first = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/b").await;
    flaky.keep_locks(true);
    world.script.let_go("acme/b");
    world.until_plan(&first, PlanStatus::Completed).await;
    until("a release was asked for", async || flaky.releases() > 0).await;
    flaky.keep_locks(false);
    assert_eq!(world.view("acme").await.lock, None, "it is nobody's");
    let second = world.start(&plan_of("on_conflict: refuse", &["c"], &["acme"])).await;
    world.until_plan(&second, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_lock_that_an_ended_task_left_behind_is_given_back() {
    let (world, flaky) = World::flaky(Options { janitor_ms: 20, lock_renew_ms: 20, ..calm() }).await;
    flaky.keep_locks(true);
    let id = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    until("a release was asked for", async || flaky.releases() > 0).await;
    let tenant = ["acme".parse().unwrap()];
    assert!(world.locks.load(&tenant).await.unwrap()[0].holder.is_some(), "it was left behind");
    flaky.keep_locks(false);
    until("it is given back", async || world.locks.load(&tenant).await.unwrap()[0].holder.is_none()).await;
}

#[tokio::test]
async fn a_lock_that_was_granted_when_its_task_had_ended_keeps_nobody_out() {
    let world = World::with(calm()).await;
    let first = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&first, PlanStatus::Completed).await;
    // As by an instance that has lost its claim and does not know: the network has held its question back.
    let tenant = "acme".parse().unwrap();
    let task = nth_id(&first);
    let late = Acquire { tenant, plan: first, task, ttl_ms: 9_000_000 };
    world.locks.acquire(&[late]).await.unwrap()[0].as_ref().unwrap();
    let second = world.start(&plan_of("on_conflict: refuse", &["c"], &["acme"])).await;
    world.until_plan(&second, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_lock_is_renewed_while_its_task_runs_and_by_any_instance_while_it_is_paused() {
    let options = Options { lock_ms: 20_000, lock_renew_ms: 50, janitor_ms: 50, ..brief() };
    let mut world = World::with(options).await;
    world.script.shut("acme/a");
    world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    let ends = async |world: &World| world.view("acme").await.lock.unwrap().until;
    let first = ends(&world).await;
    until("it is renewed while the task runs", async || ends(&world).await > first).await;
    world.pause("acme").await.unwrap();
    world.script.let_go("acme/a");
    world.until_task("acme", TaskStatus::Paused).await;
    world.crash().await;
    let before = ends(&world).await;
    until("another instance renews it", async || ends(&world).await > before).await;
}

#[tokio::test]
async fn nothing_of_a_frozen_tenant_starts_until_it_is_unfrozen() {
    let world = World::with(Options { scan_ms: 60_000, ..calm() }).await;
    world.tenant("acme", Force::Freeze).await;
    let id = world.start(&plan(1, &["acme", "blue"])).await;
    world.until_which(&nth(&id, 1), TaskStatus::Completed).await;
    until("it was tried and given back", async || {
        let view = world.engine.view_task(&nth(&id, 0)).await.unwrap();
        view.task.owner.is_none() && view.task.ready_at > windlass_core::time::Ms::ZERO
    })
    .await;
    let why = world.why("acme").await;
    assert_eq!(why.cause, "frozen");
    assert!(why.text.starts_with("the tenant was frozen by eve at 20"), "{}", why.text);
    assert_eq!(world.script.of("acme"), Vec::<String>::new());
    world.tenant("acme", Force::Unfreeze).await;
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn running_work_of_a_frozen_tenant_pauses_at_its_boundary_and_does_not_resume() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    world.tenant("acme", Force::Freeze).await;
    world.script.let_go("acme/a");
    let view = world.until_task("acme", TaskStatus::Paused).await;
    assert!(view.freeze.is_some());
    assert_eq!(world.why("acme").await.text, "paused by eve, its tenant is frozen: because");
    let no = refused(world.task("acme", Command::Resume).await);
    assert_eq!((no.code, no.state.as_str()), (RefusedCode::Frozen, "PAUSED"));
    let no = refused(world.task("acme", Command::Rollback { force: false }).await);
    assert_eq!(no.code, RefusedCode::Frozen);
    world.tenant("acme", Force::Unfreeze).await;
    assert_eq!(world.view("acme").await.task.status, TaskStatus::Paused, "a person resumes it");
    world.task("acme", Command::Resume).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(
        world.events("acme").await[2..],
        [
            "StageStarted a",
            "TenantFrozen",
            "TaskPauseRequested",
            "StageCompleted a",
            "TaskPaused",
            "TenantUnfrozen",
            "TaskResumed",
            "StageStarted b",
            "StageCompleted b",
            "TaskCompleted"
        ]
        .map(str::to_owned)[..]
    );
}

#[tokio::test]
async fn a_lock_that_is_taken_away_is_an_event_and_the_old_attempt_writes_nothing_more() {
    let (world, first) = holding(calm()).await;
    let before = world.tenant("acme", Force::Release).await;
    assert_eq!(before.holder.unwrap().task, nth_id(&first));
    let history = world.engine.task_history(&of("acme")).await.unwrap();
    let event = history.iter().find(|event| matches!(event.fact, Fact::LockForceReleased { .. })).unwrap();
    assert_eq!(event.by.as_ref().unwrap().to_string(), "eve");
    let second = world.start(&plan_of("", &["b"], &["acme"])).await;
    world.until_plan(&second, PlanStatus::Completed).await;
    let seen = world.events_of(&nth(&first, 0)).await;
    world.script.let_go("acme/a");
    until("the first task is nobody's", async || {
        world.engine.view_task(&nth(&first, 0)).await.unwrap().interrupted && world.engine.running() == 0
    })
    .await;
    assert_eq!(world.events_of(&nth(&first, 0)).await, seen);
    assert_eq!(world.engine.counts().lost.load(std::sync::atomic::Ordering::Relaxed), 1);
    let why = world.engine.why_task(&nth(&first, 0)).await.unwrap();
    assert_eq!((why.cause, why.text.as_str()), ("interrupted", "interrupted: the instance that ran it let it go"));
}
