//! `kill -9` at every write of a plan: before it, while it is made, and after it, before anybody knows. Whatever the point, the
//! next process answers from the store, moves nothing by itself and says what waits for a person; a person sees the plan
//! through, and no stage runs again whose checkpoint was acknowledged. The process that dies is the example `puppet`.

pub(crate) mod fault;
pub(crate) mod script;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use windlass::Windlass;
use windlass::core::plan::PlanStatus;
use windlass::core::port::PAGE_MAX;
use windlass::core::port::state::{Filter, Row, TaskRow};
use windlass::core::task::status::{Statuses, TaskStatus};
use windlass::engine::clock::{Clock, SystemClock};
use windlass::engine::command::task::Which;
use windlass::engine::query::inbox::{Item, Kind};
use windlass::open::{StoreUrl, open};
use windlass::settings::Settings;

use crate::{puppet, setting, text};
use fault::Watched;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the script: the process that comes after the crash never loses its own.
const LEASE_MS: u64 = 120_000;
/// Processes that are killed at the same time.
const AT_ONCE: u32 = 4;
/// More writes than the script has.
const WRITES_MAX: u32 = 200;
/// How often every point is tried in a campaign.
const SOAK_TIMES: u32 = 20;
/// Every effect of the plan: the tenants in the order of their tasks, and those of their stages that have one.
const EFFECTS: [(&str, &[(u32, &str)]); 3] = [
    ("hums", &[(0, "a"), (1, "b"), (2, "c")]),
    ("asks", &[(0, "a"), (2, "c")]),
    ("fails", &[(0, "a"), (1, "b"), (2, "c")]),
];

#[test]
fn a_process_killed_before_a_write_leaves_everything_to_people() {
    let total = campaign("before");
    assert!(total.twice > 0, "no kill came between an effect and its checkpoint");
}

#[test]
fn a_process_killed_during_a_write_leaves_everything_to_people() {
    campaign("during");
}

#[test]
fn a_process_killed_after_a_write_that_nobody_heard_of_leaves_everything_to_people() {
    campaign("after");
}

/// What a kill came to.
#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    kills: u32,
    /// Stages that ran again, under the same key.
    twice: u32,
}

/// Kills a process at every write, until the script has no more of them.
fn campaign(moment: &str) -> Outcome {
    let times = if setting("WINDLASS_SOAK").is_some() { SOAK_TIMES } else { 1 };
    let mut total = Outcome::default();
    for _ in 0..times {
        let mut first = 1;
        while first < WRITES_MAX {
            let round: Vec<Outcome> = std::thread::scope(|scope| {
                let one = |write| scope.spawn(move || die_and_recover(&format!("{moment}:{write}")));
                let all: Vec<_> = (first..first + AT_ONCE).map(one).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            total.kills += round.iter().map(|one| one.kills).sum::<u32>();
            total.twice += round.iter().map(|one| one.twice).sum::<u32>();
            // The number of releases varies by a few: only when a whole round is unharmed is the script over.
            if round.iter().all(|one| one.kills == 0) {
                break;
            }
            first += AT_ONCE;
        }
        assert!(first < WRITES_MAX, "the script never ended unharmed");
    }
    println!("{moment}: {} kills hit, {} stages ran again", total.kills, total.twice);
    // Creation, claim, grant, and a boundary for each stage of each tenant, at least.
    assert!(total.kills >= 20 * times, "{total:?}");
    total
}

/// One process that dies at its write, and what comes after it.
fn die_and_recover(fault: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let effects = folder.path().join("effects");
    let store: PathBuf = folder.path().join("store");
    let mut puppet = Command::new(puppet());
    puppet.arg("script").arg(&store).arg(&effects).arg(fault).stdin(Stdio::null());
    let output = puppet.output().unwrap();
    let (said, err) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() {
        assert!(said.ends_with("unharmed\n"), "{fault}: {said}{err}");
        check_effects(fault, &lines(&effects), 0, None);
        return Outcome::default();
    }
    assert_eq!(output.status.signal(), Some(9), "{fault}: {}\n{said}{err}", output.status);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let recovered =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, recover(fault, &store, &effects, &said)).await });
    let twice = recovered.unwrap_or_else(|_| panic!("{fault}: it does not recover; {:?}", lines(&effects)));
    Outcome { kills: 1, twice }
}

/// The next process: it looks, it waits for people, and with them it comes to the end. Answers how many stages ran again.
async fn recover(fault: &str, folder: &Path, effects: &Path, said: &str) -> u32 {
    let stores = open(&StoreUrl::Embedded(folder.into()), &Settings::default()).await.unwrap();
    let store = Watched::over(&stores, None, |_| {});
    let windlass = script::builder(&store, effects, LEASE_MS).start().await.unwrap();
    let before = lines(effects);
    let found = tasks(&windlass).await;
    let plan = script::plan_id();
    let known = windlass.view_plan(&plan).await.is_ok();
    assert_eq!(known, !found.is_empty(), "{fault}: a plan and its tasks are created in one step");
    assert!(known || !said.contains("created"), "{fault}: the plan was acknowledged and is gone");
    for line in said.lines().filter_map(|line| line.strip_prefix("acknowledged ")) {
        let (tenant, completed) = line.split_once(' ').unwrap();
        let row = found.iter().find(|row| row.task.tenant.as_str() == tenant).unwrap();
        assert!(row.task.completed >= completed.parse().unwrap(), "{fault}: {line} is gone, {row:?}");
    }

    until_the_dead_are_gone(&windlass).await;
    let looks = store.looks();
    until(|| store.looks() >= looks + 5).await;
    assert_eq!(lines(effects), before, "{fault}: something ran without a person");
    let after = tasks(&windlass).await;
    assert_eq!(after, found, "{fault}: something moved without a person");
    if known {
        check_inbox(fault, &windlass, &after).await;
    }

    assert_eq!(script::create(&windlass).await.unwrap(), plan, "{fault}");
    let kinds = [Kind::InterruptedPlan, Kind::InterruptedTask, Kind::Approval, Kind::Failure];
    script::see_through(&windlass, &plan, &kinds).await;
    let view = windlass.view_plan(&plan).await.unwrap();
    assert_eq!(view.plan.status, PlanStatus::Completed, "{fault}: {view:?}");
    windlass.stop().await;
    check_effects(fault, &lines(effects), before.len(), Some(&found))
}

