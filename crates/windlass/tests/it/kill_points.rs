//! `kill -9` at every write of a plan: before it, while it is made, torn in its middle, and after it, before anybody knows; on
//! each store; while a plan goes forth, is paused and resumed, approved, retried, taken back; and while somebody recovers from an
//! earlier crash. Whatever the point, the next process answers from the store, moves nothing by itself and says what waits for
//! a person; a person sees the plan through, and no stage runs again whose checkpoint was acknowledged.
//!
//! The process that dies is the example `puppet`, and what ends it is the feature `fault`.

mod check;
mod person;
mod place;
pub(crate) mod script;
pub(crate) mod watch;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use windlass::core::port::PAGE_MAX;
use windlass::core::port::state::{Filter, Row, State, TaskRow};
use windlass::core::task::status::Statuses;
use windlass::open::Stores;

use crate::{puppet, setting, text};
use place::Place;
use script::{BACK, FORTH, PAUSE, Script, Stage};
use watch::Watched;

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than the script: the process that comes after the crash never loses its own.
const LEASE_MS: u64 = 120_000;
/// Processes that are killed at the same time: most of their time they wait for a lease to end.
const AT_ONCE: u32 = 10;
/// More writes than a script has.
const WRITES_MAX: u32 = 200;
/// The number of releases varies by a few: so many unharmed runs say that a script is over.
const UNHARMED: u32 = 3;
/// How often every point is tried in a campaign.
const SOAK_TIMES: u32 = 20;
/// As `kill -9`, and as a process that writes beyond the limit for its files.
const DEADLY: [i32; 2] = [9, 25];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Store {
    Embedded,
    Postgres,
    MySql,
}

#[test]
fn embedded_whoever_is_killed_going_forth_leaves_everything_to_people() {
    let total = campaign(Store::Embedded, &FORTH);
    assert!(total.twice > 0, "no kill came between an effect and its checkpoint");
}

#[test]
fn embedded_whoever_is_killed_taking_back_leaves_everything_to_people() {
    in_turn(Store::Embedded, &BACK);
}

#[test]
fn embedded_whoever_is_killed_around_a_pause_leaves_everything_to_people() {
    in_turn(Store::Embedded, &PAUSE);
}

#[test]
fn embedded_whoever_is_killed_while_recovering_leaves_everything_to_people() {
    recoveries(Store::Embedded);
}

#[test]
fn postgres_whoever_is_killed_going_forth_leaves_everything_to_people() {
    let total = campaign(Store::Postgres, &FORTH);
    assert!(total.twice > 0, "no kill came between an effect and its checkpoint");
}

#[test]
fn postgres_whoever_is_killed_taking_back_leaves_everything_to_people() {
    in_turn(Store::Postgres, &BACK);
}

#[test]
fn postgres_whoever_is_killed_around_a_pause_leaves_everything_to_people() {
    in_turn(Store::Postgres, &PAUSE);
}

#[test]
fn postgres_whoever_is_killed_while_recovering_leaves_everything_to_people() {
    recoveries(Store::Postgres);
}

#[test]
fn mysql_whoever_is_killed_going_forth_leaves_everything_to_people() {
    in_turn(Store::MySql, &FORTH);
}

#[test]
fn mysql_whoever_is_killed_taking_back_leaves_everything_to_people() {
    in_turn(Store::MySql, &BACK);
}

#[test]
fn mysql_whoever_is_killed_around_a_pause_leaves_everything_to_people() {
    in_turn(Store::MySql, &PAUSE);
}

#[test]
fn mysql_whoever_is_killed_while_recovering_leaves_everything_to_people() {
    recoveries(Store::MySql);
}

/// What kills came to.
#[derive(Debug, Default, Clone, Copy)]
struct Outcome {
    kills: u32,
    /// Of those that were to come during a write, those that came before its answer.
    inside: u32,
    /// Stages that ran again, under the same key.
    twice: u32,
}

impl Outcome {
    fn add(&mut self, other: Outcome) {
        self.kills += other.kills;
        self.inside += other.inside;
        self.twice += other.twice;
    }
}

fn times() -> u32 {
    if !cfg!(feature = "fault") {
        panic!(
            "nothing dies in this build: run `cargo xtask test`, or `cargo nextest run -p windlass --features fault`"
        );
    }
    if setting("WINDLASS_SOAK").is_some() { SOAK_TIMES } else { 1 }
}

