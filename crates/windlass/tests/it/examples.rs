//! The examples run, and print what they are there to show.

use std::path::Path;
use std::process::Command;

use super::{root, text};

/// The examples stand beside the tests: `cargo test` and `cargo nextest run` build them with them.
pub(crate) fn run(name: &str) -> Vec<String> {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is not there; is the example built?", program.display());
    let output = Command::new(&program).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn handlers_retries_one_tenant_where_it_stopped() {
    assert_eq!(
        run("handlers"),
        [
            r#"acme: a database with {"size":"small"}"#,
            r#"acme: mail "Your database is db://acme""#,
            r#"blue: a database with {"size":"large"}"#,
            "the plan is FAILED",
            "inbox: Failure: stage welcome: the mailbox is full",
            "possible now: retry, skip-stage",
            r#"blue: mail "Your database is db://blue""#,
            "the plan is COMPLETED",
        ]
    );
}

#[test]
fn jobs_puts_a_dead_job_back_to_work() {
    assert_eq!(
        run("jobs"),
        [
            "printed \"a receipt\"",
            "the receipt: {\"pages\":1}",
            "the letter is FAILED: out of paper",
            "inbox: DeadJob: queue printer, after 1 attempts: out of paper",
            "printed \"a letter\"",
            "the letter: {\"pages\":1}",
        ]
    );
}

#[test]
fn rollout_approves_one_tenant_and_takes_the_other_back() {
    let out = run("rollout");
    let calls = |tenant: &str| -> Vec<String> {
        out.iter()
            .filter_map(|line| line.split_once(&format!(" /{tenant} ")))
            .map(|(m, v)| format!("{m} {v}"))
            .collect()
    };
    let (old, new) = (r#"{"version":41}"#, r#"{"version":42}"#);
    let forth = [format!("PUT {new}"), format!("GET {old}"), format!("GET {new}")];
    let back = [format!("PUT {old}"), format!("GET {new}"), format!("GET {old}")];
    assert_eq!(calls("acme"), forth);
    assert_eq!(calls("blue"), [forth, back].concat());
    let said: Vec<_> = out.iter().filter(|line| !line.contains(" /")).map(String::as_str).collect();
    assert_eq!(
        said,
        [
            "inbox: Approval of acme",
            "inbox: Approval of blue",
            "approve acme",
            "acme is COMPLETED",
            "reject blue",
            "blue is FAILED",
            "rollback blue",
            "blue is ROLLED_BACK",
            "blue: TaskCreated TaskStarted StageStarted StageCompleted StageStarted StageCompleted StageStarted \
             ApprovalWanted TaskPaused Rejected TaskFailed TaskRollingBack StageStarted StageCompleted StageStarted \
             StageCompleted TaskRolledBack",
        ]
    );
}

#[test]
fn crash_and_retry_runs_what_was_not_done_and_nothing_else() {
    // On a machine that stands still for two seconds the lease is over before the store is open.
    let found = |line: &String| line.replace("found: RUNNING, interrupted;", "found: RUNNING;");
    assert_eq!(
        run("crash_and_retry").iter().map(found).collect::<Vec<_>>(),
        [
            "child: write-config runs",
            "child: switch runs",
            "child: signal: 9 (SIGKILL)",
            "found: RUNNING; done: write-config; the tenant's lock is held",
            "after its lease: RUNNING, interrupted; done: write-config; the tenant's lock is held",
            "nothing has moved: true",
            "inbox: InterruptedPlan: nobody conducts it",
            "inbox: InterruptedTask: nobody runs it",
            "why: interrupted; possible now: retry, cancel, skip-stage",
            "a retry would run switch, sign-off",
            "the plan is COMPLETED",
            "ran here: switch under key switch-1/switch-1-0/switch/1",
            "ran here: sign-off under key switch-1/switch-1-0/sign-off/1",
            "1 TaskCreated",
            "2 TaskStarted",
            "3 StageStarted write-config",
            "4 StageCompleted write-config",
            "5 StageStarted switch",
            "6 TaskRetryRequested",
            "7 TaskRetryStarted",
            "8 StageStarted switch",
            "9 StageCompleted switch",
            "10 StageStarted sign-off",
            "11 StageCompleted sign-off",
            "12 TaskCompleted",
        ]
    );
}
