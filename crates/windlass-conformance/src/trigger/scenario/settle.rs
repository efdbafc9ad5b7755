//! What claimed occurrences come to.

use windlass_core::fence::Fence;
use windlass_core::port::Refusal;
use windlass_core::trigger::rules::{Judged, Outcome, failed, judge_claimed, pause, put_back};
use windlass_core::trigger::{Noted, Run, Trigger, TriggerStatus};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, DAY_MS, LATER_MS, LEASE_MS, asker, claim_of, daily, done, due, ids, made};
use crate::world::BORN;

/// A recurring one waits for its next time, a single one is over.
pub async fn what_fired_goes_on_or_ends(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("daily"), due("once")]).await;
    for owned in one.claim(9).await {
        let outcome = done(&owned, owned.run.trigger_at);
        assert_eq!(one.settle(&owned, outcome.clone()).await, Ok(()));
        let stored = one.load(owned.id.as_str()).await;
        assert_eq!(stored, Trigger { run: outcome.run, version: owned.version + 1, ..owned.clone() });
        assert_eq!((stored.run.owner, stored.run.made), (None, Some(made())));
        assert_eq!(one.notes(owned.id.as_str()).await, outcome.notes);
    }
    let next = one.load("daily").await;
    assert_eq!((next.run.status, next.run.trigger_at), (TriggerStatus::Pending, BORN.plus(2 * DAY_MS)));
    assert_eq!(one.load("once").await.run.status, TriggerStatus::Completed);
    assert_eq!(ids(&one.claim(9).await), ["daily"], "its next time has passed too");
}

/// Tried again after a pause, as the same occurrence.
pub async fn what_failed_comes_again_at_its_time(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[due("t")]).await;
    let owned = one.take().await;
    let now = one.now().await;
    let outcome = failed(&owned, "no such address", 0, now.plus(LEASE_MS));
    assert_eq!(one.settle(&owned, outcome).await, Ok(()));
    assert!(one.claim(9).await.is_empty(), "it waits for its pause");
    let again = later.take().await;
    assert_eq!((again.run.retry_count, again.run.trigger_at), (1, BORN));
    assert_eq!(again.run.error.as_deref(), Some("no such address"));
    assert_eq!(later.settle(&again, put_back(&again, BORN)).await, Ok(()));
    assert_eq!(one.take().await.run.retry_count, 1, "what is put back was not tried");
}

/// A pause asked for meanwhile stays, and so does everything people said.
pub async fn a_settle_keeps_what_people_say(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("t")]).await;
    let owned = one.take().await;
    let paused = pause(&one.load("t").await, &asker(BORN));
    assert!(one.save(&paused).await.is_ok());
    assert_eq!(one.settle(&owned, done(&owned, BORN)).await, Ok(()));
    let stored = one.load("t").await;
    assert_eq!((&stored.paused, &stored.spec, stored.saved_at), (&paused.paused, &owned.spec, owned.saved_at));
    assert_eq!((stored.run.status, stored.version), (TriggerStatus::Pending, paused.version + 2));
    assert!(one.claim(9).await.is_empty());
}

/// The answer was lost: it is given again, and nothing changes.
pub async fn a_repeated_settle_is_answered_as_before(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("t")]).await;
    let owned = one.take().await;
    let outcome = done(&owned, BORN);
    assert_eq!(one.settle(&owned, outcome.clone()).await, Ok(()));
    let stored = one.load("t").await;
    assert_eq!(one.settle(&owned, outcome.clone()).await, Ok(()));
    assert_eq!(one.settle(&owned, failed(&owned, "no", 0, BORN)).await, Ok(()), "the first one stands");
    assert_eq!((one.load("t").await, one.notes("t").await), (stored, outcome.notes));
    assert!(matches!(one.renew(&owned, 1_000).await, Err(Refusal::State { status: "PENDING", .. })));
}

/// An occurrence is named before it is carried out; the lease goes on as it was renewed.
pub async fn a_repeated_first_write_changes_nothing(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("t")]).await;
    let owned = one.take().await;
    let now = one.now().await;
    let Judged::Fire(Some(first)) = judge_claimed(&owned, now, 0, now) else { panic!("many were missed") };
    let until = one.renew(&owned, 2 * LATER_MS).await.expect("its own");
    assert_eq!(one.settle(&owned, first.clone()).await, Ok(()));
    let stored = one.load("t").await;
    assert_eq!((stored.run.trigger_at, stored.run.lease_until), (first.run.trigger_at, until));
    assert_eq!((stored.run.status, stored.run.owner.as_ref()), (TriggerStatus::Processing, Some(&one.me)));
    assert_eq!(one.settle(&owned, first.clone()).await, Ok(()));
    assert_eq!((one.load("t").await, one.notes("t").await), (stored.clone(), first.notes));
    assert_eq!(one.settle(&owned, done(&stored, now)).await, Ok(()), "under the same fence");
    assert_eq!(one.notes("t").await.len(), 2);
}

