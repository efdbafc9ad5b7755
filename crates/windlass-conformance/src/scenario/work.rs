//! Behaviour of state: creating, handing out, leases, requests, histories, tallies.

use windlass_core::event::{Fact, HISTORY_MAX};
use windlass_core::id::TaskId;
use windlass_core::plan::Tally;
use windlass_core::port::Refusal;
use windlass_core::port::state::{Key, Row, Step, TenantRow};
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Cause, Control};
use windlass_core::time::Ms;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{LATER_MS, LEASE_MS, Rival, id};

/// What goes in comes out, of every kind, and what was never there is not there.
pub async fn a_created_plan_is_read_back_as_it_was_given(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    let step = draft.step();
    let stepped = one.done(&step).await;
    assert_eq!((stepped.version, stepped.seq), (1, 1), "the answer is about the plan");
    let plan = one.plan(&draft.id()).await;
    assert_eq!((&plan.plan, plan.version, plan.seq), (&step.plan.as_ref().expect("a plan").plan, 1, 1));
    let spec = step.plan.as_ref().and_then(|put| put.spec.clone()).expect("a spec");
    assert_eq!(one.load(Key::PlanSpec(draft.id())).await, Some(Row::PlanSpec(spec)));
    let history = one.history(Key::PlanHistory(draft.id())).await;
    assert_eq!(history.len(), 1);
    assert_eq!(history[0], windlass_core::event::Event { seq: 1, ..step.events[0].clone() });
    for (i, put) in step.tasks.iter().enumerate() {
        let row = one.task(&draft.task(i)).await;
        assert_eq!((&row.task, row.version, row.seq, row.checkpoint), (&put.task, 1, 1, 0));
        assert_eq!((&row.control, row.op), (&Control::default(), None));
        assert_eq!(one.load(Key::TaskSpec(draft.task(i))).await, put.spec.clone().map(Row::TaskSpec));
        assert_eq!(one.history(Key::TaskHistory(draft.task(i))).await.len(), 1);
    }
    let nowhere: TaskId = id("nowhere");
    let keys = [
        Key::Plan(id("nowhere")),
        Key::PlanSpec(id("nowhere")),
        Key::Tally(id("nowhere")),
        Key::PlanHistory(id("nowhere")),
        Key::Task(nowhere.clone()),
        Key::TaskSpec(nowhere.clone()),
        Key::TaskHistory(nowhere.clone()),
        Key::Checkpoint(nowhere),
        Key::Tenant(id("nowhere")),
        Key::Op(id("nowhere")),
        Key::Instance(id("nowhere")),
        Key::Checkpoint(draft.task(0)),
    ];
    let rows = one.ports.state.load(&keys).await.expect("load");
    assert_eq!(rows, vec![None; keys.len()]);
}

/// Loads answer in the order of their keys, also when one comes twice.
pub async fn an_answer_per_key_in_order(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    one.create(&Draft::new("p", &["acme"])).await;
    let keys = [Key::Task(id("p-0")), Key::Plan(id("nowhere")), Key::Plan(id("p")), Key::Task(id("p-0"))];
    let rows = one.ports.state.load(&keys).await.expect("load");
    assert!(matches!(&rows[..], [Some(Row::Task(a)), None, Some(Row::Plan(_)), Some(Row::Task(b))] if a == b));
}

/// A tally counts what tasks are, as they move.
pub async fn a_tally_follows_every_move(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 4);
    one.run(&draft).await;
    let tally = async |one: &Rival| match one.load(Key::Tally(draft.id())).await {
        Some(Row::Tally(tally)) => tally,
        other => panic!("a tally is {other:?}"),
    };
    let mut wanted = Tally::default();
    wanted.add(TaskStatus::Pending, 4);
    assert_eq!(tally(&one).await, wanted);
    let attempt = one.begin(&draft.task(0)).await;
    let other = one.begin(&draft.task(1)).await;
    one.stage(&attempt).await;
    one.fail(&other).await;
    let row = one.task(&draft.task(2)).await;
    one.done(&step::person("cancel", &row, vec![Fact::TaskCancelled { cause: Cause::Plan }])).await;
    let mut wanted = Tally::default();
    for status in [TaskStatus::Pending, TaskStatus::Running, TaskStatus::Failed, TaskStatus::Cancelled] {
        wanted.add(status, 1);
    }
    assert_eq!(tally(&one).await, wanted);
}

/// The newest events are kept, and their numbers go on.
pub async fn a_history_keeps_the_newest_events(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.create(&draft).await;
    let task = one.task(&draft.task(0)).await.task;
    let before = one.plan(&draft.id()).await;
    for round in 0..3 {
        let events = (0..90).map(|_| step::task_event(&task, Fact::TaskPauseRequested)).collect();
        let stepped = one.done(&Step { events, ..step::empty(&format!("round-{round}")) }).await;
        assert_eq!((stepped.version, stepped.seq), (2 + round, 1 + 90 * (round + 1)), "the event's subject");
    }
    let history = one.history(Key::TaskHistory(draft.task(0))).await;
    assert_eq!(history.len(), HISTORY_MAX);
    let seqs: Vec<u64> = history.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (72..=271).collect::<Vec<_>>(), "the newest, the oldest first");
    assert_eq!(one.plan(&draft.id()).await, before, "events of a task do not touch its plan");
    let events = vec![step::event(&draft.id(), Fact::PlanPaused); 250];
    one.done(&Step { events, ..step::empty("plan") }).await;
    let history = one.history(Key::PlanHistory(draft.id())).await;
    assert_eq!((history.len(), history[0].seq, history[199].seq), (HISTORY_MAX, 52, 251));
}

