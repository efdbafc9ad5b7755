use super::*;
use crate::fixture::{by, created, failed, hold, start, told};

fn wanting_all() -> Control {
    let mut control = Control::default();
    control.ask(Request::Pause(hold(Cause::Person)));
    control.ask(Request::Cancel(hold(Cause::Plan)));
    control.ask(Request::Skip(Skip { stage: 1, by: by(), reason: None }));
    control
}

#[test]
fn requests_add_up_and_a_pause_can_be_taken_back() {
    let mut control = wanting_all();
    assert!(control.pause.is_some() && control.cancel.is_some() && control.skip.is_some() && control.wants_owner());
    control.ask(Request::Unpause);
    assert!(control.pause.is_none() && control.cancel.is_some());
}

#[test]
fn what_is_wanted_ends_with_the_run_it_was_wanted_of() {
    let start = start(StartKind::Retry, 0, 4, 2);
    let with_start = Control { start: Some(start), ..wanting_all() };
    for (from, to) in TaskStatus::ALL.into_iter().flat_map(|from| TaskStatus::ALL.map(|to| (from, to))) {
        let stays = with_start.clone().after(from, to, false);
        let begun = with_start.clone().after(from, to, true);
        match to.is_running() {
            true => assert_eq!((stays, begun), (with_start.clone(), wanting_all()), "{from} to {to}"),
            false if from == to => assert_eq!(stays, with_start, "{to}, given back"),
            false => assert!(stays.is_empty() && begun.is_empty(), "{from} to {to}"),
        }
    }
}

#[test]
fn a_task_is_ready_when_it_is_pending_or_asked_to_start() {
    let mut asked = Control::default();
    asked.ask(Request::Start(start(StartKind::Retry, 1, 4, 1)));
    let mut pending = created(4);
    assert_eq!(pending.readiness(&Control::default()), Some(Readiness::Free));
    assert!(!pending.takes_slot());
    pending.owner = Some("i1".parse().unwrap());
    assert_eq!(pending.readiness(&Control::default()), Some(Readiness::Claimed));
    assert!(pending.takes_slot());
    let failed = told(&failed(1));
    assert_eq!(failed.readiness(&Control::default()), None);
    assert_eq!(failed.readiness(&asked), Some(Readiness::Asked));
    assert!(!failed.takes_slot(), "an ended attempt gives its slot up");
}

#[test]
fn a_lock_that_was_taken_away_concerns_the_attempt_that_had_it_and_no_other() {
    let mut control = Control::default();
    control.ask(Request::Revoke(Fence(7)));
    assert!(control.wants_owner() && control.revoked == Some(Fence(7)));
    assert_eq!(control.clone().after(TaskStatus::Running, TaskStatus::Running, false), control);
    for (to, begun) in [(TaskStatus::Running, true), (TaskStatus::RollingBack, true), (TaskStatus::Failed, false)] {
        assert!(control.clone().after(TaskStatus::Running, to, begun).is_empty(), "{to}");
    }
    control.ask(Request::Start(start(StartKind::Retry, 1, 4, 1)));
    assert_eq!(control.revoked, None);
}