/// Nothing is accepted under an old fence.
pub async fn what_comes_late_is_refused(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[daily("t")]).await;
    let late = one.take().await;
    let owned = later.take().await;
    let stale = Refusal::Stale { given: late.run.fence, stored: owned.run.fence };
    assert_eq!(one.settle(&late, done(&late, BORN)).await, Err(stale.clone()));
    assert_eq!(one.renew(&late, 1_000).await, Err(stale.clone()));
    assert_eq!(one.load("t").await, owned);
    assert_eq!(later.settle(&owned, done(&owned, BORN)).await, Ok(()));
    assert_eq!(one.settle(&late, done(&late, BORN)).await, Err(stale), "not after it was settled either");
    assert_eq!(one.notes("t").await.len(), 1);
    let nobody = Trigger { id: "nobody".parse().expect("an id"), ..late };
    assert!(matches!(one.settle(&nobody, done(&nobody, BORN)).await, Err(Refusal::NotFound(_))));
}

/// What a claimed occurrence that fails for the last time comes to.
fn dies(owned: &Trigger) -> Outcome {
    let last = Trigger { run: Run { retry_count: owned.spec.max_retries, ..owned.run.clone() }, ..owned.clone() };
    let outcome = failed(&last, "no", 0, BORN);
    assert!(outcome.child.is_some(), "a recurring trigger leaves its dead occurrence behind");
    outcome
}

/// Whole or not at all.
pub async fn a_child_is_written_with_its_parents_step(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[daily("t")]).await;
    let late = one.take().await;
    let owned = later.take().await;
    assert!(one.settle(&late, dies(&late)).await.is_err());
    assert_eq!(one.everything().await.len(), 1, "a step that is refused leaves nothing");
    let outcome = dies(&owned);
    assert_eq!(later.settle(&owned, outcome.clone()).await, Ok(()));
    let child = outcome.child.clone().expect("a child");
    assert_eq!(one.load(child.id.as_str()).await, Trigger { version: 1, ..child.clone() });
    assert_eq!(child.run.status, TriggerStatus::Dead);
    assert_eq!(one.load("t").await.run, outcome.run);
    assert!(matches!(one.notes("t").await[0].what, Noted::Died(_)));
    assert!(one.remove(child.id.as_str()).await);
    assert_eq!(later.settle(&owned, outcome).await, Ok(()), "a repeat");
    assert_eq!(one.find(child.id.as_str()).await, None, "changes nothing");
}

/// A person fired the occurrence before: that is the one.
pub async fn a_child_that_is_there_stays_as_it_is(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("t")]).await;
    let owned = one.take().await;
    let outcome = dies(&owned);
    let mut there = outcome.child.clone().expect("a child");
    there.run = Run { error: Some("another one".to_owned()), fence: Fence::NONE, ..there.run };
    one.add(std::slice::from_ref(&there)).await;
    assert_eq!(one.settle(&owned, outcome.clone()).await, Ok(()));
    assert_eq!(one.load(there.id.as_str()).await, Trigger { version: 1, ..there });
    assert_eq!(one.load("t").await.run, outcome.run);
}

/// Each judged on its own, after those before it.
pub async fn settles_of_one_call_are_taken_in_order(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("a"), daily("b"), daily("c")]).await;
    let owned = one.claim(9).await;
    let gone = one.remove("b").await;
    let first = Run { trigger_at: BORN.plus(1), ..owned[0].run.clone() };
    let first = Outcome { run: first, child: None, notes: Vec::new() };
    let of = |n: usize, outcome: Outcome| (claim_of(&owned[n]), outcome);
    let all = [
        of(0, first),
        of(1, done(&owned[1], BORN)),
        of(2, done(&owned[2], BORN)),
        of(0, failed(&owned[0], "no", 0, BORN)),
        of(0, done(&owned[0], BORN)),
    ];
    let answers = one.triggers.settle(&all).await.expect("settle");
    let fine: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!((gone, fine), (true, vec![true, false, true, true, true]));
    let stored = one.load("a").await;
    assert_eq!((stored.run.error.as_deref(), stored.version), (Some("no"), owned[0].version + 2));
    assert_eq!(one.load("c").await.run.made, Some(made()));
}
