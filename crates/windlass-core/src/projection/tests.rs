use super::*;
use crate::checkpoint::Checkpoint;
use crate::fixture::{
    at, begun, checkpoint, created, event, failed, failure, golden, names, plan_spec, ran, rolling, scenes, then, told,
};
use crate::json::Json;
use crate::plan::Tally;
use crate::port::state::{LastOp, TaskRow};
use crate::task::{Control, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// One fact of every kind.
fn facts() -> Vec<Fact> {
    let mut tally = Tally::default();
    tally.add(TaskStatus::Completed, 2);
    let conductor: crate::id::InstanceId = "i1".parse().unwrap();
    let context = Some(Json::parse(r#"{"s0":{"big":18446744073709551615}}"#).unwrap());
    vec![
        Fact::PlanCreated { name: "switch".parse().unwrap(), tasks: 2 },
        Fact::PlanStarted { conductor: conductor.clone() },
        Fact::PlanPaused,
        Fact::PlanResumed { conductor },
        Fact::PlanCompleted { tally },
        Fact::PlanFailed { tally },
        Fact::PlanCancelled { tally },
        Fact::TaskCreated { position: 1, stages: names(2) },
        Fact::TaskStarted(begun(0, 2, 1, 7)),
        Fact::StageStarted(at(0)),
        Fact::StageCompleted { at: at(0), took_ms: 1234 },
        Fact::StageFailed { at: at(1), failure: failure(1) },
        Fact::StageSkipped(at(1)),
        Fact::TaskPauseRequested,
        Fact::TaskPaused { cause: Cause::Freeze },
        Fact::TaskResumed(begun(0, 2, 1, 8)),
        Fact::TaskCompleted { context },
        Fact::TaskFailed { failure: failure(1) },
        Fact::TaskCancelRequested,
        Fact::TaskCancelled { cause: Cause::Conflict },
        Fact::TaskRetryStarted(begun(1, 2, 1, 9)),
        Fact::TaskRollingBack(begun(0, 2, 2, 10)),
        Fact::TaskRolledBack,
        Fact::TaskRollbackFailed { failure: failure(0) },
        Fact::ApprovalWanted { at: at(1), message: "Traffic looks right?".into() },
        Fact::Approved(at(1)),
        Fact::Rejected(at(1)),
        Fact::LockForceReleased { fence: Fence(11) },
        Fact::TenantFrozen,
        Fact::TenantUnfrozen,
        Fact::TaskRetryRequested,
        Fact::TaskRollbackRequested,
    ]
}

fn events() -> Vec<Event> {
    facts()
        .into_iter()
        .enumerate()
        .map(|(i, fact)| Event { seq: i as u64 + 1, reason: "so that".parse().ok(), ..event(1000 + i as u64, fact) })
        .collect()
}

/// A task with every field that a task can have at once.
fn full_task() -> Task {
    let mut task = told(&then(failed(1), &[Fact::TaskRollingBack(begun(0, 2, 2, 2)), Fact::StageStarted(at(0))]));
    task.hold = Some(crate::fixture::hold(Cause::Person));
    task.failure = Some(failure(1));
    task.context = Json::parse(r#"{"s0":"ü","n":18446744073709551615}"#).ok();
    task.ended_at = Some(Ms::new(99));
    task.ready_at = Ms::new(5);
    task
}

fn full_row() -> TaskRow {
    let mut control =
        Control { start: Some(crate::fixture::start(crate::task::StartKind::Retry, 1, 4, 2)), ..Control::default() };
    let (by, reason) = (crate::fixture::by(), "tired".parse().ok());
    control.ask(Request::Pause(Hold { cause: Cause::Plan, by: Some(by.clone()), reason }));
    control.ask(Request::Cancel(crate::fixture::hold(Cause::Person)));
    control.ask(Request::Skip(crate::task::Skip { stage: 1, by, reason: None }));
    let op = Some(LastOp { id: "op-1".parse().unwrap(), digest: u64::MAX, at: Ms::new(98) });
    TaskRow { task: full_task(), control, checkpoint: 3, version: 17, seq: 21, op }
}

fn full_plan() -> Plan {
    let facts = [facts()[0].clone(), facts()[1].clone(), facts()[5].clone(), facts()[3].clone()];
    let told = facts
        .iter()
        .enumerate()
        .try_fold(None, |plan, (i, fact)| apply_plan(plan, &plan_spec(), &event(i as u64 + 1, fact.clone())).map(Some));
    Plan { ended_at: Some(Ms::new(99)), cancelled: true, ..told.unwrap().unwrap() }
}

fn full_checkpoint() -> Checkpoint {
    let mut full = checkpoint(2);
    full.executor_instance = "i1".parse().ok();
    full.fence = Fence(7);
    full.remember(failure(1));
    full
}

/// The golden of format 1 is what is written, and reads back as the same value.
fn kept<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, value: &T) {
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    golden(&format!("format-1/{name}.json"), &text);
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value);
    let compact = serde_json::to_vec(value).unwrap();
    assert_eq!(&serde_json::from_slice::<T>(&compact).unwrap(), value);
}

#[test]
fn records_of_format_1_are_written_and_read_as_their_golden_files() {
    kept("task", &full_task());
    kept("task-new", &created(4));
    kept("task-row", &full_row());
    kept("plan", &full_plan());
    kept("checkpoint", &full_checkpoint());
}

#[test]
fn events_of_format_1_one_of_each_kind_are_written_and_read_as_their_golden_files() {
    let mut names: Vec<&str> = events().iter().map(|event| event.fact.name()).collect();
    for event in events() {
        kept(&format!("event/{}", event.fact.name()), &event);
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 32, "those of the specification, and that a retry or a rollback was asked for");
}

#[test]
fn a_field_that_is_not_known_is_refused_wherever_it_stands() {
    fn refuses<T: DeserializeOwned + Serialize>(value: &T, pointer: &str) {
        let mut json = serde_json::to_value(value).unwrap();
        let inside = json.pointer_mut(pointer).unwrap().as_object_mut().unwrap();
        inside.insert("colour".into(), 1.into());
        let error = serde_json::from_str::<T>(&json.to_string()).err().unwrap().to_string();
        assert!(error.contains("unknown field `colour`"), "{pointer}: {error}");
    }
    ["", "/attempt", "/attempt/range", "/hold", "/failure"].iter().for_each(|inside| refuses(&full_task(), inside));
    ["", "/task", "/op", "/control", "/control/start", "/control/skip"]
        .iter()
        .for_each(|inside| refuses(&full_row(), inside));
    ["", "/failureHistory/0"].iter().for_each(|inside| refuses(&full_checkpoint(), inside));
    refuses(&full_plan(), "");
    for event in events() {
        refuses(&event, "");
        let json = serde_json::to_value(&event).unwrap();
        if json["fact"].is_object() {
            refuses(&event, &format!("/fact/{}", event.fact.name()));
        }
    }
    let unknown = r#"{"seq":1,"at":1,"plan":"p1","fact":"TaskSang"}"#;
    assert!(serde_json::from_str::<Event>(unknown).is_err());
}

/// Which facts may follow where. What is not named is refused.
const FOLLOWS: &str = "\
nothing: TaskCreated
PENDING: TaskStarted TaskCancelled
RUNNING: StageStarted(1) StageCompleted(1) StageFailed(1) StageSkipped(1) TaskPauseRequested TaskPaused TaskFailed TaskCancelRequested TaskCancelled TaskRetryStarted TaskRollingBack ApprovalWanted TaskRetryRequested TaskRollbackRequested
PAUSED: StageSkipped(1) TaskResumed TaskFailed TaskCancelled TaskRollingBack
PAUSED, approval: StageSkipped(1) TaskResumed TaskFailed TaskCancelled TaskRollingBack Approved Rejected
all done: TaskPauseRequested TaskPaused TaskCompleted TaskFailed TaskCancelRequested TaskCancelled TaskRetryStarted TaskRollingBack ApprovalWanted TaskRetryRequested TaskRollbackRequested
COMPLETED: TaskRollingBack
FAILED: StageSkipped(1) TaskRetryStarted TaskRollingBack
CANCELLED: TaskRollingBack
CANCELLED, conflict: TaskRetryStarted TaskRollingBack
ROLLING_BACK: StageStarted(0) StageStarted(1) StageCompleted(0) StageCompleted(1) StageFailed(0) StageFailed(1) StageSkipped(0) StageSkipped(1) TaskRetryStarted TaskRollingBack TaskRollbackFailed TaskRetryRequested TaskRollbackRequested
taken back: TaskRetryStarted TaskRollingBack TaskRolledBack TaskRollbackFailed TaskRetryRequested TaskRollbackRequested
ROLLED_BACK: TaskRetryStarted
";

#[test]
fn an_event_that_does_not_fit_is_refused() {
    let back = |index| Fact::StageCompleted { at: at(index), took_ms: 1 };
    let paused = |cause| Some(told(&then(ran(1), &[Fact::TaskPaused { cause }])));
    let taken_back = then(rolling(), &[back(0), back(1)]);
    let states = [
        ("nothing", None),
        ("PENDING", Some(created(4))),
        ("RUNNING", Some(told(&ran(1)))),
        ("PAUSED", paused(Cause::Person)),
        ("PAUSED, approval", paused(Cause::Approval)),
        ("all done", Some(told(&ran(4)))),
        ("COMPLETED", Some(told(&then(ran(4), &[Fact::TaskCompleted { context: None }])))),
        ("FAILED", Some(told(&failed(1)))),
        ("CANCELLED", Some(told(&[Fact::TaskCancelled { cause: Cause::Plan }]))),
        ("CANCELLED, conflict", Some(told(&[Fact::TaskCancelled { cause: Cause::Conflict }]))),
        ("ROLLING_BACK", Some(told(&rolling()))),
        ("taken back", Some(told(&taken_back))),
        ("ROLLED_BACK", Some(told(&then(taken_back, &[Fact::TaskRolledBack])))),
    ];
    let mut more: Vec<(String, Fact)> = facts()
        .into_iter()
        .filter(|fact| !fact.name().starts_with("Stage"))
        .map(|fact| (fact.name().to_owned(), fact))
        .collect();
    for index in [0, 1, 2, 4] {
        more.push((format!("StageCompleted({index})"), back(index)));
        let fails = Fact::StageFailed { at: at(index), failure: failure(index) };
        for fact in [Fact::StageStarted(at(index)), fails, Fact::StageSkipped(at(index))] {
            more.push((format!("{}({index})", fact.name()), fact));
        }
    }
    // These are about the tenant: they follow anything.
    more.retain(|(name, _)| !name.starts_with("Tenant") && !name.starts_with("Lock"));
    for ((name, task), line) in states.into_iter().zip(FOLLOWS.lines()) {
        let mut follow: Vec<String> = Vec::new();
        for (fact_name, fact) in &more {
            match apply(task.clone(), &event(77, fact.clone())) {
                Ok(_) => follow.push(fact_name.clone()),
                Err(misfit) => assert!(misfit.to_string().starts_with(fact.name()), "{misfit}"),
            }
        }
        let (expected_name, list) = line.split_once(':').unwrap();
        let mut expected: Vec<&str> = list.split_whitespace().collect();
        expected.sort_unstable();
        follow.sort_unstable();
        assert_eq!((name, follow), (expected_name, expected.into_iter().map(str::to_owned).collect()));
    }
}

#[test]
fn a_misfit_says_what_could_not_follow_what() {
    let error = apply(Some(told(&ran(2))), &event(9, Fact::TaskCompleted { context: None })).unwrap_err();
    assert_eq!(error.to_string(), "TaskCompleted cannot follow RUNNING, 2 stages done of 4");
    let error = apply(None, &event(9, Fact::TaskRolledBack)).unwrap_err();
    assert_eq!(error.to_string(), "TaskRolledBack cannot follow nothing");
}

#[test]
fn a_plan_takes_only_the_events_of_its_table() {
    let mut table = Vec::new();
    for status in [PlanStatus::Ready, PlanStatus::Running, PlanStatus::Paused, PlanStatus::Failed] {
        let plan = Plan { status, ..full_plan() };
        let taken: Vec<&str> = facts()
            .iter()
            .filter(|fact| apply_plan(Some(plan.clone()), &plan_spec(), &event(9, (*fact).clone())).is_ok())
            .map(Fact::name)
            .collect();
        table.push(format!("{status}: {}", taken.join(" ")));
    }
    assert_eq!(
        table,
        [
            "READY: PlanStarted PlanCancelled",
            "RUNNING: PlanPaused PlanResumed PlanCompleted PlanFailed PlanCancelled",
            "PAUSED: PlanResumed PlanCompleted PlanFailed PlanCancelled",
            "FAILED: PlanResumed",
        ]
    );
    assert!(apply_plan(None, &plan_spec(), &event(1, Fact::PlanPaused)).is_err());
}

#[test]
fn whoever_is_not_running_owns_nothing_and_the_first_start_is_kept() {
    for scene in scenes() {
        assert_eq!(scene.task.owner.is_some(), scene.task.status.is_running(), "{}", scene.name);
        assert_eq!(scene.task.ended_at.is_some(), !scene.task.status.is_active(), "{}", scene.name);
        let started = scene.task.attempt.map(|_| Ms::new(2));
        assert_eq!(scene.task.started_at, started, "{}", scene.name);
    }
}
