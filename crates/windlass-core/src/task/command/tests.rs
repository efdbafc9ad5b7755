use super::*;
use crate::fixture::{NOW, Scene, by, checkpoint, event, failed, golden, scenes};
use crate::id::InstanceId;
use crate::projection::apply;
use crate::task::Task;
use crate::task::advance::begin;
use crate::{fence::Fence, fixture};

fn retry(from: RetryFrom) -> Command {
    Command::Retry(Retry { from, restart_if_invalid: false, force: false })
}

fn at_stage(index: u32) -> RetryFrom {
    RetryFrom::Stage(fixture::at(index).stage)
}

fn commands() -> Vec<(&'static str, Command)> {
    vec![
        ("pause", Command::Pause(Cause::Person)),
        ("resume", Command::Resume),
        ("cancel", Command::Cancel(Cause::Person)),
        ("retry", retry(RetryFrom::Checkpoint)),
        ("retry from s0", retry(at_stage(0))),
        ("retry from s2", retry(at_stage(2))),
        ("retry from the start", retry(RetryFrom::Start)),
        ("rollback", Command::Rollback { force: false }),
        ("approve", Command::Approve),
        ("reject", Command::Reject),
        ("skip-stage", Command::SkipStage(None)),
    ]
}

fn decided(scene: &Scene, command: &Command) -> Result<Decision, Refused> {
    decide(&scene.standing(), command, &by(), None, NOW)
}

/// The task after a decision's facts, and after what it asks to be begun has begun.
fn after(scene: &Scene, decision: &Decision) -> Task {
    let instance: InstanceId = "i2".parse().unwrap();
    let mut task = scene.task.clone();
    for fact in &decision.facts {
        task = apply(Some(task), &event(50, fact.clone())).unwrap();
    }
    if let Some(Request::Start(start)) = &decision.ask {
        let fact = begin(&task, Some(start), instance, Fence(task.fence.0 + 1)).unwrap();
        task = apply(Some(task), &event(51, fact)).unwrap();
    }
    task
}

fn line(scene: &Scene, decision: &Decision) -> String {
    let mut parts: Vec<String> = decision.facts.iter().map(|fact| fact.name().to_owned()).collect();
    parts.extend(decision.ask.as_ref().map(|ask| match ask {
        Request::Pause(hold) => format!("ask pause ({:?})", hold.cause),
        Request::Unpause => "ask unpause".to_owned(),
        Request::Cancel(hold) => format!("ask cancel ({:?})", hold.cause),
        Request::Skip(skip) => format!("ask skip of stage {}", skip.stage),
        Request::Revoke(fence) => format!("ask to stop under fence {fence}"),
        Request::Start(Start { kind, range, pass, .. }) => {
            format!("ask {} [{}, {}) in pass {pass}", kind.verb(), range.from, range.to)
        }
    }));
    parts.extend(
        decision.checkpoint.as_ref().map(|new| format!("checkpoint {} done, pass {}", new.completed(), new.pass)),
    );
    let task = after(scene, decision);
    format!("{} -> {}, {} done", parts.join(", "), task.status, task.completed)
}

#[test]
fn every_command_in_every_state_moves_as_the_table_says_or_says_why_not() {
    let mut table =
        String::from("Four stages, s0 to s3. What each command comes to in each state, and where that leads.\n");
    for scene in scenes() {
        table.push_str(&format!("\n{}\n", scene.name));
        for (name, command) in commands() {
            let says = match decided(&scene, &command) {
                Ok(decision) => line(&scene, &decision),
                Err(refused) => refused.to_string(),
            };
            table.push_str(&format!("  {name:<22}{says}\n"));
        }
    }
    golden("task-commands.txt", &table);
}

#[test]
fn what_is_called_possible_is_taken_and_nothing_else_is() {
    for scene in scenes() {
        let possible = scene.standing().possible();
        for verb in &possible {
            let taken =
                commands().iter().any(|(_, command)| command.name() == *verb && decided(&scene, command).is_ok());
            assert!(taken, "{}: {verb} is called possible and refused", scene.name);
        }
        for (name, command) in commands() {
            match decided(&scene, &command) {
                Ok(_) => {
                    assert!(possible.contains(&command.name()), "{}: {name} is taken, not called possible", scene.name)
                }
                Err(refused) => assert!(!refused.instead.contains(&command.name()), "{}: {name}", scene.name),
            }
        }
    }
}

