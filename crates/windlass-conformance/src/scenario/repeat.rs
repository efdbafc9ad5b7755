//! Repeats: whoever did not get an answer sends the same again, and nothing happens twice.

use windlass_core::event::Fact;
use windlass_core::json::Json;
use windlass_core::port::Refusal;
use windlass_core::port::lock::{Force, Tenant};
use windlass_core::port::state::{Key, Op, Row, Step, TaskRow};
use windlass_core::task::Cause;
use windlass_core::task::status::TaskStatus;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{LATER_MS, LEASE_MS, Rival, id};

/// Commits `step` twice and once with another digest.
async fn repeat(rival: &Rival, other: &Rival, step: &Step) {
    let first = rival.done(step).await;
    let before = rival.everything().await;
    for again in [rival, other] {
        assert_eq!(again.commit(step).await.as_ref(), Ok(&first), "a repeat is answered as before: {}", step.op.id);
    }
    let mut reused = step.clone();
    reused.op.digest ^= 1;
    assert_eq!(other.commit(&reused).await, Err(Refusal::OpReused), "the same id with another body");
    assert_eq!(rival.everything().await, before, "a repeat changes nothing");
}

/// What an attempt writes: its beginning, its boundaries, its end.
pub async fn an_owners_write_is_done_once(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::open(h, "two", 1_000).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let row = one.take(&draft.task(0)).await.expect("free");
    let fence = one.acquire("acme", draft.task(0).as_str(), LEASE_MS).await.expect("free").fence;
    let attempt = crate::world::Attempt { task: draft.task(0), tenant: id("acme"), instance: one.me.clone(), fence };
    repeat(&one, &two, &step::begins("begin", &row, &attempt)).await;
    repeat(&one, &two, &one.boundary(&attempt).await).await;
    let row = one.task(&attempt.task).await;
    let pauses = vec![Fact::TaskPaused { cause: Cause::Person }];
    // The last write gives the task up; its repeat comes from somebody who does not own it any more.
    repeat(&one, &two, &step::owner("pauses", &row, &attempt, pauses)).await;
}

/// A repeat is a repeat even where the same write, new, would be refused by now.
pub async fn an_owners_repeat_is_answered_before_it_is_judged(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let step = one.boundary(&attempt).await;
    let first = one.done(&step).await;
    one.done(&step::asks("pause", &attempt.task, &[TaskStatus::Running], step::pause())).await;
    let again = one.done(&step).await;
    assert_eq!((again.seq, again.at), (first.seq, first.at));
    assert!(again.control.pause.is_some(), "with what others want by now");
    // Only the last operation is kept with a task: an older one is judged like any other.
    one.stage(&attempt).await;
    let why = one.refused(&step).await;
    assert!(matches!(why, Refusal::Checkpoint { .. }), "{why}");
}

/// What a claimer writes.
pub async fn a_claimers_write_is_done_once(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::open(h, "two", 1_000).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    one.run(&draft).await;
    let row = one.take(&draft.task(0)).await.expect("free");
    repeat(&one, &two, &step::gives_back("back", &row)).await;
    let row = one.take(&draft.task(1)).await.expect("free");
    let mut skips = step::gives_back("skips", &row);
    let fact = Fact::TaskCancelled { cause: Cause::Conflict };
    let ended = step::person("skips", &row, vec![fact]);
    (skips.tasks, skips.events) = (ended.tasks, ended.events);
    repeat(&one, &two, &skips).await;
}

/// What a person writes: plans, tasks, requests, bare events, and the answer that is kept.
pub async fn a_persons_write_is_done_once(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::open(h, "two", 1_000).await;
    let draft = Draft::new("p", &["acme", "bolt"]);
    let mut create = draft.step();
    create.answer = Some(Json::parse(r#"{"planId":"p","größe":1}"#).expect("JSON"));
    repeat(&one, &two, &create).await;
    let row = one.plan(&draft.id()).await;
    repeat(&one, &two, &step::plan("start", &row, Fact::PlanStarted { conductor: one.me.clone() })).await;
    let row = one.task(&draft.task(1)).await;
    repeat(&one, &two, &step::person("cancel", &row, vec![Fact::TaskCancelled { cause: Cause::Person }])).await;
    let attempt = one.begin(&draft.task(0)).await;
    let mut ask = step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause());
    ask.events = vec![step::task_event(&one.task(&attempt.task).await.task, Fact::TaskPauseRequested)];
    repeat(&one, &two, &ask).await;
    let events = vec![step::event(&draft.id(), Fact::TenantFrozen)];
    repeat(&one, &two, &Step { events, ..step::empty("bare") }).await;
    let answer = Some(Json::parse(r#"{"removed":true}"#).expect("JSON"));
    repeat(&one, &two, &Step { answer, ..step::empty("elsewhere") }).await;
    let Some(Row::Op(op)) = one.load(Key::Op(id("create-p"))).await else { panic!("the operation is kept") };
    assert_eq!((op.digest, op.version, op.answer), (1, 1, create.answer));
}

/// A person's operation is kept for itself, however much is written after it.
pub async fn a_persons_repeat_long_after_is_answered_as_before(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]).stages(30);
    let create = draft.step();
    let first = one.done(&create).await;
    one.start(&draft.id()).await;
    let attempt = one.begin(&draft.task(0)).await;
    let ask = step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause());
    let asked = one.done(&ask).await;
    for _ in 0..20 {
        one.stage(&attempt).await;
    }
    let row = one.task(&attempt.task).await;
    one.done(&step::owner("pauses", &row, &attempt, vec![Fact::TaskPaused { cause: Cause::Person }])).await;
    let later = Rival::open(h, "later", LATER_MS).await;
    assert_eq!(later.done(&create).await, first);
    let again = later.done(&ask).await;
    assert_eq!((again.version, again.seq, again.at), (asked.version, asked.seq, asked.at));
    assert!(again.control.is_empty(), "control is what is wanted now, not what was");
}

