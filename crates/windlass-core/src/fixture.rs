//! Tasks for tests, each told by its events, so that no test begins from a state that cannot be.

use std::path::PathBuf;

use crate::by::By;
use crate::checkpoint::Checkpoint;
use crate::event::{At, Begun, Event, Fact};
use crate::failure::{Failure, FailureKind};
use crate::fence::Fence;
use crate::id::StageName;
use crate::plan::spec::{OnConflict, OnFailure, PlanSpec, Recovery};
use crate::projection;
use crate::task::command::Standing;
use crate::task::range::Range;
use crate::task::{Cause, Control, Hold, Request, Start, StartKind, Task};
use crate::time::Ms;

pub(crate) const NOW: Ms = Ms::new(1_000_000);

pub(crate) fn by() -> By {
    "ann".parse().unwrap()
}

pub(crate) fn names(stages: u32) -> Vec<StageName> {
    (0..stages).map(|i| format!("s{i}").parse().unwrap()).collect()
}

pub(crate) fn at(index: u32) -> At {
    At { index, stage: format!("s{index}").parse().unwrap() }
}

pub(crate) fn failure(index: u32) -> Failure {
    Failure::new(FailureKind::Stage, "no", at(index).stage, 1, NOW)
}

pub(crate) fn begun(from: u32, to: u32, pass: u32, fence: u64) -> Begun {
    Begun { range: Range { from, to }, pass, instance: "i1".parse().unwrap(), fence: Fence(fence) }
}

pub(crate) fn hold(cause: Cause) -> Hold {
    Hold { cause, by: Some(by()), reason: None }
}

pub(crate) fn start(kind: StartKind, from: u32, to: u32, pass: u32) -> Start {
    Start { kind, range: Range { from, to }, pass, by: by(), reason: None }
}

pub(crate) fn event(ms: u64, fact: Fact) -> Event {
    let about_task = fact.is_about_task();
    Event {
        seq: 0,
        at: Ms::new(ms),
        plan: "p1".parse().unwrap(),
        task: about_task.then(|| "t1".parse().unwrap()),
        tenant: about_task.then(|| "acme".parse().unwrap()),
        by: Some(by()),
        reason: None,
        fact,
    }
}

pub(crate) fn created(stages: u32) -> Task {
    projection::apply(None, &event(1, Fact::TaskCreated { position: 0, stages: names(stages) })).unwrap()
}

/// A task of four stages after these facts.
pub(crate) fn told(facts: &[Fact]) -> Task {
    facts
        .iter()
        .enumerate()
        .fold(created(4), |task, (i, fact)| projection::apply(Some(task), &event(2 + i as u64, fact.clone())).unwrap())
}

/// Started, with `done` stages completed.
pub(crate) fn ran(done: u32) -> Vec<Fact> {
    let mut facts = vec![Fact::TaskStarted(begun(0, 4, 1, 1))];
    for index in 0..done {
        facts.push(Fact::StageStarted(at(index)));
        facts.push(Fact::StageCompleted { at: at(index), took_ms: 5 });
    }
    facts
}

/// `facts`, then `more`.
pub(crate) fn then(mut facts: Vec<Fact>, more: &[Fact]) -> Vec<Fact> {
    facts.extend_from_slice(more);
    facts
}

/// Failed in stage `done`.
pub(crate) fn failed(done: u32) -> Vec<Fact> {
    let fails = Fact::TaskFailed { failure: failure(done) };
    then(ran(done), &[Fact::StageStarted(at(done)), Fact::StageFailed { at: at(done), failure: failure(done) }, fails])
}

/// Failed in stage 1, and being taken back: stage 0 is running again.
pub(crate) fn rolling() -> Vec<Fact> {
    then(failed(1), &[Fact::TaskRollingBack(begun(0, 2, 2, 2)), Fact::StageStarted(at(0))])
}

/// The checkpoint that a task of such progress has.
pub(crate) fn checkpoint(completed: u32) -> Checkpoint {
    let mut checkpoint = Checkpoint::new(1, NOW);
    for stage in names(completed) {
        checkpoint.complete(&stage, Some(&crate::json::Json::null()), 5).unwrap();
    }
    checkpoint.version = u64::from(completed) + 1;
    checkpoint
}

/// Everything a decision depends on, owned.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) task: Task,
    pub(crate) control: Control,
    pub(crate) lease_expired: bool,
    pub(crate) latest: bool,
    pub(crate) frozen: bool,
    pub(crate) stages: Vec<StageName>,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) kept_until: Option<Ms>,
    pub(crate) can_take_back: bool,
    pub(crate) retry_limit: u32,
}