#[test]
fn a_rollback_that_nothing_could_carry_out_is_not_offered() {
    for mut scene in scenes() {
        scene.can_take_back = false;
        assert!(!scene.standing().possible().contains(&"rollback"), "{}", scene.name);
    }
}

#[test]
fn a_pause_that_has_not_taken_effect_is_taken_back_by_resume() {
    let scene = scenes().into_iter().find(|scene| scene.name == "RUNNING, pausing").unwrap();
    let mut control = scene.control.clone();
    control.ask(decided(&scene, &Command::Resume).unwrap().ask.unwrap());
    assert!(control.is_empty());
}

#[test]
fn a_skip_must_name_the_next_stage_if_it_names_one() {
    let scene = Scene::new("FAILED", &failed(1));
    assert!(decided(&scene, &Command::SkipStage(Some(fixture::at(1).stage))).is_ok());
    let refused = decided(&scene, &Command::SkipStage(Some(fixture::at(2).stage))).unwrap_err();
    assert_eq!((refused.code, refused.why.as_str()), (RefusedCode::Stage, "the next stage is s1, not s2"));
}

#[test]
fn a_skipped_stage_is_in_the_checkpoint_and_a_retry_begins_after_it() {
    let mut scene = Scene::new("FAILED", &failed(3));
    let decision = decided(&scene, &Command::SkipStage(None)).unwrap();
    scene.task = after(&scene, &decision);
    scene.checkpoint = decision.checkpoint;
    assert_eq!(scene.checkpoint.as_ref().map(|new| (new.completed(), new.version)), Some((4, 5)));
    let Some(Request::Start(start)) = decided(&scene, &retry(RetryFrom::Checkpoint)).unwrap().ask else { panic!() };
    assert_eq!((start.range, start.pass), (Range { from: 4, to: 4 }, 1), "nothing is left: it completes");
    let refused = decided(&scene, &Command::SkipStage(None)).unwrap_err();
    assert_eq!((refused.code, refused.why.as_str()), (RefusedCode::Stage, "every stage is done"));
}

#[test]
fn a_rejection_keeps_the_reason_in_the_failure() {
    let scene = scenes().into_iter().find(|scene| scene.name == "PAUSED, approval wanted").unwrap();
    let reason: Reason = "latency doubled".parse().unwrap();
    for (reason, message) in [(Some(&reason), "latency doubled"), (None, "rejected by ann")] {
        let decision = decide(&scene.standing(), &Command::Reject, &by(), reason, NOW).unwrap();
        let failure = after(&scene, &decision).failure.unwrap();
        assert_eq!((failure.kind, failure.message.as_str()), (FailureKind::Rejected, message));
        assert_eq!(failure.stage.as_str(), "s2");
    }
}

#[test]
fn a_frozen_tenant_starts_nothing_and_yields_to_the_rest() {
    for mut scene in scenes() {
        scene.frozen = true;
        for (name, command) in commands() {
            match decided(&scene, &command) {
                Ok(decision) => assert!(!matches!(decision.ask, Some(Request::Start(_))), "{}: {name}", scene.name),
                Err(refused) if refused.code == RefusedCode::Frozen => {
                    assert!(
                        matches!(name.split(' ').next(), Some("resume" | "retry" | "rollback" | "approve")),
                        "{name}"
                    );
                }
                Err(_) => {}
            }
        }
    }
}

#[test]
fn a_person_ends_an_interrupted_task_and_a_rollback_still_takes_its_unfinished_stage_back() {
    let mut scene = scenes().into_iter().find(|scene| scene.name == "RUNNING, interrupted").unwrap();
    scene.task = after(&scene, &decided(&scene, &Command::Cancel(Cause::Person)).unwrap());
    scene.lease_expired = false;
    assert_eq!(scene.task.failure.as_ref().map(|failure| failure.kind), Some(FailureKind::Interrupted));
    let Some(Request::Start(start)) = decided(&scene, &Command::Rollback { force: false }).unwrap().ask else {
        panic!()
    };
    assert_eq!(start.range, Range { from: 0, to: 2 }, "stage 1 had started");
}

#[test]
fn a_start_drops_what_was_wanted_of_the_attempt_before() {
    let mut scene = scenes().into_iter().find(|scene| scene.name == "RUNNING, cancelling").unwrap().interrupted();
    let ask = decided(&scene, &retry(RetryFrom::Checkpoint)).unwrap().ask.unwrap();
    scene.control.ask(ask);
    assert!(!scene.control.wants_owner() && scene.control.start.is_some());
    assert_eq!(checkpoint(1), scene.checkpoint.unwrap());
}

mod retrying;
mod rolling_back;
