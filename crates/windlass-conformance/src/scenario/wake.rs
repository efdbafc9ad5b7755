//! Wake-ups: whoever waits for a change is told, and no change falls between two calls. A waiter
//! waits for a minute at most; the watchdog barks long before, so that a lost wake-up is seen.

use std::time::Duration;

use windlass_core::event::Fact;
use windlass_core::lock::{Held, LOCK_MS};
use windlass_core::port::lock::Force;
use windlass_core::port::{Mark, WAIT_MS_MAX};
use windlass_core::task::Cause;
use windlass_core::task::status::TaskStatus;

use crate::Harness;
use crate::world::step::{self, Draft};
use crate::world::{Rival, id};

const WATCHDOG: Duration = Duration::from_secs(20);

/// Waits for a change after `since`, which must come.
async fn woken(rival: &Rival, since: Mark, by: &str) -> Mark {
    let changed = tokio::time::timeout(WATCHDOG, rival.ports.state.changed(since, WAIT_MS_MAX)).await;
    let mark = changed.unwrap_or_else(|_| panic!("nobody was woken by {by}")).expect("changed");
    assert!(mark > since, "{by} moves the mark: {mark:?} after {since:?}");
    mark
}

/// Likewise for locks.
async fn lock_woken(rival: &Rival, since: Mark, by: &str) -> Mark {
    let changed = tokio::time::timeout(WATCHDOG, rival.ports.locks.changed(since, WAIT_MS_MAX)).await;
    let mark = changed.unwrap_or_else(|_| panic!("nobody was woken by {by}")).expect("changed");
    assert!(mark > since, "{by} moves the mark: {mark:?} after {since:?}");
    mark
}

/// Somebody waits, then another rival acts: `$act` runs beside the wait, whichever comes first.
macro_rules! wakes {
    ($waiter:expr, $wait:ident, $mark:ident, $by:literal, $act:expr) => {{
        let since = $waiter.$mark().await;
        let waiter = $waiter.clone();
        let waits = tokio::spawn(async move { $wait(&waiter, since, $by).await });
        // Gives the waiter a chance to be there first; either order must do.
        tokio::task::yield_now().await;
        let done = $act;
        waits.await.expect("the waiter was woken");
        done
    }};
}

/// The change came before the call.
pub async fn a_change_before_the_call_is_not_lost(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    let since = two.mark().await;
    one.create(&Draft::new("p", &["acme"])).await;
    let mark = woken(&two, since, "a plan that was there before the call").await;
    one.start(&id("p")).await;
    woken(&two, mark, "a plan that was started before the call").await;
    let since = two.locks_mark().await;
    let lock = one.acquire("acme", "t", LOCK_MS).await.expect("free");
    one.release(&Held { tenant: id("acme"), task: id("t"), fence: lock.fence }).await.expect("its own");
    lock_woken(&two, since, "a release before the call").await;
}

/// New work, from another rival.
pub async fn a_waiter_is_woken_by_new_work(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    for round in 0..20 {
        let draft = Draft::new(&format!("p-{round}"), &["acme"]);
        one.create(&draft).await;
        wakes!(two, woken, mark, "a plan that starts", one.start(&draft.id()).await);
        let mut row = one.task(&draft.task(0)).await;
        row = wakes!(two, woken, mark, "a plan's new task", {
            let mut more = Draft::new(&format!("q-{round}"), &["bolt"]);
            more = more.born(row.task.created_at);
            one.run(&more).await;
            one.task(&more.task(0)).await
        });
        assert_eq!(row.task.status, TaskStatus::Pending);
    }
}

/// A request, from another rival, to whoever runs the task.
pub async fn a_waiter_is_woken_by_a_request(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    for round in 0..20 {
        let request = if round % 2 == 0 { step::pause() } else { step::cancel() };
        let ask = step::asks(&format!("ask-{round}"), &attempt.task, &[TaskStatus::Running], request);
        wakes!(one, woken, mark, "a request", two.done(&ask).await);
    }
    one.fail(&attempt).await;
    let retry = step::asks("retry", &attempt.task, &[TaskStatus::Failed], step::retry());
    wakes!(one, woken, mark, "a retry", two.done(&retry).await);
}

