use super::*;
use crate::checkpoint::Checkpoint;
use crate::fixture::{ran, rolling, then};

fn scene() -> Scene {
    Scene::new("FAILED", &failed(2))
}

fn refusal(scene: &Scene, command: &Command) -> (RefusedCode, String) {
    let refused = decided(scene, command).unwrap_err();
    (refused.code, refused.why)
}

fn asked(decision: &Decision) -> (Range, u32) {
    let Some(Request::Start(Start { kind: StartKind::Retry, range, pass, .. })) = &decision.ask else { panic!() };
    (*range, *pass)
}

#[test]
fn a_task_is_retried_as_often_as_its_limit_says_and_zero_is_no_limit() {
    for (limit, retries, taken) in
        [(3, 0, true), (3, 2, true), (3, 3, false), (3, 4, false), (1, 0, true), (1, 1, false), (0, 1000, true)]
    {
        let mut scene = scene();
        scene.retry_limit = limit;
        scene.task.retries = retries;
        for from in [RetryFrom::Checkpoint, RetryFrom::Start] {
            let result = decided(&scene, &retry(from));
            assert_eq!(result.is_ok(), taken, "limit {limit}, {retries} retries");
            if let Err(refused) = result {
                assert_eq!(refused.code, RefusedCode::RetryLimit);
                assert_eq!(refused.why, format!("it was retried {retries} times; the limit is {limit}"));
            }
        }
    }
}

#[test]
fn every_retry_that_begins_counts() {
    let mut scene = scene();
    for n in 1..=3 {
        scene.task = after(&scene, &decided(&scene, &retry(RetryFrom::Checkpoint)).unwrap());
        assert_eq!((scene.task.retries, scene.task.attempt.map(|attempt| attempt.number)), (n, Some(n + 1)));
        scene.lease_expired = true;
    }
    assert_eq!(refusal(&scene, &retry(RetryFrom::Checkpoint)).0, RefusedCode::RetryLimit);
}

#[test]
fn only_the_tenants_latest_started_task_is_taken_up_unless_forced_with_a_reason() {
    let reason: Reason = "the newer one is a test".parse().unwrap();
    let forced = |force| {
        let from = RetryFrom::Checkpoint;
        [Command::Retry(Retry { from, restart_if_invalid: false, force }), Command::Rollback { force }]
    };
    let mut scene = scene();
    scene.latest = false;
    let code = |command: &Command, reason| decide(&scene.standing(), command, &by(), reason, NOW).map_err(|no| no.code);
    for command in forced(false) {
        assert_eq!(code(&command, None), Err(RefusedCode::NotLatest));
        assert_eq!(code(&command, Some(&reason)), Err(RefusedCode::NotLatest));
    }
    for command in forced(true) {
        assert_eq!(code(&command, None), Err(RefusedCode::ReasonWanted));
        assert!(code(&command, Some(&reason)).is_ok());
    }
}

#[test]
fn a_task_that_a_conflict_skipped_is_retried_though_the_one_in_its_way_started_later() {
    let mut scene = Scene::new("skipped", &[Fact::TaskCancelled { cause: Cause::Conflict }]);
    scene.latest = false;
    let decision = decided(&scene, &retry(RetryFrom::Checkpoint)).unwrap();
    assert_eq!(asked(&decision), (Range { from: 0, to: 4 }, 1));
    let task = after(&scene, &decision);
    assert_eq!((task.status, task.retries, task.hold, task.ended_at), (TaskStatus::Running, 1, None, None));
}

#[test]
fn a_frozen_tenant_and_a_start_already_asked_for_refuse() {
    let mut frozen = scene();
    frozen.frozen = true;
    assert_eq!(refusal(&frozen, &retry(RetryFrom::Start)).0, RefusedCode::Frozen);
    let twice = scene().asked(Request::Start(fixture::start(StartKind::Rollback, 0, 3, 2)));
    let why = "rollback was asked for by ann and has not begun yet".to_owned();
    assert_eq!(refusal(&twice, &retry(RetryFrom::Start)), (RefusedCode::Asked, why));
}

/// Each rule of a checkpoint, broken alone.
fn broken() -> Vec<(&'static str, Checkpoint, Option<Ms>)> {
    let with = |change: fn(&mut Checkpoint)| {
        let mut broken = checkpoint(2);
        change(&mut broken);
        broken
    };
    vec![
        ("its last completed stage is 4, but the task has 4 stages", with(|c| c.last_completed_stage_index = 4), None),
        (
            "its last completed stage is -2, but the task has 4 stages",
            with(|c| c.last_completed_stage_index = -2),
            None,
        ),
        (
            "it names 2 completed stages, but its last completed stage is 2",
            with(|c| c.last_completed_stage_index = 2),
            None,
        ),
        (
            "its completed stage 1 is other, but the task's stage 1 is s1",
            with(|c| c.completed_stages[1] = "other".parse().unwrap()),
            None,
        ),
        ("its completed stage 0 is s1, but the task's stage 0 is s0", with(|c| c.completed_stages.reverse()), None),
        ("it was kept until 1970-01-01T00:16:40.000Z", checkpoint(2), Some(NOW)),
    ]
}

