//! What every operation has: an idempotency key, a dry run, refusals that say what else, and effect on
//! tasks that run elsewhere.

use windlass_core::plan::PlanStatus;
use windlass_core::port::Refusal;
use windlass_core::port::lock::Force;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, RetryFrom};
use windlass_core::task::status::TaskStatus;
use windlass_engine::bus::News;
use windlass_engine::command::plan::Verb;
use windlass_engine::command::{Caller, IdempotencyKey};
use windlass_engine::{Error, Options};

use crate::world::{PATIENCE, World, by, calm, file, of, order, plan, plan_of, refused, retry, until};

fn keyed(credential: &str, key: &str) -> Caller {
    let key = Some(IdempotencyKey { credential: credential.into(), key: key.into() });
    Caller { key, ..by("bob") }
}

fn dry() -> Caller {
    Caller { dry_run: true, ..by("bob") }
}

#[tokio::test]
async fn the_same_key_makes_one_plan_and_another_body_under_it_is_a_conflict() {
    let world = World::new().await;
    let yaml = file(&plan(1, &["acme"]));
    let first = world.engine.create(&yaml, true, &keyed("c", "k")).await.unwrap();
    let again = world.engine.create(&yaml, true, &keyed("c", "k")).await.unwrap();
    assert_eq!(first, again);
    let other = file(&plan(2, &["acme"]));
    let no = world.engine.create(&other, true, &keyed("c", "k")).await;
    assert!(
        matches!(&no, Err(Error::Store(Refusal::OpReused)) if no.as_ref().unwrap_err().to_string().contains("WL-3008"))
    );
    let mine = world.engine.create(&yaml, false, &keyed("d", "k")).await.unwrap();
    assert_ne!(mine.plan, first.plan, "another credential's key is another key");
    world.until_plan(&first.plan, PlanStatus::Completed).await;
    assert_eq!(world.script.take().len(), 1);
}

#[tokio::test]
async fn the_same_key_at_the_same_time_makes_one_plan() {
    let world = World::new().await;
    let other = world.another().await;
    let yaml = file(&plan(1, &["acme"]));
    let (mine, theirs) = (keyed("c", "k"), keyed("c", "k"));
    let (one, two) = tokio::join!(world.engine.create(&yaml, true, &mine), other.create(&yaml, true, &theirs));
    assert_eq!(one.unwrap(), two.unwrap());
}

#[tokio::test]
async fn a_retry_under_the_same_key_is_one_retry() {
    let world = World::new().await;
    world.script.fail("acme/a");
    let id = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    let again = order(of("acme"), retry(RetryFrom::Checkpoint));
    let first = world.engine.task(&again, &keyed("c", "k")).await.unwrap();
    world.until_task("acme", TaskStatus::Failed).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    assert_eq!(world.engine.task(&again, &keyed("c", "k")).await.unwrap(), first);
    let other = order(of("acme"), retry(RetryFrom::Start));
    let no = world.engine.task(&other, &keyed("c", "k")).await;
    assert_eq!(no, Err(Error::Store(Refusal::OpReused)));
    assert_eq!((world.view("acme").await.task.retries, world.script.take().len()), (1, 2));
}

