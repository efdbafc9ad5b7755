//! Behaviour of tenant locks.

use windlass_core::lock::{Acquire, Held, LOCK_MS};
use windlass_core::port::Refusal;
use windlass_core::port::lock::Force;
use windlass_core::time::Ms;

use crate::Harness;
use crate::world::{LATER_MS, LEASE_MS, Rival, id};

/// One at a time, until it is given back.
pub async fn a_held_lock_is_refused_to_another_task(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let two = Rival::open(h, "two", 0).await;
    let lock = one.acquire("acme", "a", LOCK_MS).await.expect("free");
    assert_eq!(lock.until, lock.since.plus(LOCK_MS));
    assert_eq!(two.acquire("acme", "b", LOCK_MS).await, Err(Refusal::Held(lock.clone())));
    assert_eq!(two.lock(&id("acme")).await.holder, Some(lock.clone()));
    two.acquire("bolt", "b", LOCK_MS).await.expect("another tenant");
    let held = Held { tenant: id("acme"), task: id("a"), fence: lock.fence };
    one.release(&held).await.expect("its own");
    let next = two.acquire("acme", "b", LOCK_MS).await.expect("free again");
    assert!(next.fence > lock.fence);
}

/// An expired lock is nobody's: taken over by anyone, and no longer its holder's to renew.
pub async fn an_expired_lock_is_granted_with_a_higher_fence(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let later = Rival::open(h, "later", LATER_MS).await;
    let lock = one.acquire("acme", "a", LEASE_MS).await.expect("free");
    let held = Held { tenant: id("acme"), task: id("a"), fence: lock.fence };
    assert_eq!(later.lock(&id("acme")).await.holder, None, "expired by this rival's clock");
    assert_eq!(one.lock(&id("acme")).await.holder, Some(lock.clone()), "not by that one's");
    assert_eq!(later.renew(&held, LOCK_MS).await, Err(Refusal::NotHeld { fence: lock.fence }));
    assert_eq!(later.release(&held).await, Err(Refusal::NotHeld { fence: lock.fence }));
    let next = later.acquire("acme", "b", LOCK_MS).await.expect("expired");
    assert!(next.fence > lock.fence && next.since > lock.since);
}

/// Renewing prolongs from now, and only the end changes.
pub async fn a_renewed_lock_runs_from_now(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let lock = one.acquire("acme", "a", LEASE_MS).await.expect("free");
    let held = Held { tenant: id("acme"), task: id("a"), fence: lock.fence };
    let soon = Rival::open(h, "soon", 30_000).await;
    let until = soon.renew(&held, LOCK_MS).await.expect("its own");
    assert!(until >= lock.since.plus(30_000 + LOCK_MS));
    let renewed = one.lock(&id("acme")).await.holder.expect("held");
    assert_eq!(renewed, windlass_core::lock::Holder { until, ..lock });
}

