//! Compare-and-set: a write that does not fit what is stored is refused whole.

use windlass_core::event::Fact;
use windlass_core::fence::Fence;
use windlass_core::plan::spec::TaskSpec;
use windlass_core::port::Refusal;
use windlass_core::port::state::{Ask, CheckpointPut, Key, Row, Step, Writer};
use windlass_core::task::Cause;
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{LATER_MS, LEASE_MS, Rival, id};

/// Somebody who read before another wrote must read again.
pub async fn a_plan_is_written_at_the_version_it_was_read_at(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.create(&draft).await;
    let read = one.plan(&draft.id()).await;
    one.start(&draft.id()).await;
    let row = one.plan(&draft.id()).await;
    assert_eq!((row.version, row.seq), (read.version + 1, read.seq + 1));
    let late = step::plan("late", &read, Fact::PlanStarted { conductor: id("two") });
    let why = one.refused(&late).await;
    assert_eq!(why, Refusal::Version { given: read.version, stored: row.version });
    one.done(&step::plan("pause", &row, Fact::PlanPaused)).await;
}

/// The table of plans is asked by the store too.
pub async fn a_plan_moves_only_by_its_table(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.create(&draft).await;
    let ready = one.plan(&draft.id()).await;
    one.start(&draft.id()).await;
    let running = one.plan(&draft.id()).await;
    let mut back = step::plan("back", &running, Fact::PlanPaused);
    back.plan.as_mut().expect("a plan").plan = ready.plan.clone();
    let why = one.refused(&back).await;
    assert!(matches!(why, Refusal::State { status: "RUNNING", .. }), "{why}");
    one.end(&draft.id(), crate::world::BORN).await;
    let ended = one.plan(&draft.id()).await;
    let mut paused = step::plan("paused", &running, Fact::PlanPaused);
    paused.plan.as_mut().expect("a plan").version = ended.version;
    let why = one.refused(&paused).await;
    assert!(matches!(why, Refusal::State { status: "COMPLETED", .. }), "{why}");
}

/// A person decides on what they read.
pub async fn a_person_writes_a_task_at_the_version_it_was_read_at(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.create(&draft).await;
    let read = one.task(&draft.task(0)).await;
    let mut annotate = step::person("annotate", &read, Vec::new());
    annotate.tasks[0].task.ready_at = Ms::new(5);
    let stepped = one.done(&annotate).await;
    assert_eq!((stepped.version, stepped.seq), (read.version + 1, read.seq));
    let late = step::person("late", &read, vec![Fact::TaskCancelled { cause: Cause::Person }]);
    let why = one.refused(&late).await;
    assert_eq!(why, Refusal::Version { given: read.version, stored: stepped.version });
    let row = one.task(&draft.task(0)).await;
    one.done(&step::person("again", &row, vec![Fact::TaskCancelled { cause: Cause::Person }])).await;
}

/// What runs is its owner's; a person asks.
pub async fn a_person_does_not_write_a_task_with_a_live_owner(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let row = one.task(&attempt.task).await;
    let until = one.beat(LEASE_MS).await.until;
    let cancel = step::person("cancel", &row, vec![Fact::TaskCancelled { cause: Cause::Person }]);
    let owned = Refusal::Owned { owner: Some(one.me.clone()), until };
    assert_eq!(one.refused(&cancel).await, owned);
    let retry = step::asks("retry", &attempt.task, &[TaskStatus::Running], step::retry());
    assert_eq!(one.refused(&retry).await, owned, "nor is anything begun beside a live owner");
    let later = Rival::open(h, "later", LATER_MS).await;
    later.done(&cancel).await;
    assert_eq!(later.task(&attempt.task).await.task.status, TaskStatus::Cancelled);
}

/// `from` is judged against what is stored, for every writer.
pub async fn a_task_is_written_only_from_where_it_may_stand(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let mut boundary = one.boundary(&attempt).await;
    boundary.tasks[0].from = Statuses::of(&[TaskStatus::Pending]);
    let why = one.refused(&boundary).await;
    assert!(matches!(why, Refusal::State { status: "RUNNING", .. }), "an owner's: {why}");
    let row = one.take(&draft.task(1)).await.expect("free");
    let mut back = step::gives_back("back", &row);
    back.tasks[0].from = Statuses::of(&[TaskStatus::Paused]);
    back.tasks[0].task.status = TaskStatus::Paused;
    let why = one.refused(&back).await;
    assert!(matches!(why, Refusal::State { status: "PENDING", .. }), "a claimer's: {why}");
    let pause = step::asks("pause", &draft.task(1), &[TaskStatus::Running], step::pause());
    let why = one.refused(&pause).await;
    assert!(matches!(why, Refusal::State { status: "PENDING", .. }), "an ask's: {why}");
}