/// A slot that becomes free: a task ended, paused, or was given back.
pub async fn a_waiter_is_woken_by_a_free_slot(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    let draft = Draft::wide("p", 3).at_once(1);
    one.run(&draft).await;
    assert_eq!(one.ready(None, 3).await.len(), 1);
    let attempt = one.begin(&draft.task(0)).await;
    assert_eq!(two.ready(None, 1).await, []);
    wakes!(two, woken, mark, "a task that failed", one.fail(&attempt).await);
    let attempt = one.begin(&draft.task(1)).await;
    let row = one.task(&attempt.task).await;
    let pauses = step::owner("pauses", &row, &attempt, vec![Fact::TaskPaused { cause: Cause::Person }]);
    wakes!(two, woken, mark, "a task that paused", one.done(&pauses).await);
    let row = one.take(&draft.task(2)).await.expect("free");
    wakes!(two, woken, mark, "a claim given back", one.done(&step::gives_back("back", &row)).await);
    assert_eq!(two.ready(None, 1).await.len(), 1);
}

/// Whoever waits is let alone when a slot becomes free that nothing can wait for, and when a plan is over.
pub async fn a_slot_that_nothing_waits_for_wakes_nobody(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let two = Rival::up(h, "two", 0).await;
    let draft = Draft::wide("p", 3).at_once(3);
    one.run(&draft).await;
    assert_eq!(one.ready(None, 3).await.len(), 3);
    let mut attempts = Vec::new();
    for n in 0..3 {
        attempts.push(one.begin(&draft.task(n)).await);
    }
    let since = two.mark().await;
    one.fail(&attempts[0]).await;
    let row = one.task(&attempts[1].task).await;
    let pauses = step::owner("pauses", &row, &attempts[1], vec![Fact::TaskPaused { cause: Cause::Person }]);
    one.done(&pauses).await;
    one.fail(&attempts[2]).await;
    one.end(&draft.id(), one.plan(&draft.id()).await.plan.updated_at).await;
    assert_eq!(two.mark().await, since, "there was nothing to look for");
    let retry = step::asks("retry", &attempts[0].task, &[TaskStatus::Failed], step::retry());
    wakes!(two, woken, mark, "a retry", one.done(&retry).await);
}

/// A lock that may be free now.
pub async fn a_waiter_is_woken_by_a_lock_that_changed(h: &dyn Harness) {
    let one = Rival::open(h, "one", 0).await;
    let two = Rival::open(h, "two", 0).await;
    let (acme, by) = (id("acme"), id("Zoë"));
    for _ in 0..10 {
        let lock = one.acquire("acme", "t", LOCK_MS).await.expect("free");
        let held = Held { tenant: id("acme"), task: id("t"), fence: lock.fence };
        wakes!(two, lock_woken, locks_mark, "a release", one.release(&held).await.expect("its own"));
        one.acquire("acme", "t", LOCK_MS).await.expect("free");
        for (what, name) in [(Force::Freeze, "freeze"), (Force::Unfreeze, "unfreeze"), (Force::Release, "force")] {
            let forced = wakes!(two, lock_woken, locks_mark, "a force", {
                one.ports.locks.force(&acme, what, &by, None, None).await
            });
            assert!(forced.is_ok(), "{name}");
        }
    }
}

/// All who wait are woken, not just one.
pub async fn every_waiter_is_woken(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let mut waits = Vec::new();
    for i in 0..crate::world::RIVALS {
        let rival = Rival::up(h, &format!("rival-{i}"), 0).await;
        let since = rival.mark().await;
        waits.push(tokio::spawn(async move { woken(&rival, since, "a plan that starts").await }));
    }
    one.run(&Draft::new("p", &["acme"])).await;
    for wait in waits {
        wait.await.expect("every waiter is woken");
    }
}

/// No wait is an answer at once, and the mark never goes back.
pub async fn a_call_that_does_not_wait_answers_at_once(h: &dyn Harness) {
    let one = Rival::up(h, "one", 0).await;
    let mut last = Mark::default();
    for round in 0..5 {
        let mark = one.ports.state.changed(last, 0).await.expect("changed");
        assert!(mark >= last, "{mark:?} after {last:?}");
        last = mark;
        one.create(&Draft::new(&format!("p-{round}"), &["acme"])).await;
        let seen = one.ports.state.changed(mark, 0).await.expect("changed");
        assert!(seen > mark, "a rival sees its own change at once");
    }
    let mark = one.locks_mark().await;
    assert_eq!(one.ports.locks.changed(mark, 0).await, Ok(mark), "nothing happened");
    // A short wait with nothing to wait for ends by itself.
    let end = tokio::time::timeout(WATCHDOG, one.ports.locks.changed(mark, 1)).await;
    assert!(end.is_ok(), "a wait ends after its limit");
}