/// Ready tasks go out in order, only in plans that run under a live conductor, once each.
pub async fn ready_tasks_are_handed_out_in_order(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 5).at_once(4);
    one.create(&draft).await;
    assert_eq!(one.ready(None, 10).await, [], "the plan has not started");
    // The first in the plan is put off; a moment that has passed orders before none.
    let row = one.task(&draft.task(0)).await;
    let mut later = step::person("later", &row, Vec::new());
    later.tasks[0].task.ready_at = Ms::MAX;
    one.done(&later).await;
    let row = one.task(&draft.task(1)).await;
    let mut soon = step::person("soon", &row, Vec::new());
    soon.tasks[0].task.ready_at = Ms::new(5);
    one.done(&soon).await;
    one.start(&draft.id()).await;
    let two = Rival::up(h, "two", 0).await;
    let ids = |rows: Vec<Result<windlass_core::port::state::TaskRow, Refusal>>| -> Vec<TaskId> {
        rows.into_iter().map(|row| row.expect("ready").task.id).collect()
    };
    let before = one.task(&draft.task(2)).await.version;
    assert_eq!(ids(two.ready(None, 2).await), [draft.task(2), draft.task(3)]);
    let row = one.task(&draft.task(2)).await;
    assert_eq!((row.task.owner, row.version), (Some(two.me.clone()), before + 1));
    assert_eq!(one.ready(Some(&id("other")), 10).await, []);
    assert_eq!(one.ready(None, 0).await, []);
    assert_eq!(ids(one.ready(Some(&draft.id()), 10).await), [draft.task(4), draft.task(1)]);
    assert_eq!(one.ready(None, 10).await, [], "the slots are full, and one is put off");
}

/// Nobody hands out what a conductor has left behind.
pub async fn nothing_is_ready_without_a_live_conductor(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 2);
    one.run(&draft).await;
    let later = Rival::up(h, "later", LATER_MS).await;
    assert_eq!(later.ready(None, 10).await, [], "the conductor's lease has expired");
    later.take(&draft.task(0)).await.expect("but by name it can be taken");
    let row = later.plan(&draft.id()).await;
    later.done(&step::plan("resume", &row, Fact::PlanResumed { conductor: later.me.clone() })).await;
    assert_eq!(later.ready(None, 10).await.len(), 1, "under a new conductor it goes on");
    let row = later.plan(&draft.id()).await;
    later.done(&step::plan("pause", &row, Fact::PlanPaused)).await;
    assert_eq!(later.ready(None, 10).await, []);
}

/// An instance that has not beaten, or not lately, gets nothing.
pub async fn an_instance_without_a_lease_takes_nothing(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 2);
    one.run(&draft).await;
    let two = Rival::open(h, "two", 0).await;
    let no_lease = Refusal::NoLease(two.me.clone());
    assert_eq!(two.ready(None, 10).await, [Err(no_lease.clone())]);
    assert_eq!(two.take(&draft.task(0)).await, Err(no_lease.clone()));
    let until = two.beat(LEASE_MS).await.until;
    assert_eq!(two.ready(None, 1).await.len(), 1);
    let ended = two.beat(0).await.until;
    assert!(ended < until, "0 ends the lease");
    assert_eq!(two.ready(None, 10).await, [Err(no_lease)]);
    let row = one.take(&draft.task(0)).await.expect("its owner's lease has ended");
    assert_eq!(row.task.owner, Some(one.me.clone()));
}

/// Named tasks are taken where there is something to run, whatever the plan says.
pub async fn a_named_task_is_taken_where_there_is_something_to_run(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 3).at_once(1);
    one.create(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.begin(&draft.task(1)).await;
    one.fail(&attempt).await;
    let why = one.take(&attempt.task).await;
    assert!(matches!(why, Err(Refusal::State { status: "FAILED", .. })), "{why:?}");
    one.done(&step::asks("retry", &attempt.task, &[TaskStatus::Failed], step::retry())).await;
    let row = one.take(&attempt.task).await.expect("a retry was asked for");
    assert!(row.control.start.is_some(), "what to begin is still there to be read");
    let later = Rival::up(h, "later", LATER_MS).await;
    for task in [0, 1, 2] {
        let row = later.take(&draft.task(task)).await.expect("asked for, interrupted, pending");
        assert_eq!(row.task.owner, Some(later.me.clone()));
    }
}

