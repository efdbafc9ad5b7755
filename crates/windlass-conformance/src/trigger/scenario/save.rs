//! What people write.

use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::port::Refusal;
use windlass_core::port::trigger::Save;
use windlass_core::trigger::rules::{create, pause, replace};
use windlass_core::trigger::{PAYLOAD_BYTES_MAX, Trigger, TriggerSpec, TriggerStatus};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, LATER_MS, asker, daily, done, due, note, spec};
use crate::world::{BORN, id};

/// Every kind of schedule, of target and of payload; every field another than its default.
fn kinds() -> Vec<TriggerSpec> {
    [
        r#"{"schedule":{"at":"2026-12-24T18:00:00Z"},"target":{"job":{"queue":"q"}}}"#,
        r#"{"schedule":{"after":"90s"},"target":{"plan":{"z":1,"a":[1e400,"\u00e9 é"]}},"payload":null}"#,
        r#"{"schedule":{"every":"5m"},"target":{"operation":{"do":"freeze","on":{"tenant":"acme"}}},"misfire":"skip"}"#,
        r#"{"schedule":{"every":"1d","from":"2026-01-01T06:00:00Z"},"misfire":{"catch_up":{"max":7}},
            "target":{"http":{"method":"GET","url":"https://x/?a=b","headers":{"a":"b"},"timeoutMs":7}},
            "recovery":"held","overlap":"skip","maxRetries":9,"backoff":{"firstMs":5,"maxMs":6}}"#,
        r#"{"schedule":{"cron":"0 9 * * mon-fri","zone":"Europe/Berlin"},"tenant":"acme","payload":{"n":12345678901234567890},
            "target":{"job":{"queue":"q","priority":-7,"maxAttempts":5,"timeoutMs":1,"backoff":{"firstMs":7,"maxMs":8}}}}"#,
    ]
    .map(|text| serde_json::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}")))
    .to_vec()
}

/// What is saved comes back as it was given, in its first version.
pub async fn a_saved_trigger_is_read_back_as_it_was_given(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    for (n, spec) in kinds().into_iter().enumerate() {
        let name = format!("kind-{n}");
        let mut new = create(id(&name), spec, BORN).expect("it fires");
        new.paused = (n % 2 == 0).then(|| asker(BORN));
        new.parent = (n % 2 == 1).then(|| id("parent"));
        one.add(std::slice::from_ref(&new)).await;
        assert_eq!(one.load(&name).await, Trigger { version: 1, ..new });
    }
    assert_eq!(one.find("nobody").await, None);
    let names = ["kind-1", "nobody", "kind-0", "kind-1"].map(id);
    let found = one.triggers.load(&names).await.expect("load");
    let found: Vec<_> = found.iter().map(|found| found.as_ref().map(|found| found.id.as_str())).collect();
    assert_eq!(found, [Some("kind-1"), None, Some("kind-0"), Some("kind-1")]);
}

