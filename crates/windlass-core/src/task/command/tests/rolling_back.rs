use super::*;
use crate::fixture::{failure, ran, rolling, then};

const ROLLBACK: Command = Command::Rollback { force: false };

fn asked(scene: &Scene) -> (Range, u32) {
    let decision = decided(scene, &ROLLBACK).unwrap();
    let Some(Request::Start(Start { kind: StartKind::Rollback, range, pass, .. })) = decision.ask else { panic!() };
    // Whoever ran it may come back first: then the history is all that is left of what was asked for.
    let told = match scene.task.status.is_running() {
        true => vec![Fact::TaskRollbackRequested],
        false => vec![],
    };
    assert_eq!((decision.facts, decision.checkpoint), (told, None));
    (range, pass)
}

fn refusal(scene: &Scene) -> (RefusedCode, String) {
    let refused = decided(scene, &ROLLBACK).unwrap_err();
    (refused.code, refused.why)
}

#[test]
fn a_rollback_covers_what_ran_and_the_stage_whose_effect_is_unknown() {
    let paused = Fact::TaskPaused { cause: Cause::Person };
    let cancelled = Fact::TaskCancelled { cause: Cause::Person };
    let announced = Fact::StageStarted(fixture::at(2));
    let cases = [
        ("failed in its first stage", failed(0), false, 1),
        ("failed in stage 2", failed(2), false, 3),
        ("failed in its last", failed(3), false, 4),
        ("interrupted in stage 2", then(ran(2), std::slice::from_ref(&announced)), true, 3),
        ("interrupted between stages", ran(2), true, 2),
        ("paused", then(ran(2), std::slice::from_ref(&paused)), false, 2),
        ("paused, the next stage announced and not run", then(ran(2), &[announced.clone(), paused]), false, 2),
        ("cancelled", then(ran(2), std::slice::from_ref(&cancelled)), false, 2),
        ("cancelled, the next stage announced and not run", then(ran(2), &[announced, cancelled]), false, 2),
        ("completed", then(ran(4), &[Fact::TaskCompleted { context: None }]), false, 4),
    ];
    for (name, facts, lease_expired, to) in cases {
        let scene = Scene { lease_expired, ..Scene::new(name, &facts) };
        assert_eq!(asked(&scene), (Range { from: 0, to }, 2), "{name}");
    }
}

#[test]
fn without_previous_and_without_undo_it_is_refused() {
    let scene = Scene { can_take_back: false, ..Scene::new("FAILED", &failed(2)) };
    let why = "the task has no `previous`, and none of its stages has an `undo`".to_owned();
    assert_eq!(refusal(&scene), (RefusedCode::NothingToTakeBack, why));
}

#[test]
fn where_nothing_has_begun_there_is_nothing_to_take_back() {
    let nothing = (RefusedCode::NothingToTakeBack, "no stage has begun".to_owned());
    for cause in [Cause::Person, Cause::Plan, Cause::Conflict] {
        assert_eq!(refusal(&Scene::new("CANCELLED", &[Fact::TaskCancelled { cause }])), nothing);
    }
    assert_eq!(refusal(&Scene::new("PAUSED", &then(ran(0), &[Fact::TaskPaused { cause: Cause::Freeze }]))), nothing);
    assert_eq!(refusal(&Scene::new("RUNNING", &ran(0)).interrupted()), nothing);
}

#[test]
fn a_rollback_that_failed_or_was_interrupted_is_done_again_over_the_same_stages() {
    let fails = |index| Fact::TaskRollbackFailed { failure: failure(index) };
    let back = |index| Fact::StageCompleted { at: fixture::at(index), took_ms: 1 };
    let from_cancelled = then(
        ran(2),
        &[
            Fact::TaskCancelled { cause: Cause::Person },
            Fact::TaskRollingBack(fixture::begun(0, 2, 2, 2)),
            Fact::StageStarted(fixture::at(0)),
        ],
    );
    let cases = [
        ("interrupted", rolling(), true, 2),
        ("interrupted, one stage taken back", then(rolling(), &[back(0)]), true, 2),
        ("failed", then(rolling(), &[fails(0)]), false, 2),
        ("failed, of a cancelled task: stage 2 never began", then(from_cancelled, &[fails(0)]), false, 2),
    ];
    for (name, facts, lease_expired, to) in cases {
        let mut scene = Scene { lease_expired, ..Scene::new(name, &facts) };
        assert_eq!(asked(&scene), (Range { from: 0, to }, 3), "{name}");
        scene.task = after(&scene, &decided(&scene, &ROLLBACK).unwrap());
        scene.lease_expired = true;
        assert_eq!(asked(&scene), (Range { from: 0, to }, 4), "{name}, a third time");
    }
}

#[test]
fn a_rollback_keeps_its_progress_apart_and_only_a_retry_resets_the_other() {
    let mut scene = Scene::new("FAILED", &failed(2));
    scene.task = after(&scene, &decided(&scene, &ROLLBACK).unwrap());
    for index in 0..3 {
        let back = Fact::StageCompleted { at: fixture::at(index), took_ms: 1 };
        scene.task = apply(Some(scene.task), &event(60, back)).unwrap();
        let attempt = scene.task.attempt.unwrap();
        assert_eq!((scene.task.completed, attempt.done, scene.task.taken_back), (2, index + 1, true));
    }
    scene.task = apply(Some(scene.task), &event(61, Fact::TaskRolledBack)).unwrap();
    assert_eq!((scene.task.completed, scene.task.stage, scene.task.ended_at), (2, None, Some(Ms::new(61))));
    scene.task = after(&scene, &decided(&scene, &retry(RetryFrom::Start)).unwrap());
    assert_eq!((scene.task.completed, scene.task.taken_back, scene.task.pass), (0, false, 3));
}

#[test]
fn an_approval_is_answered_before_anything_is_taken_back() {
    let mut scene = scenes().into_iter().find(|scene| scene.name == "PAUSED, approval wanted").unwrap();
    assert_eq!(refusal(&scene).0, RefusedCode::ApprovalWanted);
    scene.task = after(&scene, &decided(&scene, &Command::Reject).unwrap());
    assert_eq!(asked(&scene), (Range { from: 0, to: 2 }, 2));
}
