//! Odd sizes, names and times.

use windlass_core::json::Json;
use windlass_core::time::Ms;
use windlass_core::trigger::{PAYLOAD_BYTES_MAX, Trigger};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, LATER_MS, daily, done, due, ids, once, spec};
use crate::world::BORN;

/// A large payload is there after every step, and goes when another comes.
pub async fn a_mebibyte_is_kept_through_its_occurrences(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let mut new = daily("t");
    let large = Json::of(&"x".repeat(PAYLOAD_BYTES_MAX - 2)).expect("JSON");
    new.spec.payload = Some(large.clone());
    one.add(std::slice::from_ref(&new)).await;
    for _ in 0..2 {
        let owned = one.take().await;
        assert_eq!(owned.spec.payload.as_ref(), Some(&large));
        one.settle(&owned, done(&owned, BORN)).await.expect("its own");
    }
    h.restart().await;
    let one = Client::open(h, "one").await;
    let stored = one.load("t").await;
    assert_eq!(stored.spec, new.spec);
    let small = Trigger { spec: spec(r#"{"every": "1d"}"#), ..stored };
    one.save(&small).await.expect("its version");
    assert_eq!(one.load("t").await.spec, small.spec);
}

/// Cases are told apart; no name is the beginning of another.
pub async fn names_are_kept_apart(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let long = "x".repeat(64);
    let names = ["t", "T", "t-1", "t-10", "t1", "_", "-", &long];
    one.add(&names.map(daily)).await;
    for name in names {
        one.save_with(&one.load(name).await, &[crate::trigger::world::note(name.len() as u64)]).await.expect("stored");
    }
    for name in names {
        assert_eq!(one.notes(name).await.len(), 1, "{name}");
        assert!(one.remove(name).await);
        assert_eq!((one.find(name).await, one.notes(name).await), (None, vec![]));
    }
    assert!(one.claim(99).await.is_empty());
}

/// The last day there is.
pub async fn the_far_future_does_not_wrap(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[once("never", Ms::MAX), once("ever", Ms::ZERO)]).await;
    let due = later.claim_due(9).await;
    assert_eq!((ids(&due.claimed), due.next), (vec!["ever"], Some(Ms::MAX)));
    assert_eq!(one.load("never").await.run.trigger_at, Ms::MAX);
    let found = one.triggers.find_due(Ms::MAX, 9).await.expect("find_due");
    assert_eq!(ids(&found), ["ever", "never"]);
}

/// All of them at the same millisecond, claimed and settled piece by piece.
pub async fn many_at_one_moment_are_claimed_in_pieces(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&(0..300).map(|n| due(&format!("t-{n:03}"))).collect::<Vec<_>>()).await;
    let mut seen = Vec::new();
    loop {
        let piece = one.claim(70).await;
        if piece.is_empty() {
            break;
        }
        let settles: Vec<_> =
            piece.iter().map(|owned| (crate::trigger::world::claim_of(owned), done(owned, BORN))).collect();
        let settled = one.triggers.settle(&settles).await.expect("settle");
        assert!(settled.iter().all(Result::is_ok));
        seen.extend(piece.into_iter().map(|owned| owned.id.to_string()));
    }
    let sorted: Vec<String> = (0..300).map(|n| format!("t-{n:03}")).collect();
    assert_eq!(seen, sorted);
}
