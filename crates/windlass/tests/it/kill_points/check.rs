//! What must hold after a crash, and when everything is over.

use std::collections::{BTreeMap, BTreeSet};

use windlass::Windlass;
use windlass::core::plan::PlanStatus;
use windlass::core::port::state::TaskRow;
use windlass::core::task::Cause;
use windlass::core::task::status::TaskStatus;
use windlass::engine::command::task::Which;
use windlass::engine::query::inbox::{Item, Kind};

use super::{Story, lines, script};

/// What a process was told is stored, is stored.
pub(super) fn acknowledged(fault: &str, said: &str, found: &[TaskRow]) {
    assert!(!found.is_empty() || !said.contains("created"), "{fault}: the plan was acknowledged and is gone");
    for line in said.lines().filter_map(|line| line.strip_prefix("acknowledged ")) {
        let [tenant, pass, completed] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let row = found.iter().find(|row| row.task.tenant.as_str() == tenant).unwrap();
        let (pass, completed): (u32, u32) = (pass.parse().unwrap(), completed.parse().unwrap());
        let there = row.task.pass > pass || (row.task.pass == pass && row.task.completed >= completed);
        assert!(there, "{fault}: {line} is gone, {row:?}");
    }
}

/// Everything that stands still is in the inbox, with a reason.
pub(super) async fn inbox(fault: &str, windlass: &Windlass, rows: &[TaskRow]) {
    let plan = script::plan_id();
    let inbox: Vec<Item> = windlass.inbox().await.unwrap().0;
    let why = windlass.why_plan(&plan).await.unwrap();
    let paused = windlass.view_plan(&plan).await.unwrap().plan.status == PlanStatus::Paused;
    let waits = |kind: Kind| inbox.iter().any(|item| item.kind == kind && item.plan.as_ref() == Some(&plan));
    if paused {
        assert!(waits(Kind::PausedPlan) && why.cause == "paused", "{fault}: {inbox:?} {why:?}");
        assert!(why.possible.contains(&"resume"), "{fault}: {why:?}");
    } else if rows.iter().any(|row| row.task.status.is_active() || row.control.start.is_some()) {
        // What has no active task any more is over, and that is written down by whoever sees it.
        assert!(waits(Kind::InterruptedPlan) && why.cause == "interrupted", "{fault}: {inbox:?} {why:?}");
        assert!(why.possible.contains(&"resume"), "{fault}: {why:?}");
    }
    let handed_out = if paused { "planPaused" } else { "planInterrupted" };
    for row in rows {
        let id = &row.task.id;
        let why = windlass.why_task(&Which::Task(id.clone())).await.unwrap();
        let listed = inbox.iter().find(|item| item.task.as_ref() == Some(id)).map(|item| item.kind);
        let approval = row.task.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Approval);
        let (kind, cause) = match row.task.status {
            // What was asked of an interrupted task is begun by whoever takes the plan up.
            TaskStatus::Running | TaskStatus::RollingBack if row.control.start.is_some() => (None, "interrupted"),
            _ if row.control.start.is_some() => (None, handed_out),
            TaskStatus::Pending => (None, handed_out),
            TaskStatus::Running | TaskStatus::RollingBack => (Some(Kind::InterruptedTask), "interrupted"),
            TaskStatus::Paused if approval => (Some(Kind::Approval), "approval"),
            TaskStatus::Paused => (Some(Kind::PausedTask), "paused"),
            TaskStatus::Failed => (Some(Kind::Failure), "failed"),
            TaskStatus::Completed => (None, "completed"),
            TaskStatus::RolledBack => (None, "rolledBack"),
            status => panic!("{fault}: {id} is {status}"),
        };
        assert_eq!((listed, why.cause), (kind, cause), "{fault}: {row:?} {why:?}");
        assert!(!why.text.is_empty(), "{fault}: {row:?}");
    }
}

/// One effect, as its line tells it.
struct Effect<'a> {
    /// In which process: how many had died before.
    process: usize,
    stage: &'a str,
    pass: u32,
}

