//! Fences: whoever lost a tenant writes nothing more, whichever task it is for.

use windlass_core::event::Fact;
use windlass_core::fence::Fence;
use windlass_core::port::Refusal;
use windlass_core::port::state::{Key, Row};
use windlass_core::task::StartKind;
use windlass_core::task::range::Range;
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{Attempt, LATER_MS, LEASE_MS, Rival, id};

/// State, checkpoint and events of a boundary are seen together, and the answer says what others want.
pub async fn a_boundary_is_one_commit_of_state_checkpoint_and_events(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.done(&step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause())).await;
    let before = one.task(&attempt.task).await;
    let step = one.boundary(&attempt).await;
    let stepped = one.done(&step).await;

    let row = one.task(&attempt.task).await;
    assert_eq!(row.task, step.tasks[0].task, "the task as it was put");
    assert_eq!((row.version, row.seq, row.checkpoint), (before.version + 1, before.seq + 2, 1));
    assert_eq!((stepped.version, stepped.seq), (row.version, row.seq), "the answer is about the task");
    assert!(stepped.control.pause.is_some(), "a boundary answers with what others want");
    assert_eq!(row.control, stepped.control);
    let checkpoint = one.checkpoint(&attempt.task).await.expect("a checkpoint");
    assert_eq!((checkpoint.version, checkpoint.completed()), (1, 1));
    let history = one.history(Key::TaskHistory(attempt.task.clone())).await;
    let seqs: Vec<u64> = history.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=row.seq).collect::<Vec<_>>(), "events are numbered from 1 without a gap");
    assert_eq!(history.last().map(|event| event.fact.name()), Some("StageStarted"));
}

/// The old instance wakes up after another has taken its task over and begun.
pub async fn a_late_commit_of_this_task_is_refused(h: &dyn Harness) {
    let (old, new, late, _) = taken_over(h).await;
    let why = old.refused(&late).await;
    assert!(matches!(why, Refusal::Stale { .. }), "the tenant has seen a higher fence: {why}");
    let again = new.refused(&late).await;
    assert_eq!(why, again, "every rival sees the same refusal");
}

/// A task of an older plan lost the tenant to a task of a newer one.
pub async fn a_late_commit_of_an_older_task_of_the_tenant_is_refused(h: &dyn Harness) {
    let old = Rival::up(h, "old", 0).await;
    let (first, second) = (Draft::new("first", &["acme"]), Draft::new("second", &["acme"]));
    old.run(&first).await;
    old.run(&second).await;
    let attempt = old.begin(&first.task(0)).await;
    let late = old.boundary(&attempt).await;
    // Somebody forces the lock; the second task begins under a higher fence. The first task's own
    // record is untouched: only the tenant's fence stands between its owner and a write.
    old.release(&attempt.held()).await.expect("the lock is its own");
    let newer = old.begin(&second.task(0)).await;
    let tenant = old.tenant(&id("acme")).await;
    assert_eq!((tenant.fence, tenant.started), (newer.fence, Some(second.task(0))));
    let why = old.refused(&late).await;
    assert_eq!(why, Refusal::Stale { given: attempt.fence, stored: newer.fence });
    old.stage(&newer).await;
}

/// An attempt that drew its fence and was overtaken before its first commit.
pub async fn a_late_begin_under_an_older_fence_is_refused(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (first, second) = (Draft::new("first", &["acme"]), Draft::new("second", &["acme"]));
    one.run(&first).await;
    one.run(&second).await;
    let row = one.take(&first.task(0)).await.expect("free");
    let lock = one.acquire("acme", first.task(0).as_str(), LEASE_MS).await.expect("free");
    let slow = Attempt { task: first.task(0), tenant: id("acme"), instance: one.me.clone(), fence: lock.fence };
    one.release(&slow.held()).await.expect("its own");
    let newer = one.begin(&second.task(0)).await;
    let why = one.refused(&step::begins("slow", &row, &slow)).await;
    assert_eq!(why, Refusal::Stale { given: slow.fence, stored: newer.fence });
}

/// A lock that was taken over is not prolonged by who had it.
pub async fn a_late_renew_is_refused(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let two = Rival::open(h, "two", LATER_MS).await;
    for (first, second) in [("a", "b"), ("a", "a")] {
        let tenant = format!("tenant-{second}");
        let old = one.acquire(&tenant, first, LEASE_MS).await.expect("free");
        let new = two.acquire(&tenant, second, LEASE_MS).await.expect("expired, or its own");
        let held = |task: &str, fence| windlass_core::lock::Held { tenant: id(&tenant), task: id(task), fence };
        for rival in [&one, &two] {
            let late = rival.renew(&held(first, old.fence), 10 * LATER_MS).await;
            assert_eq!(late, Err(Refusal::NotHeld { fence: old.fence }));
        }
        let holder = two.lock(&id(&tenant)).await.holder.expect("held");
        assert_eq!(holder, new, "a refused renewal changes nothing");
        two.renew(&held(second, new.fence), LEASE_MS).await.expect("its own");
    }
}

