//! A whole system in one thread: engines, store, clock and everything that goes wrong, in an order that a seed
//! decides. Ten thousand seeds, each judged against the promises.
//!
//! `WINDLASS_SEEDS` says how many there are, `WINDLASS_SOAK=1` makes it twenty times as many, and
//! `WINDLASS_SEED` replays one and tells what happened in it.

mod end;
mod net;
mod people;
mod plans;
mod spoil;
mod spoil_works;
mod truth;
mod wants;
mod wires;
mod witness;
mod works;
mod world;

use std::collections::BTreeMap;

use spoil::Rule;
use world::World;

/// Seeds, unless somebody says otherwise.
const SEEDS: u64 = 10_000;
/// Seeds in which a broken rule is noticed, at the latest.
const SPOILED_SEEDS: usize = 400;
/// They are shared out, so that they run beside each other.
const PARTS: u64 = 8;

/// Every so many seeds of a share there are jobs and triggers too.
const WORKS: u64 = 5;

fn has_works(seed: u64) -> bool {
    (seed / PARTS).is_multiple_of(WORKS)
}

/// What must have happened in every share of the seeds, or the promises were not put to the test.
const SEEN: [&str; 48] = [
    "PlanCreated",
    "PlanStarted",
    "PlanPaused",
    "PlanResumed",
    "PlanCompleted",
    "PlanFailed",
    "PlanCancelled",
    "TaskCreated",
    "TaskStarted",
    "StageStarted",
    "StageCompleted",
    "StageFailed",
    "StageSkipped",
    "TaskPauseRequested",
    "TaskPaused",
    "TaskResumed",
    "TaskCompleted",
    "TaskFailed",
    "TaskCancelRequested",
    "TaskCancelled",
    "TaskRetryRequested",
    "TaskRetryStarted",
    "TaskRollbackRequested",
    "TaskRollingBack",
    "TaskRolledBack",
    "TaskRollbackFailed",
    "ApprovalWanted",
    "Approved",
    "Rejected",
    "LockForceReleased",
    "TenantFrozen",
    "TenantUnfrozen",
    "the target took",
    "the target refused",
    "a stale fence was refused",
    "a repeat was known again",
    "a job was delivered",
    "a job was delivered again",
    "a job was completed",
    "a job failed",
    "a job was handed back",
    "a job was cancelled",
    "a job was requeued",
    "a late answer was refused",
    "an occurrence was claimed",
    "an occurrence made a job",
    "an occurrence met the job it had made",
    "a trigger made a plan",
];

/// What one seed came to.
struct Outcome {
    wrong: Option<String>,
    /// The same for the same seed.
    hash: u64,
    trace: Vec<String>,
    counts: BTreeMap<&'static str, u64>,
}

fn run(seed: u64, told: bool, spoiled: Option<Rule>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new(seed, told, spoiled);
        world.storm().await;
        world.calm_down().await;
        if !world.truth.is_wrong() {
            match world.works {
                true => world.works_end().await,
                false => world.end().await,
            }
        }
        world.end_all();
        let counts = std::mem::take(&mut world.truth.facts().counts);
        let (wrong, hash, trace) = world.truth.end();
        Outcome { wrong, hash, trace, counts }
    })
}

#[expect(clippy::disallowed_methods, reason = "a test's settings have no other way in")]
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")))
}

/// Runs a share of the seeds.
fn share(part: u64) {
    let (one, some) = (setting("WINDLASS_SEED"), setting("WINDLASS_SEEDS"));
    let soak = if setting("WINDLASS_SOAK").is_some() { 20 } else { 1 };
    let seeds = match one {
        Some(seed) => seed..seed + 1,
        None => 0..some.unwrap_or(SEEDS) * soak,
    };
    let mut counts = BTreeMap::new();
    for seed in seeds.filter(|seed| seed % PARTS == part) {
        let outcome = run(seed, false, None);
        for (what, n) in outcome.counts {
            *counts.entry(what).or_insert(0) += n;
        }
        if let Some(wrong) = outcome.wrong {
            let trace = run(seed, true, None).trace.join("\n");
            panic!(
                "{trace}\n\nseed {seed}: {wrong}\n\n\
                 again: WINDLASS_SEED={seed} cargo nextest run -p windlass-engine simulation::part_{part}\n"
            );
        }
    }
    println!("{counts:#?}");
    let missing = SEEN.iter().find(|what| !counts.contains_key(**what));
    assert!(one.or(some).is_some() || missing.is_none(), "in no seed: {missing:?}");
}

macro_rules! parts {
    ($($name:ident $part:literal)*) => {$(
        #[test]
        fn $name() {
            share($part);
        }
    )*};
}

parts! { part_0 0 part_1 1 part_2 2 part_3 3 part_4 4 part_5 5 part_6 6 part_7 7 }

#[test]
fn the_same_seed_is_the_same_story() {
    for seed in 0..40 {
        let (once, again) = (run(seed, true, None), run(seed, true, None));
        let differs = once.trace.iter().zip(&again.trace).position(|(once, again)| once != again);
        if let Some(at) = differs {
            panic!("seed {seed}, line {at}:\n{}\n{}", once.trace[at], again.trace[at]);
        }
        assert_eq!(once.hash, again.hash, "seed {seed}");
    }
}

#[test]
fn a_store_that_breaks_a_rule_is_found_out() {
    let plans = [Rule::Fence, Rule::Repeat, Rule::Lives, Rule::Release, Rule::Slots, Rule::Progress];
    let works = [Rule::Answer, Rule::Claim, Rule::Occurrence, Rule::Job];
    let rules = plans.map(|rule| (rule, false)).into_iter().chain(works.map(|rule| (rule, true)));
    for (rule, of_works) in rules {
        let seeds = (0..).filter(|seed| has_works(*seed) == of_works).take(SPOILED_SEEDS);
        let mut found = seeds.filter_map(|seed| run(seed, false, Some(rule)).wrong.map(|wrong| (seed, wrong)));
        let found = found.next();
        match found {
            Some((seed, wrong)) => println!("without {rule:?}, seed {seed}: {wrong}"),
            None => panic!("{rule:?} is broken, and nobody noticed in {SPOILED_SEEDS} seeds"),
        }
    }
}
