//! Restart: close, open again, and everything acknowledged is there.

use windlass_core::event::Fact;
use windlass_core::lock::LOCK_MS;
use windlass_core::port::Refusal;
use windlass_core::port::lock::Force;
use windlass_core::port::state::Key;
use windlass_core::task::Cause;
use windlass_core::task::status::TaskStatus;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{Rival, id};

/// One of every kind of row, before and after.
pub async fn every_kind_of_row_is_there_after_a_restart(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme", "bolt", "corp"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.stage(&attempt).await;
    one.done(&step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause())).await;
    let row = one.task(&draft.task(1)).await;
    one.done(&step::person("cancel", &row, vec![Fact::TaskCancelled { cause: Cause::Person }])).await;
    one.take(&draft.task(2)).await.expect("free");
    let (by, why) = (id("Zoë"), id("stuck"));
    one.ports.locks.force(&id("dent"), Force::Freeze, &by, Some(&why), None).await.expect("force").expect("done");
    let keys: Vec<Key> = ["create-p", "start-p", "ask", "cancel"].map(|op| Key::Op(id(op))).into();
    let ops = one.ports.state.load(&keys).await.expect("load");
    assert!(ops.iter().all(Option::is_some), "operations are kept: {ops:?}");
    let before = one.everything().await;

    h.restart().await;
    let two = Rival::open(h, "two", 0).await;
    assert_eq!(two.everything().await, before);
    assert_eq!(two.ports.state.load(&keys).await.expect("load"), ops);
}

/// The owner's process lives on while the store restarts: its attempt simply goes on.
pub async fn an_attempt_goes_on_after_a_restart_of_the_store(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let step = one.boundary(&attempt).await;
    let first = one.done(&step).await;
    h.restart().await;
    let one = Rival::open(h, "one", 0).await;
    assert_eq!(one.done(&step).await, first, "a repeat over a restart is a repeat");
    one.stage(&attempt).await;
    one.renew(&attempt.held(), LOCK_MS).await.expect("the lock is still its own");
    one.fail(&attempt).await;
}

/// A restart hands out no fence twice.
pub async fn fences_grow_over_restarts(h: &dyn Harness) {
    let mut last = windlass_core::fence::Fence::NONE;
    for round in 0..4 {
        // The first rival draws far ahead of the clock; the later ones must not fall behind it.
        let ahead_ms = if round == 0 { 3_600_000 } else { 0 };
        let one = Rival::open(h, "one", ahead_ms).await;
        for n in 0..3 {
            let lock = one.acquire(&format!("tenant-{round}-{n}"), "task", LOCK_MS).await.expect("free");
            assert!(lock.fence > last, "{} after {last}, in round {round}", lock.fence);
            last = lock.fence;
        }
        h.restart().await;
    }
}

/// What was refused before is refused after.
pub async fn fences_and_versions_hold_after_a_restart(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let (first, second) = (Draft::new("first", &["acme"]), Draft::new("second", &["acme"]));
    one.run(&first).await;
    one.run(&second).await;
    let read = one.plan(&first.id()).await;
    one.done(&step::plan("pause", &read, Fact::PlanPaused)).await;
    let attempt = one.begin(&first.task(0)).await;
    let late = one.boundary(&attempt).await;
    one.release(&attempt.held()).await.expect("its own");
    let newer = one.begin(&second.task(0)).await;
    h.restart().await;
    let one = Rival::open(h, "one", 0).await;
    assert_eq!(one.refused(&late).await, Refusal::Stale { given: attempt.fence, stored: newer.fence });
    let old = step::plan("old", &read, Fact::PlanPaused);
    assert!(matches!(one.refused(&old).await, Refusal::Version { .. }));
    let mut reused = first.step();
    reused.op.digest = 7;
    assert_eq!(one.refused(&reused).await, Refusal::OpReused);
    let held = one.acquire("acme", first.task(0).as_str(), LOCK_MS).await;
    assert!(matches!(held, Err(Refusal::Held(holder)) if holder.fence == newer.fence));
}

/// A lease is stored: a restart of the store ends nobody's and prolongs nobody's.
pub async fn leases_outlive_a_restart_and_still_end(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    one.take(&draft.task(0)).await.expect("free");
    h.restart().await;
    let two = Rival::up(h, "two", 0).await;
    let why = two.take(&draft.task(0)).await;
    assert!(matches!(why, Err(Refusal::Owned { .. })), "{why:?}");
    let later = Rival::up(h, "later", crate::world::LATER_MS).await;
    later.take(&draft.task(0)).await.expect("its owner's lease has expired");
}

/// Nothing that was forgotten comes back.
pub async fn what_was_purged_or_released_stays_away(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.fail(&attempt).await;
    one.end(&draft.id(), crate::world::BORN).await;
    let before = crate::world::BORN.plus(1);
    assert_eq!(one.ports.state.purge(before, 100).await, Ok(1));
    h.restart().await;
    let one = Rival::open(h, "one", 0).await;
    assert_eq!(one.load(Key::Plan(draft.id())).await, None);
    assert_eq!(one.load(Key::Task(draft.task(0))).await, None);
    assert_eq!(one.load(Key::Checkpoint(draft.task(0))).await, None);
    assert_eq!(one.lock(&id("acme")).await.holder, None);
    assert_eq!(one.tenant(&id("acme")).await.fence, attempt.fence, "but the fence stays");
}
