//! Wake-ups: schedulers are told that something may be due earlier than they know. Somebody waits for a minute at most;
//! the watchdog barks long before, so that a lost wake-up is seen.

use std::time::Duration;

use windlass_core::port::{Mark, WAIT_MS_MAX};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, daily, due};
use crate::world::RIVALS;

const WATCHDOG: Duration = Duration::from_secs(20);

async fn woken(client: &Client, since: Mark) -> Mark {
    let changed = tokio::time::timeout(WATCHDOG, client.triggers.changed(since, WAIT_MS_MAX)).await;
    let mark = changed.expect("nobody was woken").expect("changed");
    assert!(mark > since, "the mark moves: {mark:?} after {since:?}");
    mark
}

/// A new one and a changed one, saved by another.
pub async fn a_scheduler_is_woken_by_a_save(h: &dyn TriggerHarness) {
    let (waiter, person) = (Client::open(h, "waiter").await, Client::open(h, "person").await);
    let mut since = waiter.mark().await;
    for version in 0..3 {
        let waits = tokio::spawn({
            let waiter = waiter.clone();
            async move { woken(&waiter, since).await }
        });
        // Gives the waiter a chance to be there first; either order must do.
        tokio::task::yield_now().await;
        let saved = windlass_core::trigger::Trigger { version, ..daily("t") };
        assert_eq!(person.save(&saved).await, Ok(version + 1));
        since = waits.await.expect("a waiter does not panic");
    }
}

/// All of them.
pub async fn everybody_who_waits_is_woken(h: &dyn TriggerHarness) {
    let person = Client::open(h, "person").await;
    let mut waits = Vec::new();
    for n in 0..RIVALS {
        let waiter = Client::open(h, &format!("waiter-{n}")).await;
        let since = waiter.mark().await;
        waits.push(tokio::spawn(async move { woken(&waiter, since).await }));
    }
    person.add(&[due("t")]).await;
    for waits in waits {
        waits.await.expect("a waiter does not panic");
    }
}

/// No wait is an answer at once, and the mark never goes back.
pub async fn a_call_that_does_not_wait_answers_at_once(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let mut last = one.mark().await;
    for n in 0..5 {
        assert_eq!(one.triggers.changed(last, 0).await, Ok(last), "nothing happened");
        one.add(&[due(&format!("t-{n}"))]).await;
        let seen = one.triggers.changed(last, 0).await.expect("changed");
        assert!(seen > last, "a rival sees its own change at once");
        last = seen;
    }
    let end = tokio::time::timeout(WATCHDOG, one.triggers.changed(last, 1)).await;
    assert_eq!(end.expect("a wait ends after its limit"), Ok(last));
}