/// When to die at a write. What is random of it grows with the round, so that rounds differ and can be repeated.
fn fault(moment: &str, write: u32, round: u32) -> String {
    let chance = (write * 7_919 + round * 104_729) % 1_009;
    match moment {
        "during" => format!("during:{write}:{}", chance % 100),
        "torn" => format!("torn:{write}:{}", 1 + chance % 300),
        _ => format!("{moment}:{write}"),
    }
}

fn moments(store: Store) -> &'static [&'static str] {
    match store {
        Store::Embedded => &["before", "during", "torn", "after"],
        Store::Postgres | Store::MySql => &["before", "during", "after"],
    }
}

/// Kills a process at every write of a script, at every moment.
fn campaign(store: Store, script: &'static Script) -> Outcome {
    let mut total = Outcome::default();
    for round in 0..times() {
        for moment in moments(store) {
            let one =
                every_write(store, |place, write| die_and_recover(place, script, &[&fault(moment, write, round)]));
            println!("{store:?} {} {moment}: {one:?}", script.name);
            // Creation, claim, grant, and a boundary for each stage of each tenant, at least.
            assert!(one.kills >= 12, "{moment}: {one:?}");
            // A journal is torn where it is told to be; a thread that dies by the clock may come too late on a busy machine.
            let least = if *moment == "torn" { one.kills / 2 } else { 1 };
            assert!(one.inside >= least, "{moment}: the kills came when their write was over: {one:?}");
            total.add(one);
        }
    }
    total
}

/// Kills a process at every write of a script, once, at moments that take turns; the long campaign has all of them.
fn in_turn(store: Store, script: &'static Script) {
    if times() > 1 {
        campaign(store, script);
        return;
    }
    let one =
        every_write(store, |place, write| die_and_recover(place, script, &[&fault(turn(store, write), write, 0)]));
    println!("{store:?} {}: {one:?}", script.name);
    assert!(one.kills >= 12, "{one:?}");
}

fn turn(store: Store, write: u32) -> &'static str {
    moments(store)[write as usize % moments(store).len()]
}

/// Kills a process, and then the next one, at every write that it makes to recover.
fn recoveries(store: Store) {
    let times = times();
    // Two deaths take long, on a server longest: the long campaign has them at every write.
    let stride = match store {
        _ if times > 1 => 1,
        Store::Embedded => 2,
        Store::Postgres | Store::MySql => 3,
    };
    for script in script::ALL {
        for round in 0..times {
            let one = every_write(store, |place, number| {
                let write = 1 + (number - 1) * stride;
                // In a campaign the first death comes elsewhere in every round; the moments take turns.
                let first = format!("after:{}", 7 + round % 15);
                let moment = turn(store, number + round);
                die_and_recover(place, script, &[&first, &fault(moment, write, round)])
            });
            println!("{store:?} {} killed again: {one:?}", script.name);
            // The later the first death, the less there is to recover.
            assert!(one.kills >= 4, "{}: {one:?}", script.name);
        }
    }
}

/// Tries writes in their order, several at once, until the script has no more of them.
fn every_write(store: Store, one: impl Fn(&Place, u32) -> Outcome + Sync) -> Outcome {
    let (next, unharmed) = (AtomicU32::new(1), AtomicU32::new(0));
    let work = || {
        let (place, mut total) = (Place::new(store), Outcome::default());
        while unharmed.load(Ordering::SeqCst) < UNHARMED {
            let write = next.fetch_add(1, Ordering::SeqCst);
            assert!(write < WRITES_MAX, "the script never ended unharmed");
            let outcome = one(&place, write);
            unharmed.fetch_add(u32::from(outcome.kills == 0), Ordering::SeqCst);
            total.add(outcome);
        }
        total
    };
    let mut total = Outcome::default();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        all.into_iter().for_each(|one| total.add(one.join().unwrap()));
    });
    total
}

/// One process after the other.
struct Story {
    script: &'static Script,
    store: String,
    effects: PathBuf,
    /// What was found when each process began, and how many effects there were.
    found: Vec<(usize, Vec<TaskRow>)>,
    /// What the processes were told, for messages.
    faults: String,
}