/// A lock that was taken over is not given back by who had it.
pub async fn a_late_release_is_refused(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let two = Rival::open(h, "two", LATER_MS).await;
    for (first, second) in [("a", "b"), ("a", "a")] {
        let tenant = format!("tenant-{second}");
        let old = one.acquire(&tenant, first, LEASE_MS).await.expect("free");
        let new = two.acquire(&tenant, second, LEASE_MS).await.expect("expired, or its own");
        let held = |task: &str, fence| windlass_core::lock::Held { tenant: id(&tenant), task: id(task), fence };
        for rival in [&one, &two] {
            let late = rival.release(&held(first, old.fence)).await;
            assert_eq!(late, Err(Refusal::NotHeld { fence: old.fence }));
        }
        // The right fence with another task's name, and the right task with a fence never drawn.
        let wrong = [held("other", new.fence), held(second, Fence(new.fence.0 + 1)), held(second, Fence::NONE)];
        for wrong in wrong {
            assert_eq!(two.release(&wrong).await, Err(Refusal::NotHeld { fence: wrong.fence }));
        }
        assert_eq!(two.lock(&id(&tenant)).await.holder, Some(new.clone()), "a refused release changes nothing");
        two.release(&held(second, new.fence)).await.expect("its own");
        assert_eq!(two.lock(&id(&tenant)).await.holder, None);
        let again = two.release(&held(second, new.fence)).await;
        assert_eq!(again, Err(Refusal::NotHeld { fence: new.fence }), "a lock is given back once");
    }
}

/// The tenant's fence in state is the highest that has written.
pub async fn a_higher_fence_raises_the_tenants_and_a_lower_one_never_lowers_it(h: &dyn Harness) {
    let (_, new, late, attempt) = taken_over(h).await;
    let acme = id("acme");
    assert_eq!(new.tenant(&acme).await.fence, attempt.fence);
    new.refused(&late).await;
    assert_eq!(new.tenant(&acme).await.fence, attempt.fence, "a refused write leaves the fence");
    new.stage(&attempt).await;
    assert_eq!(new.tenant(&acme).await.fence, attempt.fence, "the same fence writes again and again");
    let other = new.tenant(&id("nobody")).await;
    assert_eq!(other.fence, Fence::NONE, "fences are per tenant");
}

/// Ownership is judged beside the fence: a fence alone is no right to write.
pub async fn a_writer_that_owns_nothing_is_refused(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let row = one.task(&draft.task(0)).await;
    let stranger = Attempt { task: draft.task(0), tenant: id("acme"), instance: id("two"), fence: Fence(u64::MAX) };
    let why = one.refused(&step::begins("unowned", &row, &stranger)).await;
    assert_eq!(why, Refusal::Owned { owner: None, until: Ms::ZERO }, "nobody has claimed it");
    let attempt = one.begin(&draft.task(0)).await;
    let row = one.task(&draft.task(0)).await;
    let until = one.beat(LEASE_MS).await.until;
    let why = one.refused(&step::boundary("stolen", &row, &stranger, None)).await;
    assert_eq!(why, Refusal::Owned { owner: Some(one.me.clone()), until }, "who, and until when");
    one.stage(&attempt).await;
}

/// A lease that ran out makes a task free to be taken; until then its owner is still its owner.
pub async fn an_owner_whose_lease_ran_out_may_write_until_somebody_takes_the_task(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.beat(0).await;
    one.stage(&attempt).await;
    let two = Rival::up(h, "two", LATER_MS).await;
    two.take(&attempt.task).await.expect("its owner's lease has expired");
    let row = one.task(&attempt.task).await;
    let late = step::boundary("late", &row, &attempt, one.checkpoint(&attempt.task).await);
    let why = one.refused(&late).await;
    assert!(matches!(&why, Refusal::Owned { owner: Some(owner), .. } if *owner == two.me), "{why}");
}

/// Requests and the owner's commits cross in any order.
pub async fn what_others_ask_never_refuses_the_owner(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let read_before = one.boundary(&attempt).await;
    one.done(&step::asks("pause", &attempt.task, &[TaskStatus::Running], step::pause())).await;
    one.done(&step::asks("cancel", &attempt.task, &[TaskStatus::Running], step::cancel())).await;
    let stepped = one.done(&read_before).await;
    assert!(stepped.control.pause.is_some() && stepped.control.cancel.is_some(), "and it is told of both");
    let row = one.task(&attempt.task).await;
    let pauses = vec![Fact::TaskPaused { cause: windlass_core::task::Cause::Person }];
    let stepped = one.done(&step::owner("pauses", &row, &attempt, pauses)).await;
    assert!(stepped.control.is_empty(), "what does not run has nothing left to pause or cancel");
    assert!(one.task(&attempt.task).await.control.is_empty());
}

/// An attempt of `old`, a boundary of it that was never sent, and the attempt that took over.
async fn taken_over(h: &dyn Harness) -> (Rival, Rival, windlass_core::port::state::Step, Attempt) {
    let old = Rival::up(h, "old", 0).await;
    let draft = Draft::new("p", &["acme"]);
    old.run(&draft).await;
    let attempt = old.begin(&draft.task(0)).await;
    old.stage(&attempt).await;
    let late = old.boundary(&attempt).await;
    let new = Rival::up(h, "new", LATER_MS).await;
    let retry = step::start(StartKind::Retry, Range { from: 1, to: 3 }, 1);
    new.done(&step::asks("retry", &attempt.task, &[TaskStatus::Running], retry)).await;
    let taken = new.begin(&attempt.task).await;
    assert!(taken.fence > attempt.fence, "the same task gets its lock again under a higher fence");
    let Some(Row::Tenant(tenant)) = new.load(Key::Tenant(id("acme"))).await else { panic!("the tenant is known") };
    assert_eq!(tenant.fence, taken.fence);
    (old, new, late, taken)
}