/// One writer's checkpoint after the other's, none lost in between.
pub async fn a_checkpoint_follows_the_stored_version(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    for (given, stored) in [(0, 0), (2, 0), (u64::MAX, 0)] {
        let step = at_version(one.boundary(&attempt).await, given);
        assert_eq!(one.refused(&step).await, Refusal::Checkpoint { given, stored });
    }
    one.stage(&attempt).await;
    for given in [0, 1, 3] {
        let step = at_version(one.boundary(&attempt).await, given);
        assert_eq!(one.refused(&step).await, Refusal::Checkpoint { given, stored: 1 });
    }
    one.stage(&attempt).await;
    assert_eq!(one.task(&attempt.task).await.checkpoint, 2);
    let row = one.task(&attempt.task).await;
    let mut removes = step::owner("removes", &row, &attempt, Vec::new());
    removes.checkpoint = CheckpointPut::Remove;
    one.done(&removes).await;
    assert_eq!(one.checkpoint(&attempt.task).await, None);
    assert_eq!(one.task(&attempt.task).await.checkpoint, 0, "the version ends with the body");
    removes.op.id = id("removes-again");
    one.done(&removes).await;
    let step = at_version(one.boundary(&attempt).await, 1);
    one.done(&step).await;
}

/// A checkpoint says truly under which fence it was written.
pub async fn a_checkpoint_carries_its_writers_fence(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let mut step = one.boundary(&attempt).await;
    let CheckpointPut::Put(checkpoint) = &mut step.checkpoint else { panic!("a boundary has a checkpoint") };
    checkpoint.fence = Fence(attempt.fence.0 - 1);
    let why = one.refused(&step).await;
    assert!(matches!(why, Refusal::Invalid(_)), "{why}");
}

/// An id is used once.
pub async fn what_exists_is_not_created_again(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.create(&draft).await;
    let again = Step { op: step::empty("again").op, ..Draft::new("p", &["bolt"]).step() };
    assert!(matches!(one.refused(&again).await, Refusal::Exists(_)), "the plan");
    // A task of the same id under a plan that is new.
    let mut other = Draft::new("other", &["bolt", "acme"]).step();
    other.tasks[1].task.id = draft.task(0);
    other.events.truncate(2);
    assert!(matches!(one.refused(&other).await, Refusal::Exists(_)), "the task, and the plan with it");
    assert_eq!(one.load(windlass_core::port::state::Key::Plan(id("other"))).await, None);
}

/// Every part of a step is about something.
pub async fn what_does_not_exist_is_not_changed(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (here, gone) = (Draft::new("here", &["acme"]), Draft::new("gone", &["bolt"]));
    one.create(&here).await;
    let ghost = gone.step();
    let mut steps = vec![
        Step { plan: ghost.plan.clone(), ..step::empty("plan") },
        Step { tasks: ghost.tasks.clone(), ..step::empty("task") },
        step::asks("ask", &gone.task(0), &[TaskStatus::Pending], step::cancel()),
        Step { events: vec![ghost.events[0].clone()], ..step::empty("plan-event") },
        Step { events: vec![ghost.events[1].clone()], ..step::empty("task-event") },
        // A new task for a plan that is not there.
        Step { tasks: ghost.tasks.clone(), ..step::empty("orphan") },
    ];
    steps[0].plan.as_mut().expect("a plan").version = 1;
    steps[1].tasks[0].from = Statuses::of(&[TaskStatus::Pending]);
    for step in &steps {
        let why = one.refused(step).await;
        assert!(matches!(why, Refusal::NotFound(_)), "{}: {why}", step.op.id);
    }
    let by = Writer::Owner { instance: one.me.clone(), fence: Fence(1) };
    let why = one.refused(&Step { by, ..steps[1].clone() }).await;
    assert!(matches!(why, Refusal::NotFound(_)), "an owner's: {why}");
    assert!(matches!(one.take(&gone.task(0)).await, Err(Refusal::NotFound(_))));
}

/// Which plan, which tenant, which place: for ever.
pub async fn what_a_task_is_made_of_does_not_change(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (draft, other) = (Draft::new("p", &["acme"]), Draft::new("q", &["bolt"]));
    one.create(&draft).await;
    one.create(&other).await;
    let row = one.task(&draft.task(0)).await;
    let changes: [fn(&mut windlass_core::task::Task); 4] = [
        |task| task.plan = id("q"),
        |task| task.tenant = id("bolt"),
        |task| task.position = 7,
        |task| task.created_at = Ms::MAX,
    ];
    for (i, change) in changes.into_iter().enumerate() {
        let mut step = step::person(&format!("change-{i}"), &row, Vec::new());
        change(&mut step.tasks[0].task);
        let why = one.refused(&step).await;
        assert!(matches!(why, Refusal::Invalid(_)), "{why}");
    }
}

