//! What many ask of the store at once goes as few calls, and what nobody can have is not asked for.

use std::sync::Arc;

use windlass_core::id::{PlanId, TaskId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Key, Row, State};
use windlass_core::task::status::TaskStatus;
use windlass_engine::Options;
use windlass_engine::command::plan::Verb;

use crate::world::{World, by, calm, file, plan_of, until};

/// Nobody looks without a reason.
fn quiet() -> Options {
    Options { scan_ms: 60_000, ..calm() }
}

/// The plan as the store has it: nobody counts this look.
async fn is_completed(state: &Arc<dyn State>, id: &PlanId) -> bool {
    let row = state.load(&[Key::Plan(id.clone())]).await.unwrap().remove(0);
    matches!(row, Some(Row::Plan(row)) if row.plan.status == PlanStatus::Completed)
}

#[tokio::test]
async fn attempts_that_begin_together_ask_for_their_plan_together() {
    let (world, flaky) = World::flaky(quiet()).await;
    flaky.hold();
    // More than are counted to learn whether they are over.
    let tenants: Vec<_> = (0..101).map(|n| format!("t{n}")).collect();
    let tenants: Vec<_> = tenants.iter().map(String::as_str).collect();
    let id = world.start(&plan_of("max_concurrency: 101", &["a"], &tenants)).await;
    until("all want to begin", async || flaky.commits() == 101).await;
    let before = flaky.looks.came();
    flaky.looks.hold();
    flaky.let_go();
    until("the first has asked", async || flaky.looks.came() > before).await;
    for tenant in &tenants {
        world.until_task(tenant, TaskStatus::Running).await;
    }
    flaky.looks.let_go();
    let (state, _) = flaky.behind();
    until("all have ended", async || is_completed(&state, &id).await).await;
    let looks = flaky.looks.came() - before;
    assert!((1..=20).contains(&looks), "{looks} looks at the plan for 101 attempts");
    assert_eq!(world.script.take().len(), 101);
}

#[tokio::test]
async fn plans_that_end_together_are_looked_at_together_and_nobody_looks_for_their_slots() {
    let (world, flaky) = World::flaky(quiet()).await;
    let (mut plans, mut gates) = (Vec::new(), Vec::new());
    for n in 0..40 {
        let tenant = format!("t{n}");
        let file = file(&plan_of("max_concurrency: 1", &["a"], &[&tenant]));
        plans.push(world.engine.create(&file, false, &by("ann")).await.unwrap().plan);
        gates.push(format!("{tenant}/a"));
    }
    gates.iter().for_each(|gate| world.script.shut(gate));
    for plan in &plans {
        world.plan(plan, Verb::Start).await.unwrap();
    }
    for gate in &gates {
        world.script.entered(gate).await;
    }
    flaky.tallies.hold();
    let (before, takes, peeks) = (flaky.tallies.came(), flaky.takes(), flaky.peeks());
    for (n, gate) in gates.iter().enumerate() {
        world.script.let_go(gate);
        world.until_task(&format!("t{n}"), TaskStatus::Completed).await;
    }
    let takes = flaky.takes() - takes;
    assert!(takes <= 10, "{takes} looks for something to do, and each task has a slot of its own");
    flaky.tallies.let_go();
    let (state, _) = flaky.behind();
    for plan in &plans {
        until("it has ended", async || is_completed(&state, plan).await).await;
    }
    let tallies = flaky.tallies.came() - before;
    assert!((2..=12).contains(&tallies), "{tallies} counts for 40 plans");
    assert_eq!(flaky.peeks() - peeks, 0, "plans of one task each were looked at one by one");
}

#[tokio::test]
async fn while_a_stranger_conducts_nothing_all_plans_are_asked_at_once() {
    let (world, flaky) = World::flaky(quiet()).await;
    world.engine.kill();
    // Nobody knows whether that one lives: its lease runs.
    let another = world.another().await;
    let world = World { engine: another, ..world };
    let takes = flaky.takes();
    let tenants: Vec<_> = (0..40).map(|n| format!("t{n}")).collect();
    for tenant in &tenants {
        world.script.shut(&format!("{tenant}/a"));
        world.start(&plan_of("", &["a"], &[tenant])).await;
        world.script.entered(&format!("{tenant}/a")).await;
    }
    let takes = flaky.takes() - takes;
    assert!(takes <= 200, "{takes} looks for 40 tasks, each in a plan of its own");
}

#[tokio::test]
async fn a_plan_that_cannot_be_read_keeps_no_other_from_beginning() {
    let (world, flaky) = World::flaky(quiet()).await;
    flaky.hold();
    let bad = world.start(&plan_of("", &["a"], &["acme"])).await;
    world.start(&plan_of("", &["a"], &["blue"])).await;
    until("both want to begin", async || flaky.commits() == 2).await;
    flaky.spoil(&bad);
    flaky.let_go();
    world.until_task("blue", TaskStatus::Completed).await;
    assert_eq!(world.script.take(), ["blue/a/1 \"new\""]);
}

#[tokio::test]
async fn a_plan_that_cannot_be_read_keeps_no_other_from_ending() {
    let (world, flaky) = World::flaky(quiet()).await;
    ["acme/a", "blue/a"].iter().for_each(|gate| world.script.shut(gate));
    let bad = world.start(&plan_of("", &["a"], &["acme"])).await;
    let good = world.start(&plan_of("", &["a"], &["blue"])).await;
    world.script.entered("acme/a").await;
    world.script.entered("blue/a").await;
    flaky.spoil(&bad);
    world.script.let_go("acme/a");
    let (state, _) = flaky.behind();
    let ended = Key::Task(TaskId::of(&bad, 0));
    until("its task has ended", async || {
        let row = state.load(std::slice::from_ref(&ended)).await.unwrap().remove(0);
        matches!(row, Some(Row::Task(row)) if row.task.status == TaskStatus::Completed)
    })
    .await;
    world.script.let_go("blue/a");
    until("the other has ended", async || is_completed(&state, &good).await).await;
    assert!(!is_completed(&state, &bad).await);
}