/// Every effect once; again, under the same key, only of a stage that was not acknowledged when a process died. What is taken
/// back is taken back as a whole, by one process, after everything else. Answers how many stages ran again.
pub(super) fn effects(story: &Story) -> u32 {
    let fault = &story.faults;
    let lines = lines(&story.effects);
    let mut by_tenant: BTreeMap<&str, Vec<Effect<'_>>> = BTreeMap::new();
    let mut fences: BTreeMap<&str, u64> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let [tenant, stage, pass, fence, key, mark] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line:?}")
        };
        let position = story.script.tenants.iter().position(|(name, _)| *name == tenant).unwrap();
        assert_eq!(key, format!("kill-points/kill-points-{position}/{stage}/{pass}"), "{fault}: {lines:?}");
        assert_eq!(mark, if pass == "1" { "done" } else { "undone" }, "{fault}: {lines:?}");
        let fence: u64 = fence.parse().unwrap();
        let last = fences.insert(tenant, fence).unwrap_or(0);
        assert!(fence >= last, "{fault}: a fence became smaller: {lines:?}");
        let process = story.found.iter().rposition(|(before, _)| *before <= number).unwrap();
        by_tenant.entry(tenant).or_default().push(Effect { process, stage, pass: pass.parse().unwrap() });
    }
    let mut twice = 0;
    for (tenant, stages) in story.script.tenants {
        let effects = by_tenant.remove(tenant).unwrap_or_default();
        let context = format!("{fault}: {tenant}: {lines:?} {:?}", story.found);
        assert!(effects.is_sorted_by_key(|effect| effect.pass), "{context}");
        let (forth, back): (Vec<_>, Vec<_>) = effects.iter().partition(|effect| effect.pass == 1);
        twice += went_forth(story, tenant, stages, &forth, &context);
        let mut all: Vec<&str> = stages.iter().map(|(_, stage)| *stage).collect();
        match story.script.taken_back {
            None => assert_eq!(back.len(), 0, "{context}"),
            Some(reverse) => {
                if reverse == *tenant {
                    all.reverse();
                }
                was_taken_back(&all, &back, &context);
            }
        }
    }
    twice
}

fn went_forth(story: &Story, tenant: &str, stages: &[(u32, &str)], effects: &[&Effect<'_>], context: &str) -> u32 {
    let mut ran = BTreeSet::new();
    let mut twice = 0;
    for Effect { process, stage, .. } in effects {
        let (index, _) = stages.iter().find(|(_, name)| name == stage).unwrap();
        let again = ran.iter().any(|(_, other)| other == stage);
        assert!(ran.insert((*process, *stage)), "{stage} ran twice in one process: {context}");
        let row = story.found[*process].1.iter().find(|row| row.task.tenant.as_str() == tenant);
        let done = row.map_or(0, |row| row.task.completed);
        assert!(row.is_none_or(|row| row.task.pass == 1), "{stage} ran after it was taken back: {context}");
        assert!(*index >= done, "{stage} was acknowledged and ran again: {context}");
        assert!(!again || *index == done, "{stage} ran again: {context}");
        twice += u32::from(again);
    }
    let ran: BTreeSet<&str> = ran.into_iter().map(|(_, stage)| stage).collect();
    assert_eq!(ran, stages.iter().map(|(_, stage)| *stage).collect(), "{context}");
    twice
}

/// Every attempt to take back is a pass, begins at the beginning, and is one process's; the last comes to the end.
fn was_taken_back(all: &[&str], effects: &[&Effect<'_>], context: &str) {
    let mut passes: BTreeMap<u32, Vec<&Effect<'_>>> = BTreeMap::new();
    effects.iter().for_each(|effect| passes.entry(effect.pass).or_default().push(effect));
    let last = passes.keys().next_back().copied();
    assert!(last.is_some(), "nothing was taken back: {context}");
    for (pass, effects) in passes {
        let stages: Vec<&str> = effects.iter().map(|effect| effect.stage).collect();
        assert!(all.starts_with(&stages), "pass {pass}: {context}");
        assert!(effects.iter().all(|effect| effect.process == effects[0].process), "pass {pass}: {context}");
        assert!(Some(pass) != last || stages == all, "pass {pass}: {context}");
    }
}
