//! Lists and notes.

use windlass_core::port::trigger::TriggerFilter;
use windlass_core::port::{BATCH_MAX, Cursor, PAGE_MAX, PortError};
use windlass_core::trigger::{NOTES_MAX, Run, Trigger, TriggerStatus};

use crate::trigger::TriggerHarness;
use crate::trigger::world::{Client, asker, claim_of, daily, done, due, ids, note};
use crate::world::{BORN, id};

/// By id, byte by byte, whatever the pages.
pub async fn triggers_are_listed_by_id(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let names = ["b", "a", "B", "a-1", "a_1", "a1", "Z", "0", "aa", "-"];
    one.add(&names.map(daily)).await;
    let mut sorted = names;
    sorted.sort_unstable();
    for limit in [1, 2, 3, 10, 1_000] {
        assert_eq!(ids(&one.list(&TriggerFilter::default(), limit).await), sorted, "in pages of {limit}");
    }
    let first = one.triggers.list(&TriggerFilter::default(), None, 4).await.expect("list");
    one.remove("Z").await;
    one.add(&["!a".replace('!', "0"), "zz".to_owned()].map(|name| daily(&name))).await;
    let mut seen: Vec<String> = ids(&first.items).into_iter().map(str::to_owned).collect();
    let mut after = first.next;
    while let Some(cursor) = after {
        let page = one.triggers.list(&TriggerFilter::default(), Some(&cursor), 4).await.expect("list");
        seen.extend(ids(&page.items).into_iter().map(str::to_owned));
        after = page.next;
    }
    for name in sorted.iter().filter(|name| **name != "Z") {
        assert_eq!(seen.iter().filter(|seen| seen == name).count(), 1, "{name} was there all the time: {seen:?}");
    }
}

/// Triggers of every standing and of two tenants.
async fn every_kind(h: &dyn TriggerHarness) -> (Client, Vec<Trigger>) {
    let one = Client::open(h, "one").await;
    let mut all = Vec::new();
    for status in TriggerStatus::ALL {
        for tenant in [None, Some("acme"), Some("Acme")] {
            for kind in ["plain", "paused", "held"] {
                let name = format!("{status}-{}-{kind}", tenant.unwrap_or("none"));
                let mut trigger = due(&name);
                trigger.spec.tenant = tenant.map(id);
                trigger.paused = (kind == "paused").then(|| asker(BORN));
                let held = kind == "held" && status == TriggerStatus::Pending;
                trigger.run = Run { status, held, ended_at: status.is_ended().then_some(BORN), ..trigger.run };
                all.push(trigger);
            }
        }
    }
    one.add(&all).await;
    all.iter_mut().for_each(|trigger| trigger.version = 1);
    all.sort_by(|a, b| a.id.cmp(&b.id));
    (one, all)
}

/// Each alone and together.
pub async fn every_filter_lets_through_what_it_says(h: &dyn TriggerHarness) {
    let (one, all) = every_kind(h).await;
    for tenant in [None, Some("acme"), Some("nobody")] {
        for statuses in [vec![], vec![TriggerStatus::Dead], vec![TriggerStatus::Pending, TriggerStatus::Completed]] {
            for waiting in [false, true] {
                let filter = TriggerFilter { tenant: tenant.map(id), statuses: statuses.clone(), waiting };
                let fits = |trigger: &&Trigger| {
                    (tenant.is_none() || trigger.spec.tenant == filter.tenant)
                        && (statuses.is_empty() || statuses.contains(&trigger.run.status))
                        && (!waiting || trigger.run.held || trigger.run.status == TriggerStatus::Dead)
                };
                let expected: Vec<Trigger> = all.iter().filter(fits).cloned().collect();
                for limit in [2, PAGE_MAX] {
                    assert_eq!(one.list(&filter, limit).await, expected, "{filter:?}");
                }
            }
        }
    }
}