/// Instances repeat beats and takes; both are safe.
pub async fn a_repeated_take_and_beat_change_nothing(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let first: TaskRow = one.take(&draft.task(0)).await.expect("free");
    assert_eq!(one.take(&draft.task(0)).await, Ok(first.clone()), "it is this instance's already");
    assert_eq!(one.task(&draft.task(0)).await, first);
    let Some(Row::Instance(before)) = one.load(Key::Instance(one.me.clone())).await else { panic!("it beats") };
    let later = Rival { me: one.me.clone(), ..Rival::open(h, "one", 5_000).await };
    later.beat(LEASE_MS).await;
    let Some(Row::Instance(after)) = one.load(Key::Instance(one.me.clone())).await else { panic!("it beats") };
    assert_eq!(after.since, before.since, "up since its first beat");
    assert!(after.until > before.until);
}

/// A holder that lost the answer to acquire gets the lock again, and a person's force is done once.
pub async fn repeated_lock_calls_are_safe(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let first = one.acquire("acme", "task", LEASE_MS).await.expect("free");
    let again = one.acquire("acme", "task", LEASE_MS).await.expect("its own");
    assert!(again.fence > first.fence, "under a higher fence");
    assert_eq!(again.since, first.since, "held since the first time");
    let acme = id("acme");
    let (by, why) = (id("Zoë"), id("stuck"));
    let force = |what| one.ports.locks.force(&acme, what, &by, Some(&why), None);
    let before = force(Force::Freeze).await.expect("force").expect("done");
    assert_eq!((before.holder, before.freeze), (Some(again.clone()), None), "as it was before");
    let frozen = force(Force::Freeze).await.expect("force").expect("done");
    let stays = force(Force::Freeze).await.expect("force").expect("done");
    assert!(frozen.freeze.is_some());
    assert_eq!(frozen, stays);
    assert_eq!(force(Force::Release).await.expect("force").expect("done").holder, Some(again));
    assert_eq!(force(Force::Release).await.expect("force").expect("done").holder, None);
    assert!(force(Force::Unfreeze).await.expect("force").expect("done").freeze.is_some());
    assert!(force(Force::Unfreeze).await.expect("force").expect("done").freeze.is_none());
}

/// With an operation, the same again is answered the same whatever has become of the tenant, and changes nothing; the
/// operation's id is nobody else's, be it for a lock or for a step.
pub async fn a_forced_lock_is_done_once_under_its_operation(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::open(h, "two", 1_000).await;
    let (acme, by) = (id("acme"), id("Zoë"));
    let op = |name: &str, digest| Op { id: id(name), digest };
    let lock = one.acquire("acme", "a", LEASE_MS).await.expect("free");
    let freeze = op("freeze", 1);
    let first = one.ports.locks.force(&acme, Force::Freeze, &by, None, Some(&freeze)).await.expect("force");
    assert_eq!(first, Ok(Tenant { tenant: acme.clone(), holder: Some(lock), freeze: None }));
    one.ports
        .locks
        .force(&acme, Force::Unfreeze, &by, None, Some(&op("unfreeze", 2)))
        .await
        .expect("force")
        .expect("done");
    for again in [&one, &two] {
        let answer = again.ports.locks.force(&acme, Force::Freeze, &by, None, Some(&freeze)).await.expect("force");
        assert_eq!(answer, first, "the same again");
        assert_eq!(again.lock(&acme).await.freeze, None, "and nothing was done");
    }
    let reused = two.ports.locks.force(&id("bolt"), Force::Freeze, &by, None, Some(&op("freeze", 9))).await;
    assert_eq!(reused, Ok(Err(Refusal::OpReused)), "the same id with another body");
    assert_eq!(two.lock(&id("bolt")).await.freeze, None);
    assert!(matches!(one.load(Key::Op(id("freeze"))).await, Some(Row::Op(row)) if row.digest == 1));

    let draft = Draft::new("p", &["crux"]);
    let mut create = draft.step();
    create.op = freeze.clone();
    create.op.digest = 3;
    assert_eq!(two.commit(&create).await, Err(Refusal::OpReused), "an id of a lock's operation, for a step");
    create.op = op("create", 4);
    one.done(&create).await;
    let taken = one.ports.locks.force(&acme, Force::Freeze, &by, None, Some(&op("create", 5))).await;
    assert_eq!(taken, Ok(Err(Refusal::OpReused)), "an id of a step's operation, for a lock");
    assert_eq!(one.lock(&acme).await.freeze, None);
}