/// A process that dies at its write, perhaps another, and what comes after them.
fn die_and_recover(place: &Place, script: &'static Script, faults: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let (store, effects) = (place.fresh(folder.path()), folder.path().join("effects"));
    let mut story =
        Story { script, store, effects, found: vec![(0, Vec::new())], faults: format!("{} {faults:?}", script.name) };
    let mut outcome = Outcome { kills: 1, ..Outcome::default() };
    for (number, fault) in faults.iter().enumerate() {
        let Some((inside, said)) = story.process(fault, number == 0) else {
            // Only who dies at the last of its faults has been killed where it should.
            return Outcome::default();
        };
        outcome.inside = u32::from(inside);
        place.until_alone();
        place.runtime.block_on(async {
            let stores = script::opened(&story.store).await;
            let rows = tasks(&*stores.state).await;
            check::acknowledged(&story.faults, &said, &rows);
            story.found.push((lines(&story.effects).len(), rows));
            if number + 1 == faults.len() {
                story.recover(&stores).await;
            }
        });
    }
    outcome.twice = check::effects(&story);
    outcome
}

impl Story {
    /// Lets one process die; says whether before the answer of its write, and what it said before, or nothing if it came to its
    /// end unharmed.
    fn process(&self, fault: &str, first: bool) -> Option<(bool, String)> {
        let mut puppet = Command::new(puppet());
        puppet.args(["script", self.script.name, &self.store]).arg(&self.effects);
        puppet.arg(if first { "first" } else { "next" }).env("WINDLASS_FAULT", fault).stdin(Stdio::null());
        let output = puppet.output().unwrap();
        let (said, err) = (text(&output.stdout), text(&output.stderr));
        let faults = &self.faults;
        if output.status.success() {
            assert!(said.ends_with("unharmed\n"), "{faults}: {said}{err}");
            check::effects(self);
            return None;
        }
        let signal = output.status.signal();
        assert!(signal.is_some_and(|signal| DEADLY.contains(&signal)), "{faults}: {}\n{said}{err}", output.status);
        Some((!err.contains(TOO_LATE), said))
    }

    /// The last process: it looks, it waits for people, and with them it comes to the end.
    async fn recover(&self, stores: &Stores) {
        let (script, fault) = (self.script, &self.faults);
        let (watched, stores) = Watched::over(stores, |_| {});
        let stage = Stage::set(stores, &self.effects, LEASE_MS).await;
        let windlass = &stage.windlass;
        let (before, found) = self.found.last().unwrap();
        let known = windlass.view_plan(&script::plan_id()).await.is_ok();
        assert_eq!(known, !found.is_empty(), "{fault}: a plan and its tasks are created in one step");

        let still = async {
            person::until_the_dead_are_gone(windlass).await;
            let looks = watched.looks();
            until(|| watched.looks() >= looks + 3).await;
        };
        assert!(tokio::time::timeout(PATIENCE, still).await.is_ok(), "{fault}: it does not look, or the dead live");
        assert_eq!(lines(&self.effects).len(), *before, "{fault}: something ran without a person");
        let after = tasks(&*windlass.stores().state).await;
        assert_eq!(after, *found, "{fault}: something moved without a person");
        if known {
            check::inbox(fault, windlass, &after).await;
        }

        assert_eq!(script.create(windlass).await.unwrap(), script::plan_id(), "{fault}");
        let seen = person::see_through(script, &stage, person::RECOVERY);
        if tokio::time::timeout(PATIENCE, seen).await.is_err() {
            let (inbox, tasks) = (windlass.inbox().await, tasks(&*windlass.stores().state).await);
            let plan = (windlass.why_plan(&script::plan_id()).await, windlass.plan_history(&script::plan_id()).await);
            panic!("{fault}: it does not come to its end: {plan:#?} {inbox:#?} {tasks:#?}");
        }
        windlass.stop().await;
    }
}

#[cfg(feature = "fault")]
use windlass::fault::TOO_LATE;
/// Nothing dies without the feature, and every test here says so.
#[cfg(not(feature = "fault"))]
const TOO_LATE: &str = "";

async fn tasks(state: &dyn State) -> Vec<TaskRow> {
    let filter = Filter::Tasks { plan: None, tenant: None, statuses: Statuses::ALL, interrupted: false };
    let page = state.list(&filter, None, PAGE_MAX).await.unwrap();
    let task = |row| match row {
        Row::Task(row) => *row,
        other => panic!("{other:?} is no task"),
    };
    page.items.into_iter().map(task).collect()
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
