use super::*;
use crate::event::Event;
use crate::failure::FailureKind;
use crate::fixture::{begun, by, created, event, failed, failure, hold, names, ran, start, then, told};
use crate::projection::apply;
use crate::task::{AttemptKind, Request, StartKind};
use crate::time::Ms;
use proptest::prelude::*;

fn control(pause: bool, cancel: bool) -> Control {
    let mut control = Control::default();
    if pause {
        control.ask(Request::Pause(hold(Cause::Plan)));
    }
    if cancel {
        control.ask(Request::Cancel(hold(Cause::Person)));
    }
    control
}

fn next(task: &Task, control: &Control) -> Fact {
    onward(task, &names(task.stages), control, false, None)
}

fn at_index(index: u32) -> At {
    crate::fixture::at(index)
}

#[test]
fn a_pending_task_begins_its_first_run_and_others_only_what_was_asked() {
    let (i, fence) = ("i1".parse().unwrap(), Fence(1));
    assert_eq!(begin(&created(4), None, i, fence), Some(Fact::TaskStarted(begun(0, 4, 1, 1))));
    let failed = told(&failed(1));
    let begin = |start: Option<&Start>| begin(&failed, start, "i1".parse().unwrap(), fence);
    assert_eq!(begin(None), None);
    let kinds = [StartKind::Resume, StartKind::Retry, StartKind::Rollback];
    let facts = kinds.map(|kind| begin(Some(&start(kind, 1, 4, 2))).unwrap());
    let with = begun(1, 4, 2, 1);
    assert_eq!(
        facts,
        [Fact::TaskResumed(with.clone()), Fact::TaskRetryStarted(with.clone()), Fact::TaskRollingBack(with)]
    );
}

#[test]
fn at_a_boundary_a_cancel_comes_before_a_pause_and_both_before_the_next_stage() {
    let task = told(&ran(2));
    assert_eq!(next(&task, &control(false, false)), Fact::StageStarted(at_index(2)));
    assert_eq!(next(&task, &control(true, false)), Fact::TaskPaused { cause: Cause::Plan });
    assert_eq!(next(&task, &control(false, true)), Fact::TaskCancelled { cause: Cause::Person });
    assert_eq!(next(&task, &control(true, true)), Fact::TaskCancelled { cause: Cause::Person });
}