/// Held and dead ones, until a person has done something about them.
pub async fn what_waits_for_a_person_is_listed(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    one.add(&[due("a"), due("b"), due("c"), daily("d")]).await;
    let waiting = TriggerFilter { waiting: true, ..TriggerFilter::default() };
    assert_eq!(ids(&one.list(&waiting, 9).await), [""; 0]);
    let owned = one.claim(3).await;
    for (owned, run) in owned.iter().zip([
        Run { held: true, status: TriggerStatus::Pending, owner: None, ..owned[0].run.clone() },
        Run { status: TriggerStatus::Dead, owner: None, ended_at: Some(BORN), ..owned[1].run.clone() },
        Run { status: TriggerStatus::Completed, owner: None, ended_at: Some(BORN), ..owned[2].run.clone() },
    ]) {
        let outcome = windlass_core::trigger::rules::Outcome { run, child: None, notes: Vec::new() };
        assert_eq!(one.settle(owned, outcome).await, Ok(()));
    }
    assert_eq!(ids(&one.list(&waiting, 1).await), ["a", "b"]);
    let held = one.load("a").await;
    let (fired, _) = windlass_core::trigger::rules::fire(&held, &asker(BORN)).expect("held");
    assert!(one.save(&fired).await.is_ok());
    assert_eq!(ids(&one.list(&waiting, 9).await), ["b"]);
    assert!(one.remove("b").await);
    assert_eq!(ids(&one.list(&waiting, 9).await), [""; 0]);
    assert_eq!(ids(&one.claim(9).await), ["a", "d"], "and what was fired is due");
}

/// Wrong calls are said to be wrong.
pub async fn bad_limits_cursors_and_batches_are_refused(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let all = TriggerFilter::default();
    for limit in [0, PAGE_MAX + 1] {
        assert!(matches!(one.triggers.list(&all, None, limit).await, Err(PortError::Invalid(_))));
    }
    for cursor in ["", "x", "e", "e0", "trigger", "trigger.a b", "\u{0}", "e6g"] {
        let answer = one.triggers.list(&all, Some(&Cursor(cursor.to_owned())), 9).await;
        assert!(matches!(answer, Err(PortError::Invalid(_)) | Ok(_)), "{cursor:?}: {answer:?}");
    }
    let names = vec![id("t"); BATCH_MAX + 1];
    assert!(matches!(one.triggers.load(&names).await, Err(PortError::Invalid(_))));
    assert!(matches!(one.triggers.remove(&names).await, Err(PortError::Invalid(_))));
    let trigger = due("t");
    let claims = vec![claim_of(&trigger); BATCH_MAX + 1];
    assert!(matches!(one.triggers.renew(&claims, 1).await, Err(PortError::Invalid(_))));
    let settles = vec![(claim_of(&trigger), done(&trigger, BORN)); BATCH_MAX + 1];
    assert!(matches!(one.triggers.settle(&settles).await, Err(PortError::Invalid(_))));
    assert_eq!(one.triggers.settle(&[]).await, Ok(vec![]));
    assert_eq!(one.triggers.save(&[]).await, Ok(vec![]));
}

/// As many as are kept, the oldest first, whoever wrote them.
pub async fn notes_are_the_newest(h: &dyn TriggerHarness) {
    let one = Client::open(h, "one").await;
    let notes: Vec<_> = (0..3 * NOTES_MAX as u64).map(note).collect();
    one.save_with(&daily("t"), &notes[..3]).await.expect("new");
    one.save_with(&daily("u"), &notes).await.expect("new");
    assert_eq!(one.notes("t").await, notes[..3]);
    assert_eq!(one.notes("u").await, notes[2 * NOTES_MAX..], "many at once");
    for many in [1, NOTES_MAX - 4, 7] {
        let read = one.load("t").await;
        one.save_with(&read, &notes[..many]).await.expect("its version");
    }
    let told = one.notes("t").await;
    assert_eq!((told.len(), &told[NOTES_MAX - 7..]), (NOTES_MAX, &notes[..7]));
    let owned = one.claim(9).await.remove(0);
    assert_eq!(one.settle(&owned, done(&owned, BORN)).await, Ok(()));
    let after = one.notes("t").await;
    assert_eq!((after.len(), &after[..NOTES_MAX - 1]), (NOTES_MAX, &told[1..]));
    assert_eq!(one.notes("nobody").await, []);
}
