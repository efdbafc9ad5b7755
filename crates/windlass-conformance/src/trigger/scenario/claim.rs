//! Claims: what is due, in order, each to one.

use windlass_core::port::PortError;
use windlass_core::port::trigger::CLAIM_MAX;
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{failed, pause};
use windlass_core::trigger::{Run, Trigger, TriggerStatus};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, LATER_MS, LEASE_MS, asker, claim_of, daily, done, due, ids, once};
use crate::world::BORN;

/// By time, then by id; no more than were asked for.
pub async fn what_is_due_is_claimed_in_order(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let at = |name: &str, ms: u64| once(name, BORN.plus(ms));
    one.add(&[at("d", 2), at("b", 1), at("a", 3), at("B", 1), at("c", 2), at("e", 0), at("a-1", 1)]).await;
    assert_eq!(ids(&one.claim(3).await), ["e", "B", "a-1"]);
    assert_eq!(ids(&one.claim(0).await), [""; 0]);
    assert_eq!(ids(&one.claim(1).await), ["b"]);
    assert_eq!(ids(&one.claim(9).await), ["c", "d", "a"]);
    assert_eq!(ids(&one.claim(9).await), [""; 0], "each once");
}

/// What is returned is what is stored.
pub async fn a_claim_returns_what_it_claimed(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[due("a"), daily("b")]).await;
    let stored = one.everything().await;
    let claimed = one.claim(9).await;
    for (before, claimed) in stored.iter().zip(&claimed) {
        let run = Run {
            status: TriggerStatus::Processing,
            owner: claimed.run.owner.clone(),
            fence: claimed.run.fence,
            lease_until: claimed.run.lease_until,
            ..before.run.clone()
        };
        assert_eq!(*claimed, Trigger { run, version: 2, ..before.clone() });
        assert!(claimed.run.fence > before.run.fence);
    }
    assert_eq!(one.everything().await, claimed);
}

/// By the store's clock, as the one who claims sees it.
pub async fn nothing_is_claimed_before_its_time(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    let soon = one.now().await.plus(LATER_MS / 2);
    one.add(&[once("soon", soon), once("late", soon.plus(LATER_MS))]).await;
    assert_eq!(ids(&one.claim(9).await), [""; 0]);
    assert_eq!(ids(&later.claim(9).await), ["soon"]);
}

/// Only what waits for its time.
pub async fn what_is_paused_held_or_ended_is_not_claimed(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let with = |name: &str, change: fn(&mut Run)| {
        let mut trigger = due(name);
        change(&mut trigger.run);
        trigger
    };
    one.add(&[
        pause(&due("paused"), &asker(BORN)),
        with("held", |run| run.held = true),
        with("dead", |run| run.status = TriggerStatus::Dead),
        with("over", |run| run.status = TriggerStatus::Completed),
        due("waits"),
    ])
    .await;
    assert_eq!(ids(&one.claim(9).await), ["waits"]);
    let paused = one.load("paused").await;
    assert_eq!(one.save(&Trigger { paused: None, ..paused }).await, Ok(2));
    assert_eq!(ids(&one.claim(9).await), ["paused"], "as soon as it may");
}

/// Claimed again after the lease, under a higher fence; that it was tried counts.
pub async fn a_lost_owners_occurrence_is_claimed_again(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[due("t"), daily("u")]).await;
    let lost = one.claim(9).await;
    assert!(one.claim(9).await.is_empty(), "its owner is alive");
    let found = later.claim(9).await;
    assert_eq!(ids(&found), ["t", "u"], "both leases ran out at once: by id");
    for (lost, found) in lost.iter().zip(&found) {
        assert!(found.run.fence > lost.run.fence);
        assert_eq!((found.run.retry_count, found.run.trigger_at), (1, lost.run.trigger_at));
        assert_eq!(found.version, lost.version + 1);
    }
    assert!(one.settle(&lost[0], done(&lost[0], BORN)).await.is_err());
    assert_eq!(later.settle(&found[0], done(&found[0], BORN)).await, Ok(()));
}

/// As long as its owner says so.
pub async fn a_renewed_claim_lasts(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[due("kept"), due("left")]).await;
    let claimed = one.claim(9).await;
    let before = one.now().await;
    let until = one.renew(&claimed[0], 2 * LATER_MS).await.expect("its own");
    assert!(until >= before.plus(2 * LATER_MS));
    let stored = one.load("kept").await;
    assert_eq!((stored.run.lease_until, stored.version), (until, claimed[0].version + 1));
    assert_eq!(ids(&later.claim(9).await), ["left"]);
    let both: Vec<_> = claimed.iter().map(claim_of).collect();
    let answers = one.triggers.renew(&both, 1_000).await.expect("renew");
    assert!(answers[0].is_ok() && answers[1].is_err(), "{answers:?}");
    assert_eq!(one.settle(&claimed[0], done(&claimed[0], BORN)).await, Ok(()), "under the same fence");
}