#[tokio::test]
async fn a_plan_verb_under_the_same_key_happens_once() {
    let world = World::new().await;
    world.script.shut("acme/a");
    let id = world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    let first = world.engine.plan(&id, Verb::Pause, &keyed("c", "k")).await.unwrap();
    world.plan(&id, Verb::Resume).await.unwrap();
    assert_eq!(world.engine.plan(&id, Verb::Pause, &keyed("c", "k")).await.unwrap(), first);
    assert_eq!(world.engine.view_plan(&id).await.unwrap().plan.status, PlanStatus::Running);
    world.script.let_go("acme/a");
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn an_answer_that_was_lost_on_the_way_is_given_again_and_nothing_happens_twice() {
    let (world, flaky) = World::flaky(calm()).await;
    flaky.lose_of_people(1);
    let id = world.start(&plan(1, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(world.plan_events(&id).await, ["PlanCreated", "PlanStarted", "PlanCompleted"]);
    flaky.lose_of_people(1);
    world.task("acme", Command::Rollback { force: false }).await.unwrap();
    world.until_task("acme", TaskStatus::RolledBack).await;
    assert_eq!(world.script.take(), ["acme/a/1 \"new\"", "acme/a/2 \"old\""]);
}

#[tokio::test]
async fn a_dry_run_says_what_would_run_and_changes_nothing() {
    let world = World::new().await;
    world.script.fail("acme/b");
    let id = world.start(&plan(3, &["acme"])).await;
    world.until_plan(&id, PlanStatus::Failed).await;
    let (events, view) = (world.events("acme").await, world.view("acme").await);
    let again = order(of("acme"), retry(RetryFrom::Checkpoint));
    let done = world.engine.task(&again, &dry()).await.unwrap();
    let preview = done.preview.unwrap();
    assert_eq!(preview.stages.iter().map(ToString::to_string).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(preview.checkpoint, view.checkpoint);
    assert_eq!((preview.lock, done.state.as_str()), (None, "FAILED, retry asked for"));
    let back = order(of("acme"), Command::Rollback { force: false });
    let preview = world.engine.task(&back, &dry()).await.unwrap().preview.unwrap();
    assert_eq!(preview.stages.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a", "b"]);
    let no = refused(world.engine.task(&order(of("acme"), Command::Approve), &dry()).await);
    assert_eq!((no.state.as_str(), no.instead), ("FAILED", vec!["retry", "rollback", "skip-stage"]));
    assert_eq!(world.events("acme").await, events);
    assert_eq!(world.view("acme").await, view);
    let made = world.engine.create(&file(&plan(1, &["blue"])), true, &dry()).await.unwrap();
    assert!(world.engine.view_plan(&made.plan).await.is_err(), "nothing was made");
    assert_eq!(world.script.take().len(), 2);
}

#[tokio::test]
async fn a_dry_run_shows_an_undo_in_its_order_and_who_holds_the_tenant() {
    let world = World::new().await;
    let undone = |name| format!("{{ name: {name}, handler: {{ name: do }}, undo: {{ handler: {{ name: undo }} }} }}");
    world.script.shut("acme/c");
    world.start(&plan_of("", &[&undone("a"), &undone("b"), "c"], &["acme"])).await;
    world.script.entered("acme/c").await;
    let done = world.engine.task(&order(of("acme"), Command::Pause(Cause::Person)), &dry()).await.unwrap();
    assert_eq!(done.preview.unwrap().lock.unwrap().tenant.to_string(), "acme");
    assert!(!world.view("acme").await.pause_requested);
    world.script.fail("acme/c");
    world.script.let_go("acme/c");
    world.until_task("acme", TaskStatus::Failed).await;
    let done = world.engine.task(&order(of("acme"), Command::Rollback { force: false }), &dry()).await.unwrap();
    let stages: Vec<_> = done.preview.unwrap().stages.iter().map(ToString::to_string).collect();
    assert_eq!(stages, ["c", "b", "a"]);
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let world = World::new().await;
    let no = world.pause("nobody").await;
    assert!(matches!(no, Err(Error::Store(Refusal::NotFound(_)))), "{no:?}");
    let no = world.plan(&"nothing".parse().unwrap(), Verb::Start).await;
    assert!(matches!(no, Err(Error::Store(Refusal::NotFound(_)))), "{no:?}");
}

/// With an hour between beats and looks, only a wake-up can reach the other engine.
#[tokio::test]
async fn an_operation_reaches_a_task_that_runs_on_another_engine() {
    let hour = 60_000;
    let options = windlass_engine::Options { scan_ms: hour, beat_ms: hour, lease_ms: 3 * hour, ..calm() };
    let world = World::with(options).await;
    let id = world.start(&plan_of("", &["a", "{ name: nap, sleep: 1h }", "b"], &["acme"])).await;
    world.until_task("acme", TaskStatus::Running).await;
    let owner = world.view("acme").await.task.owner.unwrap();
    let other = world.another().await;
    assert_eq!(owner, *world.engine.instance());
    other.task(&order(of("acme"), Command::Pause(Cause::Person)), &by("carl")).await.unwrap();
    let view = world.until_task("acme", TaskStatus::Paused).await;
    assert_eq!(view.task.hold.unwrap().by.unwrap().to_string(), "carl");
    other.task(&order(of("acme"), Command::Resume), &by("carl")).await.unwrap();
    world.until_task("acme", TaskStatus::Running).await;
    other.task(&order(of("acme"), Command::SkipStage(None)), &by("carl")).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
    until("nothing runs", async || world.engine.running() + other.running() == 0).await;
}

#[tokio::test]
async fn a_lock_is_taken_away_once_under_one_key() {
    let world = World::new().await;
    world.script.shut("acme/a");
    world.start(&plan(1, &["acme"])).await;
    world.script.entered("acme/a").await;
    let (tenant, caller) = ("acme".parse().unwrap(), keyed("c", "k"));
    let first = world.engine.tenant(&tenant, Force::Release, &caller).await.unwrap();
    assert!(first.holder.is_some());
    world.script.shut("acme/b");
    world.start(&plan_of("", &["b"], &["acme"])).await;
    world.script.entered("acme/b").await;
    assert_eq!(world.engine.tenant(&tenant, Force::Release, &caller).await.unwrap(), first);
    assert!(world.view("acme").await.lock.is_some(), "the next holder keeps it");
}

#[tokio::test]
async fn a_tenant_without_a_task_is_frozen_once_under_one_key() {
    let world = World::new().await;
    let tenant = "nobody".parse().unwrap();
    let does = async |what, key: &str| world.engine.tenant(&tenant, what, &keyed("c", key)).await;
    let frozen = does(Force::Freeze, "k1").await.unwrap();
    assert_eq!((frozen.holder.is_some(), frozen.freeze.is_some()), (false, false));
    let thawed = does(Force::Unfreeze, "k2").await.unwrap();
    assert!(thawed.freeze.is_some(), "it says what it was");
    assert_eq!(does(Force::Freeze, "k1").await.unwrap(), frozen, "the same again, the same answer");
    let now = world.engine.tenant(&tenant, Force::Freeze, &dry()).await.unwrap();
    assert_eq!(now.freeze, None, "and nothing was done");
    for (what, key) in [(Force::Release, "k1"), (Force::Freeze, "k2")] {
        let refused = does(what, key).await.unwrap_err();
        assert_eq!(refused, Error::Store(Refusal::OpReused), "another request under the same key");
    }
    let start = world.engine.create(&file(&plan(1, &["acme"])), true, &keyed("c", "k1")).await.unwrap_err();
    assert_eq!(start, Error::Store(Refusal::OpReused), "another operation under the same key");
    let released = does(Force::Release, "k3").await.unwrap();
    assert_eq!(does(Force::Release, "k3").await.unwrap(), released);
}

#[tokio::test]
async fn a_lock_that_is_taken_away_stops_its_holder_at_once_wherever_it_runs() {
    // Neither a beat nor a scan nor a renewal comes while this runs: only a wake-up can tell.
    let options = Options { lease_ms: 3_600_000, beat_ms: 1_200_000, scan_ms: 60_000, ..calm() };
    let world = World::with(options).await;
    world.script.shut("acme/a");
    world.start(&plan(2, &["acme"])).await;
    world.script.entered("acme/a").await;
    let mut news = world.engine.subscribe();
    let other = world.another().await;
    let before = other.tenant(&"acme".parse().unwrap(), Force::Release, &by("carl")).await.unwrap();
    assert!(before.holder.is_some());
    let told = async { while !matches!(news.recv().await.unwrap(), News::TaskLost { .. }) {} };
    assert!(tokio::time::timeout(PATIENCE, told).await.is_ok(), "it was never told");
    world.until_interrupted("acme").await;
    assert_eq!(world.engine.running() + other.running(), 0);
    assert_eq!(world.view("acme").await.task.completed, 0, "nothing more was written");
    // A person decides, and the next attempt is not bothered by what happened to the last.
    world.script.let_go("acme/a");
    world.task("acme", retry(RetryFrom::Checkpoint)).await.unwrap();
    let view = world.until_task("acme", TaskStatus::Completed).await;
    assert!(view.control.is_empty(), "{:?}", view.control);
}