#[test]
fn when_the_last_stage_is_done_there_is_nothing_left_to_pause_or_cancel() {
    let task = told(&ran(4));
    let context = Json::parse(r#"{"s0":1}"#).unwrap();
    for control in [control(false, false), control(true, false), control(false, true)] {
        let end = onward(&task, &names(4), &control, false, Some(&context));
        assert_eq!(end, Fact::TaskCompleted { context: Some(context.clone()) });
    }
}

#[test]
fn a_rollback_yields_to_nothing_and_passes_approvals_over() {
    let task = told(&then(failed(1), &[Fact::TaskRollingBack(begun(0, 2, 2, 2))]));
    assert_eq!(next(&task, &control(true, true)), Fact::StageStarted(at_index(0)));
    let wanted = Outcome::ApprovalWanted { message: "well?".into() };
    assert_eq!(ended(&task, at_index(0), wanted), [Fact::StageSkipped(at_index(0))]);
    let fails = ended(&task, at_index(0), Outcome::Failed(failure(0)));
    assert_eq!(fails[1], Fact::TaskRollbackFailed { failure: failure(0) });
}

#[test]
fn undo_actions_run_in_reverse_order() {
    let mut task = told(&then(failed(2), &[Fact::TaskRollingBack(begun(0, 3, 2, 2))]));
    for index in [2, 1, 0] {
        assert_eq!(next_stage(&task, true), Some(index));
        task = apply(Some(task), &event(50, Fact::StageCompleted { at: at_index(index), took_ms: 1 })).unwrap();
    }
    assert_eq!(onward(&task, &names(4), &Control::default(), true, None), Fact::TaskRolledBack);
}

/// A task, everything that happened to it, and what runs its attempts.
struct Machine {
    task: Task,
    history: Vec<Event>,
    control: Control,
    reverse: bool,
    /// Stages completed forward in this pass, in order.
    pass: Vec<u32>,
}

/// One stage's end, and what others ask while it runs.
#[derive(Debug, Clone, Copy)]
struct Beat {
    outcome: u8,
    pause: bool,
    cancel: bool,
}

impl Machine {
    fn new(stages: u32, reverse: bool) -> Machine {
        let fact = Fact::TaskCreated { position: 0, stages: names(stages) };
        let first = event(1, fact);
        let task = apply(None, &first).unwrap();
        Machine { task, history: vec![first], control: Control::default(), reverse, pass: Vec::new() }
    }

    fn tell(&mut self, fact: Fact) -> Result<(), TestCaseError> {
        if let Fact::StageCompleted { at, .. } | Fact::StageSkipped(at) | Fact::Approved(at) = &fact
            && self.task.status != TaskStatus::RollingBack
        {
            self.pass.push(at.index);
        }
        let event = event(self.history.len() as u64 + 1, fact);
        self.task = apply(Some(self.task.clone()), &event)
            .map_err(|misfit| TestCaseError::fail(format!("{misfit} after {:?}", self.history)))?;
        self.history.push(event);
        Ok(())
    }

    /// One attempt, from its beginning to a status in which nobody runs it, or to the end of `beats` (a crash).
    fn attempt(&mut self, start: Option<&Start>, beats: &mut std::vec::IntoIter<Beat>) -> Result<(), TestCaseError> {
        let pass_before = self.task.pass;
        let fact = begin(&self.task, start, "i1".parse().unwrap(), Fence(self.task.fence.0 + 1)).unwrap();
        self.tell(fact)?;
        self.control = std::mem::take(&mut self.control).after(TaskStatus::Pending, self.task.status, true);
        if self.task.pass != pass_before {
            self.pass = (0..self.task.completed).collect();
        }
        let resumed_at = self.task.completed;
        let mut first = true;
        loop {
            let wanted = (self.control.pause.is_some(), self.control.cancel.is_some());
            let (done, rolling) = (self.task.completed, self.task.status == TaskStatus::RollingBack);
            let fact = onward(&self.task, &names(self.task.stages), &self.control, self.reverse, None);
            self.tell(fact.clone())?;
            match fact {
                Fact::StageStarted(at) => {
                    prop_assert!(rolling || wanted == (false, false), "a stage began though {wanted:?} was wanted");
                    if first && !rolling {
                        prop_assert_eq!(at.index, resumed_at);
                    }
                    first = false;
                    let Some(beat) = beats.next() else { return Ok(()) };
                    self.stage(at, beat)?;
                }
                Fact::TaskCompleted { .. } => prop_assert_eq!(done, self.task.stages),
                Fact::TaskPaused { .. } => prop_assert!(wanted == (true, false) && !rolling),
                Fact::TaskCancelled { .. } => prop_assert!(wanted.1 && !rolling),
                Fact::TaskRolledBack => prop_assert!(rolling),
                other => prop_assert!(false, "{other:?} at a boundary"),
            }
            if !self.task.status.is_running() {
                self.control = std::mem::take(&mut self.control).after(TaskStatus::Running, self.task.status, false);
                return Ok(());
            }
        }
    }

    fn stage(&mut self, at: At, beat: Beat) -> Result<(), TestCaseError> {
        let before = self.task.completed;
        for request in [
            beat.pause.then(|| Request::Pause(hold(Cause::Person))),
            beat.cancel.then(|| Request::Cancel(hold(Cause::Person))),
        ] {
            request.into_iter().for_each(|request| self.control.ask(request));
        }
        let outcome = match beat.outcome {
            0..6 => Outcome::Completed { took_ms: 1 },
            6 => Outcome::Skipped,
            7 => Outcome::ApprovalWanted { message: "well?".into() },
            _ => Outcome::Failed(Failure::new(FailureKind::Stage, "no", at.stage.clone(), 1, Ms::ZERO)),
        };
        for fact in ended(&self.task, at, outcome) {
            self.tell(fact)?;
        }
        if self.task.status == TaskStatus::RollingBack {
            prop_assert_eq!(self.task.completed, before, "a rollback keeps its progress apart");
        }
        Ok(())
    }

    /// What a person asks for where the task stands now, or after a crash.
    fn person(&mut self, dice: u8) -> Result<Option<Start>, TestCaseError> {
        let (n, pass) = (self.task.stages, self.task.pass);
        let progress = self.task.progress();
        let rolled = self.task.attempt.filter(|attempt| attempt.kind == AttemptKind::Rollback);
        let back = rolled.map_or(Range::rollback(progress), |attempt| attempt.range);
        Ok(match self.task.status {
            TaskStatus::Paused if self.task.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Approval) => {
                let at = at(&names(n), self.task.completed).unwrap();
                self.tell(Fact::Approved(at))?;
                Some(start(StartKind::Resume, 0, n, pass))
            }
            TaskStatus::Paused => Some(start(StartKind::Resume, 0, n, pass)),
            TaskStatus::Completed | TaskStatus::Cancelled if back.is_empty() => None,
            TaskStatus::Completed | TaskStatus::Cancelled => {
                Some(start(StartKind::Rollback, back.from, back.to, pass + 1))
            }
            _ if dice == 0 && !back.is_empty() && self.task.status != TaskStatus::RolledBack => {
                Some(start(StartKind::Rollback, back.from, back.to, pass + 1))
            }
            _ if self.task.taken_back || dice == 1 => Some(start(StartKind::Retry, 0, n, pass + 1)),
            _ => Some(start(StartKind::Retry, self.task.completed, n, pass)),
        })
    }
}

fn beat() -> impl Strategy<Value = Beat> {
    (0u8..10, prop::bool::weighted(0.15), prop::bool::weighted(0.08)).prop_map(|(outcome, pause, cancel)| Beat {
        outcome,
        pause,
        cancel,
    })
}

proptest! {
    #[test]
    fn whatever_happens_stages_are_done_in_order_and_once_a_pass(
        stages in 1u32..8,
        reverse: bool,
        beats in prop::collection::vec(prop::collection::vec(beat(), 0..10), 1..12),
        dice in prop::collection::vec(0u8..4, 12),
    ) {
        let mut machine = Machine::new(stages, reverse);
        let mut start = None;
        for (beats, dice) in beats.into_iter().zip(dice) {
            machine.attempt(start.as_ref(), &mut beats.into_iter())?;
            let task = &machine.task;
            let in_order: Vec<u32> = (0..machine.pass.len() as u32).collect();
            prop_assert_eq!(&machine.pass, &in_order, "each once, in order");
            if !task.taken_back {
                prop_assert_eq!(task.completed as usize, machine.pass.len());
            }
            if task.status == TaskStatus::Completed {
                prop_assert_eq!(task.completed, stages);
            }
            prop_assert_eq!(task.owner.is_some(), task.status.is_running());
            prop_assert_eq!(task.ended_at.is_some(), !task.status.is_active());
            let replayed = machine.history.iter().try_fold(None, |task, event| apply(task, event).map(Some)).unwrap();
            prop_assert_eq!(replayed.as_ref(), Some(task), "replay is what is stored");
            start = machine.person(dice)?;
            let Some(start) = &start else { break };
            machine.control.ask(Request::Start(start.clone()));
        }
        prop_assert!(machine.history.iter().all(|event| event.by == Some(by())));
    }
}