impl Scene {
    /// The tenant's latest, with everything that a retry and a rollback ask for.
    pub(crate) fn new(name: &'static str, facts: &[Fact]) -> Scene {
        let task = told(facts);
        let checkpoint = task.attempt.is_some().then(|| checkpoint(task.completed));
        Scene {
            name,
            task,
            control: Control::default(),
            lease_expired: false,
            latest: true,
            frozen: false,
            stages: names(4),
            checkpoint,
            kept_until: None,
            can_take_back: true,
            retry_limit: 3,
        }
    }

    pub(crate) fn asked(mut self, request: Request) -> Scene {
        self.control.ask(request);
        self
    }

    pub(crate) fn interrupted(mut self) -> Scene {
        self.lease_expired = true;
        self
    }

    pub(crate) fn no_checkpoint(mut self) -> Scene {
        self.checkpoint = None;
        self
    }

    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing {
            task: &self.task,
            control: &self.control,
            lease_expired: self.lease_expired,
            latest: self.latest,
            frozen: self.frozen,
            stages: &self.stages,
            checkpoint: self.checkpoint.as_ref(),
            kept_until: self.kept_until,
            can_take_back: self.can_take_back,
            retry_limit: self.retry_limit,
        }
    }
}

/// Every state that a command can meet.
pub(crate) fn scenes() -> Vec<Scene> {
    let running = || then(ran(1), &[Fact::StageStarted(at(1))]);
    let paused = |cause| then(ran(1), &[Fact::TaskPaused { cause }]);
    let wanted = || {
        let wants = Fact::ApprovalWanted { at: at(2), message: "well?".into() };
        then(ran(2), &[Fact::StageStarted(at(2)), wants, Fact::TaskPaused { cause: Cause::Approval }])
    };
    let cancelled = |facts, cause| then(facts, &[Fact::TaskCancelled { cause }]);
    let back = |index| Fact::StageCompleted { at: at(index), took_ms: 5 };
    let unbacked = Fact::TaskRollbackFailed { failure: failure(0) };
    vec![
        Scene::new("PENDING", &[]),
        Scene::new("RUNNING", &running()),
        Scene::new("RUNNING, pausing", &running()).asked(Request::Pause(hold(Cause::Person))),
        Scene::new("RUNNING, cancelling", &running()).asked(Request::Cancel(hold(Cause::Person))),
        Scene::new("RUNNING, interrupted", &running()).interrupted(),
        Scene::new("PAUSED by a person", &paused(Cause::Person)),
        Scene::new("PAUSED by its plan", &paused(Cause::Plan)),
        Scene::new("PAUSED before its first stage", &then(ran(0), &[Fact::TaskPaused { cause: Cause::Person }])),
        Scene::new("PAUSED, approval wanted", &wanted()),
        Scene::new("PAUSED, approved, not yet begun", &then(wanted(), &[Fact::Approved(at(2))]))
            .asked(Request::Start(start(StartKind::Resume, 0, 4, 1))),
        Scene::new("COMPLETED", &then(ran(4), &[Fact::TaskCompleted { context: None }])).no_checkpoint(),
        Scene::new("FAILED", &failed(1)),
        Scene::new("FAILED, retry asked for", &failed(1)).asked(Request::Start(start(StartKind::Retry, 1, 4, 1))),
        Scene::new("CANCELLED", &cancelled(ran(1), Cause::Person)),
        Scene::new("CANCELLED before it started", &cancelled(vec![], Cause::Person)),
        Scene::new("CANCELLED, skipped because of a conflict", &cancelled(vec![], Cause::Conflict)),
        Scene::new("ROLLING_BACK", &rolling()),
        Scene::new("ROLLING_BACK, interrupted", &rolling()).interrupted(),
        Scene::new("ROLLED_BACK", &then(rolling(), &[back(0), back(1), Fact::TaskRolledBack])).no_checkpoint(),
        Scene::new("ROLLBACK_FAILED", &then(rolling(), &[unbacked])),
    ]
}

/// Compares with a golden file; `WINDLASS_BLESS=1` writes it instead. A stored format that was once
/// written is read for ever, so its golden is never written over.
#[expect(clippy::disallowed_methods, reason = "a test's own switch, not a setting of the product")]
pub(crate) fn golden(path: &str, found: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path);
    let for_ever = path.starts_with("format-") && file.exists();
    if std::env::var("WINDLASS_BLESS").is_ok() && !for_ever {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, found).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, kept, "{path} differs; if the change is meant: WINDLASS_BLESS=1, and read the difference");
}

pub(crate) fn plan_spec() -> PlanSpec {
    PlanSpec {
        max_concurrency: 5,
        on_conflict: OnConflict::Skip,
        on_failure: OnFailure::Continue,
        recovery: Recovery::Manual,
        retry_limit: None,
        stages: Vec::new(),
    }
}