/// The first that was not claimed: due already, a time to come, or a rival's lease.
pub async fn a_claim_says_when_the_next_one_is(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    assert_eq!(one.claim_due(9).await.next, None);
    let soon = one.now().await.plus(LEASE_MS / 2);
    one.add(&[once("a", BORN), once("b", BORN.plus(5)), once("c", soon), pause(&due("p"), &asker(BORN))]).await;
    assert_eq!(one.claim_due(0).await.next, Some(BORN));
    assert_eq!(one.claim_due(1).await.next, Some(BORN.plus(5)), "it has passed");
    let rest = one.claim_due(9).await;
    assert_eq!((ids(&rest.claimed), rest.next), (vec!["b"], Some(soon)));
    assert!(one.remove("c").await);
    let rival = Client::open(h, "rival").await;
    let next = rival.claim_due(9).await.next;
    assert_eq!(next, Some(one.load("a").await.run.lease_until), "somebody has to look when a lease runs out");
}

/// Up to a time, in order; nothing changes.
pub async fn what_would_be_claimed_is_read_without_claiming(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let at = |name: &str, ms: u64| once(name, BORN.plus(ms));
    one.add(&[at("c", 3), at("b", 2), at("a", 2), at("z", 1), pause(&due("p"), &asker(BORN))]).await;
    let before = one.everything().await;
    let find = async |upto: Ms, limit| one.triggers.find_due(upto, limit).await.expect("find_due");
    assert_eq!(ids(&find(BORN.plus(2), 9).await), ["z", "a", "b"]);
    assert_eq!(ids(&find(Ms::MAX, 2).await), ["z", "a"]);
    assert_eq!(ids(&find(BORN, 9).await), [""; 0]);
    assert_eq!(ids(&find(Ms::MAX, 0).await), [""; 0]);
    assert_eq!(one.everything().await, before);
    assert_eq!(find(Ms::MAX, 1).await[0], before[4]);
    let z = one.take().await;
    assert_eq!(ids(&find(BORN.plus(9), 9).await), ["a", "b", "c"]);
    assert_eq!(ids(&find(z.run.lease_until, 9).await), ["a", "b", "c", "z"], "when its lease has run out");
    one.add(&[at("y", 0)]).await;
    assert_eq!(ids(&find(BORN.plus(2), 9).await), ["y", "a", "b"], "what is due earlier than what was claimed");
}

/// Neither a lease of nothing nor more than a claim may hold.
pub async fn a_claim_has_bounds(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[due("t")]).await;
    for (lease_ms, limit) in [(0, 1), (u64::MAX, 1), (1_000, CLAIM_MAX + 1)] {
        let answer = one.triggers.claim_due(&one.me, lease_ms, limit).await;
        assert!(matches!(answer, Err(PortError::Invalid(_))), "{lease_ms} {limit}: {answer:?}");
    }
    assert!(matches!(one.triggers.find_due(Ms::MAX, CLAIM_MAX + 1).await, Err(PortError::Invalid(_))));
    let owned = one.take().await;
    assert!(matches!(one.triggers.renew(&[claim_of(&owned)], 0).await, Err(PortError::Invalid(_))));
    let failed = failed(&owned, "no", 0, BORN);
    assert_eq!(one.settle(&owned, failed).await, Ok(()));
    assert!(one.triggers.claim_due(&one.me, 1_000, CLAIM_MAX).await.is_ok());
}

async fn alive(client: &Client, lease_ms: u64) -> (Ms, Ms) {
    let due = client.triggers.claim_due(&client.me, lease_ms, 0).await.expect("claim_due");
    (due.alive_since, due.at)
}

/// A gap is where no lease ran.
pub async fn a_scheduler_lives_as_long_as_leases_follow_each_other(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let (since, at) = alive(&one, LATER_MS).await;
    assert_eq!(since, at, "the first begins");
    let half = Client::ahead(h, "one", LATER_MS / 2).await;
    assert_eq!(alive(&half, 1).await.0, since, "within a lease; a short one does not end it");
    let nearly = Client::ahead(h, "one", LATER_MS * 9 / 10).await;
    assert_eq!(alive(&nearly, LATER_MS).await.0, since);
    h.restart().await;
    let beyond = Client::ahead(h, "one", LATER_MS * 18 / 10).await;
    assert_eq!(alive(&beyond, LATER_MS).await.0, since, "over a restart of the store too");
    let gap = Client::ahead(h, "one", LATER_MS * 4).await;
    let (begins, at) = alive(&gap, LATER_MS).await;
    assert_eq!(begins, at, "nobody was there for a while");
    assert!(begins > since);
}

/// Whoever of them lives.
pub async fn two_schedulers_are_one_life(h: &dyn TriggerHarness) {
    let (one, two) = (Client::open(h, "one").await, Client::ahead(h, "two", LATER_MS / 2).await);
    let (since, _) = alive(&one, LATER_MS).await;
    assert_eq!(alive(&two, LATER_MS).await.0, since);
    assert_eq!(alive(&one, 1).await.0, since);
    let later = Client::ahead(h, "one", LATER_MS * 14 / 10).await;
    assert_eq!(alive(&later, 1).await.0, since, "the other one's lease has bridged it");
}