/// What no stored state could make right.
pub async fn a_step_that_is_wrong_in_itself_is_refused(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    one.create(&draft).await;
    let row = one.task(&draft.task(0)).await;
    let other = one.task(&draft.task(1)).await;
    let put = |row| step::person("x", row, Vec::new()).tasks.remove(0);
    let mut no_plan_spec = Draft::new("q", &["acme"]).step();
    no_plan_spec.plan.as_mut().expect("a plan").spec = None;
    let mut no_task_spec = Draft::new("q", &["acme"]).step();
    no_task_spec.tasks[0].spec = None;
    let wrong = [
        step::empty("nothing"),
        Step { by: Writer::Claimer(one.me.clone()), tasks: vec![], ..step::person("none", &row, vec![]) },
        Step {
            by: Writer::Owner { instance: one.me.clone(), fence: Fence(1) },
            tasks: vec![put(&row), put(&other)],
            ..step::empty("two-of-an-owner")
        },
        Step { tasks: vec![put(&row), put(&row)], ..step::empty("twice") },
        Step { checkpoint: CheckpointPut::Remove, plan: None, ..plan_event(&row) },
        no_plan_spec,
        no_task_spec,
    ];
    for step in &wrong {
        let why = one.refused(step).await;
        assert!(matches!(why, Refusal::Invalid(_)), "{}: {why}", step.op.id);
    }
    let mut leap = step::person("leap", &row, Vec::new());
    leap.tasks[0].task.status = TaskStatus::Completed;
    assert!(matches!(one.refused(&leap).await, Refusal::State { .. }), "PENDING never becomes COMPLETED");
}

/// The first part would be taken, the last is not: nothing is.
pub async fn a_step_is_whole_or_not_at_all(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    one.create(&draft).await;
    let cancels = |i: usize, op: &str, row| {
        let fact = Fact::TaskCancelled { cause: Cause::Plan };
        let mut step = step::person(op, row, vec![fact]);
        step.answer = Some(windlass_core::json::Json::of(&i).expect("a number"));
        step
    };
    let rows = [one.task(&draft.task(0)).await, one.task(&draft.task(1)).await];
    let mut both = cancels(0, "both", &rows[0]);
    let mut second = cancels(1, "second", &rows[1]);
    second.tasks[0].version += 1;
    both.tasks.append(&mut second.tasks);
    both.events.append(&mut second.events);
    assert!(matches!(one.refused(&both).await, Refusal::Version { .. }));
    assert_eq!(one.load(windlass_core::port::state::Key::Op(id("both"))).await, None, "nor is its operation kept");
    // In a batch every step stands for itself, in order.
    let good = cancels(2, "good", &rows[1]);
    let stale = cancels(3, "stale", &rows[1]);
    let batch = [both, good.clone(), stale, good];
    let answers = one.ports.state.commit(&batch).await.expect("commit");
    let taken: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(taken, [false, true, false, true], "the last is a repeat of the second");
    assert_eq!(answers[1], answers[3]);
    assert_eq!(one.task(&draft.task(0)).await, rows[0]);
}

/// A claim that was not begun is given back; one that another has meanwhile is not.
pub async fn a_claimer_gives_back_only_what_it_has(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let row = one.take(&draft.task(0)).await.expect("free");
    let back = step::gives_back("back", &row);
    one.done(&back).await;
    assert_eq!(one.task(&draft.task(0)).await.task.owner, None);
    let two = Rival::up(h, "two", 0).await;
    two.take(&draft.task(0)).await.expect("free again");
    let late = Step { op: step::empty("late").op, ..back };
    let why = one.refused(&late).await;
    assert!(matches!(&why, Refusal::Owned { owner: Some(owner), .. } if *owner == two.me), "{why}");
}

/// A task that has ended gets a new configuration with the retry that is asked of it, is claimed for that,
/// and is given back because its tenant is locked: it rests all the while, and the retry is still wanted.
pub async fn an_ended_task_is_written_where_it_rests_and_leaves_by_the_table_only(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let task = draft.task(0);
    let skip = vec![Fact::TaskCancelled { cause: Cause::Conflict }];
    one.done(&step::person("skip", &one.task(&task).await, skip)).await;
    let mut again = step::person("again", &one.task(&task).await, Vec::new());
    let spec = TaskSpec { retry_limit: Some(7), ..TaskSpec::default() };
    again.tasks[0].spec = Some(spec.clone());
    let from = Statuses::of(&[TaskStatus::Cancelled]);
    again.ask = Some(Ask { task: task.clone(), from, request: step::retry() });
    one.done(&again).await;
    assert_eq!(one.load(Key::TaskSpec(task.clone())).await, Some(Row::TaskSpec(spec)));
    let claimed = one.take(&task).await.expect("it is asked for");
    one.done(&step::gives_back("back", &claimed)).await;
    let row = one.task(&task).await;
    assert_eq!((row.task.status, &row.task.owner), (TaskStatus::Cancelled, &None));
    assert!(row.control.start.is_some(), "it is still wanted");
    let mut other = step::person("other", &row, Vec::new());
    other.tasks[0].task.status = TaskStatus::Completed;
    let why = one.refused(&other).await;
    assert!(matches!(why, Refusal::State { status: "CANCELLED", .. }), "{why}");
    one.take(&task).await.expect("it is free again");
}

fn at_version(mut step: Step, version: u64) -> Step {
    let CheckpointPut::Put(checkpoint) = &mut step.checkpoint else { panic!("a boundary has a checkpoint") };
    checkpoint.version = version;
    step
}

fn plan_event(row: &windlass_core::port::state::TaskRow) -> Step {
    Step { events: vec![step::event(&row.task.plan, Fact::PlanPaused)], ..step::empty("lone-checkpoint") }
}