/// An answer per item, in order, each for itself; only a granted lock draws a fence.
pub async fn a_batch_of_locks_is_judged_one_by_one(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let want =
        |tenant: &str, task: &str| Acquire { tenant: id(tenant), plan: id("p"), task: id(task), ttl_ms: LOCK_MS };
    let wants = [want("b", "1"), want("a", "2"), want("b", "3"), want("b", "1")];
    let answers = one.ports.locks.acquire(&wants).await.expect("acquire");
    let [Ok(first), Ok(second), Err(Refusal::Held(holder)), Ok(again)] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(holder, first);
    assert!(first.fence < second.fence && second.fence < again.fence);
    let held = |holder: &windlass_core::lock::Holder| Held {
        tenant: holder.tenant.clone(),
        task: holder.task.clone(),
        fence: holder.fence,
    };
    let all = [held(first), held(second), held(again)];
    let renewed = one.ports.locks.renew(&all, LOCK_MS).await.expect("renew");
    assert_eq!(renewed.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
    let released = one.ports.locks.release(&all).await.expect("release");
    assert_eq!(released.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(one.ports.locks.acquire(&[]).await, Ok(vec![]));
    assert_eq!(one.ports.locks.load(&[]).await, Ok(vec![]));
}

/// Nothing of a frozen tenant starts, not even for the task that holds it; what runs keeps its lock.
pub async fn a_frozen_tenant_is_locked_to_everybody(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let lock = one.acquire("acme", "a", LOCK_MS).await.expect("free");
    let (acme, by, why) = (id("acme"), id("Zoë"), id("an incident"));
    let before =
        one.ports.locks.force(&acme, Force::Freeze, &by, Some(&why), None).await.expect("force").expect("done");
    assert_eq!((before.holder, before.freeze), (Some(lock.clone()), None));
    let freeze = one.lock(&acme).await.freeze.expect("frozen");
    assert_eq!((&freeze.by, freeze.reason.as_ref(), &freeze.tenant), (&by, Some(&why), &acme));
    for task in ["a", "b"] {
        assert_eq!(one.acquire("acme", task, LOCK_MS).await, Err(Refusal::Frozen(freeze.clone())));
    }
    let held = Held { tenant: acme.clone(), task: id("a"), fence: lock.fence };
    one.renew(&held, LOCK_MS).await.expect("what runs keeps its lock");
    one.release(&held).await.expect("and gives it back");
    let frozen = one.acquire("acme", "b", LOCK_MS).await;
    assert!(matches!(frozen, Err(Refusal::Frozen(_))));
    one.ports.locks.force(&acme, Force::Unfreeze, &by, None, None).await.expect("force").expect("done");
    one.acquire("acme", "b", LOCK_MS).await.expect("free");
}

/// A person takes the lock from whoever holds it; whoever held it finds out.
pub async fn a_forced_release_ends_a_lock(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let lock = one.acquire("acme", "a", LOCK_MS).await.expect("free");
    let (acme, by) = (id("acme"), id("Zoë"));
    let before = one.ports.locks.force(&acme, Force::Release, &by, None, None).await.expect("force").expect("done");
    assert_eq!(before.holder, Some(lock.clone()), "it answers who held it");
    let held = Held { tenant: acme.clone(), task: id("a"), fence: lock.fence };
    assert_eq!(one.renew(&held, LOCK_MS).await, Err(Refusal::NotHeld { fence: lock.fence }));
    let next = one.acquire("acme", "b", LOCK_MS).await.expect("free");
    assert!(next.fence > lock.fence);
    let before =
        one.ports.locks.force(&id("nobody"), Force::Release, &by, None, None).await.expect("force").expect("done");
    assert_eq!((before.holder, before.freeze), (None, None), "a tenant never seen is nobody's");
}

/// Only locks that expired long enough ago are forgotten, a few at a time.
pub async fn purged_locks_are_the_expired_ones(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let later = Rival::open(h, "later", LATER_MS).await;
    let mut until = Ms::ZERO;
    for i in 0..5 {
        until = one.acquire(&format!("old-{i}"), "a", LEASE_MS).await.expect("free").until;
    }
    let live = one.acquire("live", "a", LOCK_MS).await.expect("free");
    let (by, frozen) = (id("Zoë"), id("old-0"));
    one.ports.locks.force(&frozen, Force::Freeze, &by, None, None).await.expect("force").expect("done");
    assert_eq!(later.ports.locks.purge(Ms::ZERO, 100).await, Ok(0));
    assert_eq!(later.ports.locks.purge(until.plus(1), 0).await, Ok(0));
    assert_eq!(later.ports.locks.purge(until.plus(1), 3).await, Ok(3));
    assert_eq!(later.ports.locks.purge(until.plus(1), 3).await, Ok(2));
    assert_eq!(later.ports.locks.purge(until.plus(1), 3).await, Ok(0));
    assert_eq!(later.lock(&id("live")).await.holder, Some(live), "what is held stays");
    assert!(later.lock(&frozen).await.freeze.is_some(), "and so does a freeze");
    let next = later.acquire("old-1", "b", LOCK_MS).await.expect("free");
    assert!(next.fence > later.lock(&id("live")).await.holder.expect("held").fence, "fences are not forgotten");
}
