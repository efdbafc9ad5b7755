//! What is kept and what is forgotten: restarts and retention.

use windlass_core::time::Ms;
use windlass_core::trigger::{Run, Trigger, TriggerStatus};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, LATER_MS, asker, daily, done, due, ids, note, once};
use crate::world::BORN;

/// Triggers of every standing are there again, as they were.
pub async fn everything_is_there_after_a_restart(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("a"), due("b"), due("c"), due("d")]).await;
    let owned = one.claim(3).await;
    one.settle(&owned[0], done(&owned[0], BORN)).await.expect("its own");
    let mut paused = one.load("d").await;
    paused.paused = Some(asker(BORN));
    one.save_with(&paused, &[note(1), note(2)]).await.expect("its version");
    let before = (one.everything().await, one.notes("d").await, one.notes("a").await);
    let found = one.triggers.find_due(Ms::MAX, 9).await.expect("find_due");
    h.restart().await;
    let one = Client::open(h, "one").await;
    assert_eq!((one.everything().await, one.notes("d").await, one.notes("a").await), before);
    assert_eq!(one.triggers.find_due(Ms::MAX, 9).await, Ok(found));
}

/// A scheduler goes on over a restart of the store; so do leases, fences and the order.
pub async fn work_goes_on_after_a_restart(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("a"), daily("b"), once("z", BORN.plus(1))]).await;
    let owned = one.claim(2).await;
    h.restart().await;
    let one = Client::open(h, "one").await;
    assert_eq!(ids(&owned), ["z", "a"]);
    assert_eq!(ids(&one.claim(9).await), ["b"], "what was claimed is claimed");
    assert_eq!(one.settle(&owned[1], done(&owned[1], BORN)).await, Ok(()));
    h.restart().await;
    let one = Client::open(h, "one").await;
    assert_eq!(one.settle(&owned[1], done(&owned[1], BORN)).await, Ok(()), "a repeat over a restart");
    assert_eq!(one.notes("a").await.len(), 1);
    let again = Client::ahead(h, "later", LATER_MS).await.claim(9).await;
    assert_eq!(ids(&again)[0], "a", "its next time comes before what leases hold");
    assert_eq!(again.len(), 3);
    assert!(again.iter().all(|again| owned.iter().all(|owned| again.run.fence > owned.run.fence)));
}

/// By the end; never what is live, never what waits for a person.
pub async fn a_purge_forgets_what_ended_before(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let ended = |name: &str, status, ms: u64| {
        let trigger = due(name);
        let run = Run { status, ended_at: Some(BORN.plus(ms)), ..trigger.run };
        Trigger { run, ..trigger }
    };
    let over = TriggerStatus::Completed;
    one.add(&[ended("b", over, 5), ended("a", over, 7), ended("c", over, 6), ended("e", over, 8), due("live")]).await;
    one.add(&[ended("dead", TriggerStatus::Dead, 1), once("next-year", Ms::MAX)]).await;
    one.add(&[ended("again", over, 1)]).await;
    one.save_with(&one.load("b").await, &[note(1)]).await.expect("its version");
    let revived = Trigger { run: Run { ended_at: None, ..due("again").run }, version: 1, ..due("again") };
    one.save(&revived).await.expect("its version");
    assert_eq!(one.triggers.purge(BORN.plus(5), 9).await, Ok(0));
    assert_eq!(one.triggers.purge(BORN.plus(8), 0).await, Ok(0));
    assert_eq!(one.triggers.purge(BORN.plus(8), 2).await, Ok(2), "the oldest ends first, as many as asked");
    assert_eq!(ids(&one.everything().await), ["a", "again", "dead", "e", "live", "next-year"]);
    assert_eq!(one.notes("b").await, [], "with their notes");
    assert_eq!(one.triggers.purge(BORN.plus(8), 9).await, Ok(1));
    assert_eq!(one.triggers.purge(Ms::MAX, 9).await, Ok(1));
    assert_eq!(ids(&one.everything().await), ["again", "dead", "live", "next-year"]);
    assert_eq!(one.save(&ended("b", over, 3)).await, Ok(1), "its name is free");
    assert_eq!(one.triggers.purge(Ms::MAX, 9).await, Ok(1), "also what ended before what is gone");
}

/// In pieces, until nothing is left.
pub async fn many_are_forgotten_in_batches(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let many: Vec<Trigger> = (0..250).map(|n| once(&format!("t-{n}"), BORN.plus(n % 7))).collect();
    one.add(&many).await;
    for owned in one.claim(250).await {
        one.settle(&owned, done(&owned, BORN)).await.expect("its own");
    }
    let mut gone = Vec::new();
    while gone.last() != Some(&0) {
        gone.push(one.triggers.purge(Ms::MAX, 100).await.expect("purge"));
    }
    assert_eq!(gone, [100, 100, 50, 0]);
    assert!(one.everything().await.is_empty());
}