/// Everything that stands still is in the inbox, with a reason.
async fn check_inbox(fault: &str, windlass: &Windlass, rows: &[TaskRow]) {
    let plan = script::plan_id();
    let inbox: Vec<Item> = windlass.inbox().await.unwrap().0;
    let why = windlass.why_plan(&plan).await.unwrap();
    // What has no active task any more is over, and that is written down by whoever sees it.
    if rows.iter().any(|row| row.task.status.is_active()) {
        let waits = inbox.iter().any(|item| item.kind == Kind::InterruptedPlan && item.plan == plan);
        assert!(waits && why.cause == "interrupted", "{fault}: {inbox:?} {why:?}");
        assert!(why.possible.contains(&"resume"), "{fault}: {why:?}");
    }
    for row in rows {
        let id = &row.task.id;
        let why = windlass.why_task(&Which::Task(id.clone())).await.unwrap();
        let listed = inbox.iter().find(|item| item.task.as_ref() == Some(id)).map(|item| item.kind);
        let (kind, cause) = match row.task.status {
            _ if row.control.start.is_some() => (None, "planInterrupted"),
            TaskStatus::Pending => (None, "planInterrupted"),
            TaskStatus::Running => (Some(Kind::InterruptedTask), "interrupted"),
            TaskStatus::Paused => (Some(Kind::Approval), "approval"),
            TaskStatus::Failed => (Some(Kind::Failure), "failed"),
            TaskStatus::Completed => (None, "completed"),
            status => panic!("{fault}: {id} is {status}"),
        };
        assert_eq!((listed, why.cause), (kind, cause), "{fault}: {row:?} {why:?}");
        assert!(!why.text.is_empty(), "{fault}: {row:?}");
    }
}

/// Every effect once; twice, under the same key, only of the stage that was not acknowledged when the process died.
fn check_effects(fault: &str, lines: &[String], at_death: usize, found: Option<&[TaskRow]>) -> u32 {
    let mut seen: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    let mut fences: BTreeMap<String, u64> = BTreeMap::new();
    for (number, line) in lines.iter().enumerate() {
        let [tenant, stage, pass, fence, key] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
        let position = EFFECTS.iter().position(|(name, _)| *name == tenant).unwrap();
        assert_eq!((pass, key), ("1", &*format!("kill-points/kill-points-{position}/{stage}/1")), "{fault}: {lines:?}");
        let fence: u64 = fence.parse().unwrap();
        let last = fences.insert(tenant.to_owned(), fence).unwrap_or(0);
        assert!(fence >= last, "{fault}: a fence became smaller: {lines:?}");
        seen.entry((tenant.to_owned(), stage.to_owned())).or_default().push(number);
    }
    let expected = EFFECTS.iter().map(|(_, stages)| stages.len()).sum::<usize>();
    assert_eq!(seen.len(), expected, "{fault}: {lines:?}");
    let mut twice = 0;
    for (tenant, stages) in EFFECTS {
        let row = found.into_iter().flatten().find(|row| row.task.tenant.as_str() == tenant);
        for (index, stage) in stages {
            let at = &seen[&(tenant.to_owned(), (*stage).to_owned())];
            let unknown = row.is_some_and(|row| row.task.completed == *index);
            let again = unknown && matches!(at[..], [first, second] if first < at_death && second >= at_death);
            assert!(again || at.len() == 1, "{fault}: {tenant} {stage} ran {} times: {lines:?} {row:?}", at.len());
            twice += u32::from(again);
        }
    }
    twice
}

async fn tasks(windlass: &Windlass) -> Vec<TaskRow> {
    let filter = Filter::Tasks { plan: None, tenant: None, statuses: Statuses::ALL, interrupted: false };
    let page = windlass.list(&filter, None, PAGE_MAX).await.unwrap();
    let task = |row| match row {
        Row::Task(row) => *row,
        other => panic!("{other:?} is no task"),
    };
    page.items.into_iter().map(task).collect()
}

/// Waits until no lease runs but this instance's.
async fn until_the_dead_are_gone(windlass: &Windlass) {
    loop {
        let page = windlass.list(&Filter::Instances, None, PAGE_MAX).await.unwrap();
        let now = SystemClock.now();
        let alive = page.items.iter().filter(|row| matches!(row, Row::Instance(row) if row.until > now)).count();
        if alive == 1 {
            return;
        }
        // sleep: a lease ends by the clock and without a word.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for something that another task of the runtime does.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        // sleep: the engine does not tell when it has looked and found nothing.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn lines(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