/// A new one must not be there; another must be the one that was read.
pub async fn a_save_is_judged_by_its_version(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let new = daily("t");
    assert_eq!(one.save(&new).await, Ok(1));
    assert!(matches!(one.save(&new).await, Err(Refusal::Exists(_))));
    let read = one.load("t").await;
    let changed = replace(&read, spec(r#"{"every": "2d"}"#), BORN).expect("it fires");
    assert_eq!(one.save(&changed).await, Ok(2));
    assert_eq!(one.save(&changed).await, Err(Refusal::Version { given: 1, stored: 2 }));
    assert_eq!(one.load("t").await, Trigger { version: 2, ..changed });
    assert!(matches!(one.save(&Trigger { version: 1, ..daily("u") }).await, Err(Refusal::NotFound(_))));
    let forged =
        Trigger { run: windlass_core::trigger::Run { fence: Fence(u64::MAX), ..new.run.clone() }, ..daily("v") };
    assert_eq!(one.save(&forged).await, Ok(1));
    assert_eq!(one.load("v").await.run.fence, Fence::NONE, "fences are the store's");
}

/// One refusal is one item's.
pub async fn saves_of_one_call_are_judged_one_by_one(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let save = |trigger: Trigger| Save { trigger, notes: vec![note(1)] };
    let again = Trigger { version: 1, ..daily("a") };
    let saves =
        [save(daily("a")), save(daily("a")), save(daily("b")), save(again), save(Trigger { version: 7, ..due("c") })];
    let answers = one.triggers.save(&saves).await.expect("save");
    assert_eq!((&answers[0], &answers[2], &answers[3]), (&Ok(1), &Ok(1), &Ok(2)), "in order");
    assert!(matches!((&answers[1], &answers[4]), (Err(Refusal::Exists(_)), Err(Refusal::NotFound(_)))), "{answers:?}");
    assert_eq!((one.notes("a").await.len(), one.notes("b").await.len(), one.find("c").await), (2, 1, None));
}

/// While somebody carries it out, only `paused` may change.
pub async fn nobody_writes_under_an_owner_but_a_pause(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[daily("t")]).await;
    let owned = one.take().await;
    let changed = replace(&owned, spec(r#"{"every": "2d"}"#), BORN).expect("it fires");
    let refused = one.save(&changed).await;
    let until = owned.run.lease_until;
    assert_eq!(refused, Err(Refusal::Owned { owner: Some(id("one")), until }));
    assert_eq!(one.load("t").await, owned, "nothing was written");
    let paused = pause(&owned, &asker(BORN));
    assert_eq!(one.save(&paused).await, Ok(owned.version + 1));
    let later = Client::ahead(h, "later", LATER_MS).await;
    assert!(later.claim(9).await.is_empty(), "a paused one is not claimed again, not even from a lost owner");
    let at = one.now().await;
    assert_eq!(one.settle(&owned, done(&owned, at)).await, Ok(()), "what is being carried out ends first");
    assert_eq!(one.load("t").await.paused, paused.paused);
}

/// A person's write over an owner who was not heard of again: what that one says later is stale.
pub async fn what_is_taken_from_a_lost_owner_is_not_settled_by_it(h: &dyn TriggerHarness) {
    let (one, later) = (Client::open(h, "one").await, Client::ahead(h, "later", LATER_MS).await);
    one.add(&[daily("t")]).await;
    let owned = one.take().await;
    let changed = replace(&owned, spec(r#"{"every": "2d"}"#), later.now().await).expect("it fires");
    assert_eq!(later.save(&changed).await, Ok(owned.version + 1));
    let saved = one.load("t").await;
    assert!(saved.run.fence > owned.run.fence, "{:?} after {:?}", saved.run.fence, owned.run.fence);
    assert_eq!((saved.run.status, saved.run.owner.as_ref()), (TriggerStatus::Pending, None));
    let stale = Refusal::Stale { given: owned.run.fence, stored: saved.run.fence };
    assert_eq!(one.settle(&owned, done(&owned, BORN)).await, Err(stale.clone()));
    assert_eq!(one.renew(&owned, 1_000).await, Err(stale));
    assert_eq!(one.load("t").await, saved);
}

/// What is too large is refused, and nothing else.
pub async fn what_is_beyond_its_bounds_is_refused(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let sized = |name: &str, bytes: usize| {
        let mut trigger = due(name);
        trigger.spec.payload = Some(Json::of(&"x".repeat(bytes - 2)).expect("JSON"));
        Save { trigger, notes: Vec::new() }
    };
    let saves = [sized("fits", PAYLOAD_BYTES_MAX), sized("not", PAYLOAD_BYTES_MAX + 1)];
    let answers = one.triggers.save(&saves).await.expect("save");
    assert!(matches!(&answers[..], [Ok(1), Err(Refusal::Invalid(_))]), "{answers:?}");
    assert_eq!(one.find("not").await, None);
}

/// Removed once, whoever carries it out; what comes after it is another one.
pub async fn a_removed_trigger_is_gone_with_its_notes(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.save_with(&daily("t"), &[note(1), note(2)]).await.expect("new");
    one.add(&[daily("u")]).await;
    let owned = one.take().await;
    assert_eq!(owned.id.as_str(), "t");
    let removed = one.triggers.remove(&["t", "nobody", "t"].map(id)).await.expect("remove");
    assert_eq!(removed, [true, false, false]);
    assert!(!one.remove("t").await, "false the second time");
    assert_eq!((one.find("t").await, one.notes("t").await), (None, vec![]));
    assert!(matches!(one.settle(&owned, done(&owned, BORN)).await, Err(Refusal::NotFound(_))));
    assert!(matches!(one.renew(&owned, 1_000).await, Err(Refusal::NotFound(_))));
    assert_eq!(one.save(&daily("t")).await, Ok(1), "its name is free");
    assert!(matches!(one.settle(&owned, done(&owned, BORN)).await, Err(Refusal::Stale { .. })));
    assert_eq!(one.notes("t").await, []);
    assert_eq!(one.everything().await.len(), 2);
}