/// A retry: asked, handed out within the slots, begun, and not handed out again.
pub async fn what_is_asked_to_start_is_handed_out_once(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::wide("p", 2).at_once(1);
    one.run(&draft).await;
    let first = one.begin(&draft.task(0)).await;
    one.fail(&first).await;
    let second = one.begin(&draft.task(1)).await;
    let asked = one.done(&step::asks("retry", &first.task, &[TaskStatus::Failed], step::retry())).await;
    assert!(asked.control.start.is_some());
    assert_eq!(one.ready(None, 10).await, [], "the one slot is taken");
    one.fail(&second).await;
    let rows = one.ready(None, 10).await;
    assert!(matches!(&rows[..], [Ok(row)] if row.task.id == first.task), "{rows:?}");
    let attempt = one.begin(&first.task).await;
    let row = one.task(&first.task).await;
    assert_eq!((row.control.start, row.task.status, row.task.pass), (None, TaskStatus::Running, 2));
    one.stage(&attempt).await;
    assert_eq!(one.ready(None, 10).await, []);
}

/// A beat tells an instance what is wanted of its own tasks.
pub async fn a_beat_tells_what_is_wanted_of_an_instances_tasks(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    let draft = Draft::wide("p", 4);
    one.run(&draft).await;
    for (rival, task) in [(&one, 2), (&one, 0), (&one, 1), (&two, 3)] {
        rival.begin(&draft.task(task)).await;
    }
    assert_eq!(one.beat(LEASE_MS).await.asked, []);
    for (task, request) in [(2, step::cancel()), (0, step::pause()), (3, step::pause())] {
        two.done(&step::asks(&format!("ask-{task}"), &draft.task(task), &[TaskStatus::Running], request)).await;
    }
    let asked = one.beat(LEASE_MS).await.asked;
    let wanted = [draft.task(0), draft.task(2)];
    assert_eq!(asked.iter().map(|(task, _)| task.clone()).collect::<Vec<_>>(), wanted, "its own, by id");
    assert!(asked[0].1.pause.is_some() && asked[1].1.cancel.is_some());
    let unpause = windlass_core::task::Request::Unpause;
    two.done(&step::asks("unask", &draft.task(0), &[TaskStatus::Running], unpause)).await;
    assert_eq!(one.beat(LEASE_MS).await.asked.len(), 1, "and what was taken back is not asked any more");
}

/// A tenant's latest task: the one started last, or the one created last.
pub async fn a_tenants_latest_task_is_the_one_started_last(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (first, second, third) =
        (Draft::new("first", &["acme"]), Draft::new("second", &["acme"]), Draft::new("third", &["acme"]));
    let latest = async |one: &Rival| {
        let TenantRow { latest, started, .. } = one.tenant(&id("acme")).await;
        (latest, started)
    };
    one.create(&first).await;
    one.create(&second).await;
    assert_eq!(latest(&one).await, (Some(second.task(0)), None), "created last");
    let attempt = one.begin(&first.task(0)).await;
    assert_eq!(latest(&one).await, (Some(first.task(0)), Some(first.task(0))), "started last");
    one.create(&third).await;
    assert_eq!(latest(&one).await, (Some(first.task(0)), Some(first.task(0))), "a new one has not started");
    one.fail(&attempt).await;
    one.begin(&third.task(0)).await;
    assert_eq!(latest(&one).await, (Some(third.task(0)), Some(third.task(0))));
}

/// An ask may carry the checkpoint of the task it is about, and a person's put may too.
pub async fn a_person_may_replace_a_checkpoint(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.stage(&attempt).await;
    one.fail(&attempt).await;
    let mut rewound = one.checkpoint(&attempt.task).await.expect("a checkpoint");
    rewound.truncate(0);
    rewound.version += 1;
    let mut ask = step::asks("retry", &attempt.task, &[TaskStatus::Failed], step::retry());
    ask.checkpoint = windlass_core::port::state::CheckpointPut::Put(rewound.clone());
    let mut wrong = ask.clone();
    wrong.op.id = id("wrong");
    wrong.checkpoint = windlass_core::port::state::CheckpointPut::Put(windlass_core::checkpoint::Checkpoint {
        version: 1,
        ..rewound.clone()
    });
    assert_eq!(one.refused(&wrong).await, Refusal::Checkpoint { given: 1, stored: 1 });
    one.done(&ask).await;
    assert_eq!(one.checkpoint(&attempt.task).await, Some(rewound.clone()));
    let row = one.task(&attempt.task).await;
    assert_eq!(row.checkpoint, 2);
    let mut put = step::person("put", &row, Vec::new());
    put.checkpoint =
        windlass_core::port::state::CheckpointPut::Put(windlass_core::checkpoint::Checkpoint { version: 3, ..rewound });
    let config = windlass_core::json::Json::parse("{\"new\":true}").expect("JSON");
    let spec = windlass_core::plan::spec::TaskSpec { config: Some(config), ..Default::default() };
    put.tasks[0].spec = Some(spec.clone());
    one.done(&put).await;
    assert_eq!(one.task(&attempt.task).await.checkpoint, 3);
    assert_eq!(one.load(Key::TaskSpec(attempt.task)).await, Some(Row::TaskSpec(spec)), "a new configuration");
}
