use super::*;

const LOCK: &str = "\
//! Locks.

/// Two rivals, one lock.
pub async fn one_of_two_rivals_gets_it(h: &dyn Harness) {
    helper(h).await;
}

pub(crate) async fn an_expired_lock_is_taken_over<H: Harness>(
    h: &H,
    other: u8,
) {
}

async fn helper(h: &dyn Harness) {}

pub async fn with_another_first_parameter(store: &dyn Store) {}
";

const LISTED: &str = "\
//! Every scenario.
macro_rules! scenarios { ($($path:path,)*) => {}; }

scenarios! { $
    lock::{
        one_of_two_rivals_gets_it,
        an_expired_lock_is_taken_over, // the fence grows
    }
}
";

const JOB: &str = "pub async fn a_job_is_done_once(h: &dyn JobHarness) {}\n";

const JOBS_LISTED: &str = "scenarios! { $ work::{ a_job_is_done_once } }\n";

const LIST: &str = PARTS[0].list;

const STORE_TEST: &str = "windlass_conformance::run!(open);\n";

fn tree_of(list: &str, scenario: &str, store_test: &str) -> Vec<Problem> {
    with_jobs(
        JOBS_LISTED,
        &[
            (LIST, list),
            ("crates/windlass-conformance/src/scenario/lock.rs", scenario),
            ("crates/windlass-store-embedded/src/lib.rs", ""),
            ("crates/windlass-store-embedded/tests/it/main.rs", store_test),
        ],
    )
}

/// With the contract of jobs beside it.
fn with_jobs(list: &str, texts: &[(&str, &str)]) -> Vec<Problem> {
    let jobs = [(PARTS[1].list, list), ("crates/windlass-conformance/src/job/scenario/work.rs", JOB)];
    let triggers = [
        (PARTS[2].list, "scenarios! { $ claim::{ each_once } }\n"),
        (
            "crates/windlass-conformance/src/trigger/scenario/claim.rs",
            "pub async fn each_once(h: &dyn TriggerHarness) {}\n",
        ),
    ];
    check(&Tree::of(&[texts, &jobs, &triggers].concat()))
}

#[test]
fn a_list_with_every_scenario_passes_and_helpers_are_not_scenarios() {
    assert_eq!(tree_of(LISTED, LOCK, STORE_TEST), []);
}

#[test]
fn an_unlisted_scenario_is_refused_with_its_place() {
    let list = LISTED.replace("an_expired_lock_is_taken_over,", "");
    let problems = tree_of(&list, LOCK, STORE_TEST);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].at, "crates/windlass-conformance/src/scenario/lock.rs:8");
    assert!(problems[0].what.contains("lock::an_expired_lock_is_taken_over is not in the list"));
    assert!(problems[0].fix.contains(LIST));
}

#[test]
fn a_commented_out_entry_is_not_listed() {
    let list = LISTED.replace("    one_of", "    // one_of");
    let problems = tree_of(&list, LOCK, STORE_TEST);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].what.contains("lock::one_of_two_rivals_gets_it"));
}

#[test]
fn a_scenario_of_the_same_name_in_another_module_is_not_listed() {
    let list = LISTED
        .replace("lock::{", "state::{ one_of_two_rivals_gets_it }\n    lock::{")
        .replace("        one_of", "        // one_of");
    assert_eq!(tree_of(&list, LOCK, STORE_TEST).len(), 1);
}

#[test]
fn an_entry_twice_is_refused() {
    let list = LISTED.replace("lock::{", "lock::{ one_of_two_rivals_gets_it,");
    let problems = tree_of(&list, LOCK, STORE_TEST);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].what.contains("listed twice"));
}

#[test]
fn a_missing_list_and_a_contract_without_scenarios_are_refused() {
    let problems = check(&Tree::of(&[]));
    let at: Vec<&str> = problems.iter().map(|problem| problem.at.as_str()).collect();
    assert_eq!(at, PARTS.map(|part| part.list));
    let problems = with_jobs(JOBS_LISTED, &[(LIST, LISTED)]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].what, "there is no scenario");
}

#[test]
fn an_unlisted_scenario_of_jobs_is_refused() {
    let scenario = ("crates/windlass-conformance/src/scenario/lock.rs", LOCK);
    let problems = with_jobs("scenarios! { $ }", &[(LIST, LISTED), scenario]);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].what.contains("work::a_job_is_done_once is not in the list"));
    assert!(problems[0].fix.contains("job/list.rs"));
}

#[test]
fn a_store_that_does_not_run_the_contract_is_refused() {
    for test in ["", "// windlass_conformance::run!(open);\n"] {
        let problems = tree_of(LISTED, LOCK, test);
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(problems[0].at, "crates/windlass-store-embedded/tests");
        assert!(problems[0].what.contains("not held to the contract"));
    }
}