#[test]
fn an_invalid_checkpoint_refuses_and_names_the_rule_or_is_discarded_if_asked() {
    for (rule, broken, kept_until) in broken() {
        let scene = Scene { checkpoint: Some(broken), kept_until, ..scene() };
        for from in [RetryFrom::Checkpoint, at_stage(1)] {
            let why = format!("the checkpoint is not valid: {rule}");
            assert_eq!(refusal(&scene, &retry(from.clone())), (RefusedCode::Checkpoint, why));
            let restart = Command::Retry(Retry { from, restart_if_invalid: true, force: false });
            let decision = decided(&scene, &restart).unwrap();
            assert_eq!(decision.discarded.as_deref(), Some(rule));
            assert_eq!(asked(&decision), (Range { from: 0, to: 4 }, 2));
            let new = decision.checkpoint.as_ref().unwrap();
            assert_eq!((new.completed(), new.pass, new.version, new.saved_at), (0, 2, 4, NOW));
            assert_eq!((new.context_data.as_str(), new.stage_durations.len()), ("{}", 0));
            assert_eq!(after(&scene, &decision).completed, 0);
        }
        assert!(decided(&scene, &retry(RetryFrom::Start)).is_ok(), "the start needs no checkpoint: {rule}");
    }
}

#[test]
fn a_valid_checkpoint_is_not_discarded() {
    let kept = Scene { kept_until: Some(NOW.plus(1)), ..scene() };
    let command = Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: true, force: false });
    let decision = decided(&kept, &command).unwrap();
    assert_eq!((asked(&decision), decision.discarded), ((Range { from: 2, to: 4 }, 1), None));
}

#[test]
fn a_retry_stays_in_its_pass_unless_it_begins_before_the_first_stage_that_is_not_done() {
    let cases = [
        (RetryFrom::Checkpoint, 2, 1, None),
        (at_stage(2), 2, 1, None),
        (at_stage(1), 1, 2, Some(r#"{"s0":null}"#)),
        (at_stage(0), 0, 2, Some("{}")),
        (RetryFrom::Start, 0, 2, Some("{}")),
    ];
    for (from, begins, pass, context) in cases {
        let scene = scene();
        let decision = decided(&scene, &retry(from.clone())).unwrap();
        assert_eq!(asked(&decision), (Range { from: begins, to: 4 }, pass), "{from:?}");
        let task = after(&scene, &decision);
        assert_eq!((task.completed, task.pass, task.failure), (begins, pass, None));
        let rewound = decision.checkpoint;
        assert_eq!(rewound.as_ref().map(|new| new.context_data.as_str()), context, "{from:?}");
        if let Some(new) = rewound {
            assert_eq!((new.completed(), new.pass, new.version), (begins, pass, 4));
        }
    }
}

#[test]
fn a_named_stage_must_exist_and_not_lie_beyond_the_first_that_is_not_done() {
    let beyond = "stage 3 lies beyond stage 2, the first that is not done".to_owned();
    assert_eq!(refusal(&scene(), &retry(at_stage(3))), (RefusedCode::Stage, beyond));
    let unknown = "the task has no stage s9".to_owned();
    assert_eq!(refusal(&scene(), &retry(at_stage(9))), (RefusedCode::Stage, unknown));
}

#[test]
fn without_its_checkpoint_a_task_that_had_come_further_begins_anew_in_a_new_pass() {
    let decision = decided(&scene().no_checkpoint(), &retry(RetryFrom::Checkpoint)).unwrap();
    assert_eq!((asked(&decision), decision.checkpoint), ((Range { from: 0, to: 4 }, 2), None));
}

#[test]
fn once_a_rollback_has_begun_a_retry_is_from_the_start_and_afterwards_free_again() {
    let fails = Fact::TaskRollbackFailed { failure: fixture::failure(0) };
    let mut scene = Scene::new("ROLLBACK_FAILED", &then(rolling(), &[fails]));
    for from in [RetryFrom::Checkpoint, at_stage(0), at_stage(1)] {
        assert_eq!(refusal(&scene, &retry(from)).0, RefusedCode::Stage);
    }
    let decision = decided(&scene, &retry(RetryFrom::Start)).unwrap();
    assert_eq!(asked(&decision), (Range { from: 0, to: 4 }, 3));
    scene.task = after(&scene, &decision);
    scene.checkpoint = decision.checkpoint;
    scene.lease_expired = true;
    assert!(decided(&scene, &retry(RetryFrom::Checkpoint)).is_ok(), "interrupted in the new pass");
}

#[test]
fn a_task_interrupted_before_its_first_stage_ended_begins_again_in_the_same_pass() {
    let scene = Scene::new("RUNNING", &then(ran(0), &[Fact::StageStarted(fixture::at(0))])).interrupted();
    assert_eq!(asked(&decided(&scene, &retry(RetryFrom::Checkpoint)).unwrap()), (Range { from: 0, to: 4 }, 1));
}
