//! Pause, resume and cancel of a plan reach every task, whatever begins or ends meanwhile.

use windlass_core::id::PlanId;
use windlass_core::plan::PlanStatus;
use windlass_core::task::command::Command;
use windlass_core::task::status::TaskStatus;
use windlass_engine::command::plan::Verb;

use crate::world::{World, calm, plan_of, until};

fn wide(settings: &str, stages: &[&str], n: usize) -> String {
    let tenants: Vec<_> = (0..n).map(|i| format!("t{i:03}")).collect();
    plan_of(settings, stages, &tenants.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Nothing of the plan runs or is about to; answers how many have ended.
async fn drained(world: &World, plan: &PlanId) -> u32 {
    until("nothing of it runs", async || {
        let tally = world.engine.view_plan(plan).await.unwrap().tally;
        let claimed = world.engine.tasks_of(plan, &TaskStatus::ALL).await.unwrap();
        tally.of(TaskStatus::Running) == 0 && claimed.iter().all(|row| row.task.owner.is_none())
    })
    .await;
    world.engine.view_plan(plan).await.unwrap().tally.of(TaskStatus::Completed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_paused_plan_stands_still_and_a_resumed_one_goes_on_again_and_again() {
    let world = World::new().await;
    let other = world.another().await;
    world.heard().await;
    let id = world.start(&wide("max_concurrency: 40", &["a", "b", "c", "d"], 600)).await;
    let stages = || world.engine.stages() + other.stages();
    let ended = async || world.engine.view_plan(&id).await.unwrap().plan.status.is_final();
    let mut rounds = 0;
    for round in 1..=8 {
        let before = stages();
        until("it moves", async || stages() > before + 10 || ended().await).await;
        // A quick machine is done before eight rounds are.
        if world.plan(&id, Verb::Pause).await.is_err() {
            assert!(ended().await, "only an ended plan cannot be paused");
            break;
        }
        rounds = round;
        let ended = drained(&world, &id).await;
        world.script.take();
        // Whoever was being claimed when the plan paused would begin now.
        world.engine.inbox().await.unwrap();
        assert_eq!(world.script.take(), Vec::<String>::new(), "in round {round}");
        assert_eq!(drained(&world, &id).await, ended);
        world.plan(&id, Verb::Resume).await.unwrap();
    }
    world.until_plan(&id, PlanStatus::Completed).await;
    assert_eq!(stages(), 2_400, "no stage ran twice");
    assert!(rounds > 0, "it was never paused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cancelled_plan_ends_whatever_was_being_claimed() {
    for round in 0..8 {
        let world = World::new().await;
        let id = world.start(&wide("max_concurrency: 50", &["a", "b", "c"], 200)).await;
        until("some have begun", async || world.engine.stages() > round * 20).await;
        world.plan(&id, Verb::Cancel).await.unwrap();
        world.until_plan(&id, PlanStatus::Cancelled).await;
        let tally = world.engine.view_plan(&id).await.unwrap().tally;
        assert_eq!(tally.of(TaskStatus::Cancelled) + tally.of(TaskStatus::Completed), 200);
        assert_eq!(tally.active(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pause_and_resume_in_one_breath_lose_nobody() {
    for _ in 0..8 {
        let world = World::new().await;
        let id = world.start(&wide("max_concurrency: 30", &["a", "b"], 100)).await;
        for _ in 0..5 {
            if world.plan(&id, Verb::Pause).await.is_ok() {
                world.plan(&id, Verb::Resume).await.unwrap();
            }
        }
        world.until_plan(&id, PlanStatus::Completed).await;
        assert_eq!(world.engine.stages(), 200);
    }
}

#[tokio::test]
async fn a_resumed_plan_leaves_approvals_and_what_a_person_paused_alone() {
    let world = World::new().await;
    let yes = "{ name: ok, approval: { message: 'go on?' }, when: \"{{ tenant == 'appr' }}\" }";
    for tenant in ["mine", "rest"] {
        world.script.shut(&format!("{tenant}/a"));
    }
    let id = world.start(&plan_of("", &[yes, "a", "b"], &["appr", "mine", "rest"])).await;
    world.until_task("appr", TaskStatus::Paused).await;
    world.script.entered("mine/a").await;
    world.script.entered("rest/a").await;
    world.pause("mine").await.unwrap();
    world.plan(&id, Verb::Pause).await.unwrap();
    assert!(world.view("rest").await.pause_requested);
    world.script.let_go("mine/a");
    world.script.let_go("rest/a");
    world.until_task("mine", TaskStatus::Paused).await;
    world.until_task("rest", TaskStatus::Paused).await;
    assert_eq!(world.why("rest").await.text, "paused by bob, with its plan");
    world.plan(&id, Verb::Resume).await.unwrap();
    world.until_task("rest", TaskStatus::Completed).await;
    assert_eq!(world.view("mine").await.task.status, TaskStatus::Paused);
    assert_eq!(world.why("appr").await.cause, "approval");
    world.task("mine", Command::Resume).await.unwrap();
    world.task("appr", Command::Approve).await.unwrap();
    world.until_plan(&id, PlanStatus::Completed).await;
}

#[tokio::test]
async fn a_plan_that_resumes_before_the_boundary_takes_the_pause_back() {
    let world = World::new().await;
    world.script.shut("t000/a");
    let id = world.start(&wide("", &["a", "b"], 1)).await;
    world.script.entered("t000/a").await;
    world.plan(&id, Verb::Pause).await.unwrap();
    world.plan(&id, Verb::Resume).await.unwrap();
    assert!(!world.view("t000").await.pause_requested);
    world.script.let_go("t000/a");
    world.until_plan(&id, PlanStatus::Completed).await;
    assert!(!world.events("t000").await.contains(&"TaskPaused".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_stop_a_plan_ends_also_when_tasks_were_being_claimed_as_one_failed() {
    for round in 0..8 {
        let world = World::new().await;
        world.script.fail(&format!("t{:03}/a", round * 5));
        let id = world.start(&wide("max_concurrency: 20\non_failure: stop", &["a"], 100)).await;
        world.until_plan(&id, PlanStatus::Failed).await;
        let tally = world.engine.view_plan(&id).await.unwrap().tally;
        let ended = [TaskStatus::Completed, TaskStatus::Failed, TaskStatus::Cancelled].map(|status| tally.of(status));
        assert_eq!((ended[1], ended.iter().sum::<u32>()), (1, 100));
        assert_eq!(world.engine.stages(), u64::from(ended[0]), "who was cancelled had not begun");
    }
}

/// A store that gives turns is busy when a pause is asked for: who waits for a turn writes its boundary and the pause in one
/// commit, and only who had been taken up needs a second one.
#[tokio::test]
async fn who_waits_for_its_turn_at_the_store_pauses_with_the_boundary_it_waits_with() {
    let (world, flaky) = World::flaky_as(calm(), |flaky| flaky.with_turns(1)).await;
    world.script.shut("acme/a");
    world.script.shut("blue/a");
    let id = world.start(&plan_of("max_concurrency: 2", &["a", "b"], &["acme", "blue"])).await;
    world.script.entered("acme/a").await;
    world.script.entered("blue/a").await;
    let before = flaky.commits();
    flaky.hold();
    world.script.let_go("acme/a");
    until("a boundary is with the store", async || flaky.commits() == before + 1).await;
    world.script.let_go("blue/a");
    until("the other has come to its boundary", async || world.engine.stages() == 2).await;
    world.plan(&id, Verb::Pause).await.unwrap();
    flaky.let_go();
    world.until_task("acme", TaskStatus::Paused).await;
    world.until_task("blue", TaskStatus::Paused).await;
    assert_eq!(flaky.commits(), before + 3);
    let end = ["StageStarted a", "TaskPauseRequested", "StageCompleted a", "TaskPaused"].map(str::to_owned);
    assert_eq!(world.events("blue").await[2..], end);
    assert!(
        world.events("acme").await.contains(&"StageStarted b".to_owned()),
        "announced with the boundary that was sent"
    );
}

#[tokio::test]
async fn nobody_waits_for_a_turn_at_a_store_that_does_not_answer() {
    let (world, flaky) = World::flaky_as(calm(), |flaky| flaky.with_turns(1)).await;
    world.script.shut("acme/b");
    world.script.shut("blue/b");
    let id = world.start(&plan_of("max_concurrency: 2", &["a", "b", "c"], &["acme", "blue"])).await;
    world.script.entered("acme/b").await;
    world.script.entered("blue/b").await;
    flaky.down();
    world.script.let_go("acme/b");
    world.script.let_go("blue/b");
    until("both have gone on in memory", async || world.engine.stages() == 6).await;
    flaky.up();
    world.until_plan(&id, PlanStatus::Completed).await;
}
