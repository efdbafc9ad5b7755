//! The same of triggers.

use std::collections::BTreeMap;

use windlass_core::port::PAGE_MAX;
use windlass_core::port::trigger::{CLAIM_MAX, TriggerFilter, Triggers};
use windlass_core::time::Ms;
use windlass_core::trigger::{Noted, Trigger, TriggerStatus};
use windlass_store_embedded::Embedded;

use crate::crash::Acknowledged;
use crate::work::id;

/// As long as the leases of the writers.
const LEASE_MS: u64 = 9_000_000;

pub(super) async fn check(store: &Embedded, acknowledged: &Acknowledged, tables: &BTreeMap<char, usize>) {
    let stored = all(store).await;
    has(&stored, acknowledged);
    is_whole(store, &stored, tables).await;
    goes_on(store, &stored).await;
}

async fn all(store: &Embedded) -> BTreeMap<String, Trigger> {
    let (mut found, mut after) = (BTreeMap::new(), None);
    loop {
        let page = Triggers::list(store, &TriggerFilter::default(), after.as_ref(), PAGE_MAX).await.unwrap();
        for trigger in page.items {
            let twice = found.insert(trigger.id.to_string(), trigger);
            assert!(twice.is_none(), "{twice:?} is listed twice");
        }
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// Everything that was acknowledged. Whoever had it last may have gone one write further.
fn has(stored: &BTreeMap<String, Trigger>, acknowledged: &Acknowledged) {
    for (name, wanted) in &acknowledged.triggers {
        if acknowledged.gone.contains(name) {
            assert!(!stored.contains_key(name), "trigger {name} was removed and is back");
            continue;
        }
        let Some(trigger) = stored.get(name) else {
            // The next thing that happens to the first of a round is that it is removed.
            assert!(name.ends_with("-0"), "trigger {name} was acknowledged and is gone");
            continue;
        };
        let version: u64 = wanted[0].parse().unwrap();
        assert!(trigger.version >= version, "{name} is at {}, {version} was acknowledged", trigger.version);
        if trigger.version == version {
            let run = &trigger.run;
            let found = [run.status.to_string(), run.fence.to_string(), run.retry_count.to_string()];
            assert_eq!(wanted[1..], found, "trigger {name}: status, fence, tries");
        }
    }
}

/// Records, what finds them, and notes tell the same.
async fn is_whole(store: &Embedded, stored: &BTreeMap<String, Trigger>, tables: &BTreeMap<char, usize>) {
    let count = |fits: &dyn Fn(&Trigger) -> bool| stored.values().filter(|trigger| fits(trigger)).count();
    let mut notes = 0;
    for trigger in stored.values() {
        let of = Triggers::notes(store, &trigger.id).await.unwrap();
        // What it came to last was written with where it stands.
        let last = of.last().map(|note| &note.what);
        let told = matches!((trigger.run.status, last), (TriggerStatus::Completed, Some(Noted::Fired(_))));
        assert!(trigger.run.status != TriggerStatus::Completed || told, "{trigger:?} has {of:?}");
        notes += of.len();
    }
    let expected = [
        ('T', stored.len()),
        ('D', count(&|trigger| trigger.wake_at().is_some())),
        ('Z', count(&|trigger| trigger.run.ended_at.is_some())),
        ('W', count(&|trigger| trigger.run.status == TriggerStatus::Dead || trigger.run.held)),
        ('N', notes),
    ];
    for (table, rows) in expected {
        assert_eq!(tables.get(&table).copied().unwrap_or(0), rows, "rows of table {table}");
    }
    let mut timed: Vec<(Ms, &Trigger)> = stored.values().filter_map(|t| Some((t.wake_at()?, t))).collect();
    timed.sort_by(|(one, a), (other, b)| (one, a.id.as_str()).cmp(&(other, b.id.as_str())));
    timed.truncate(CLAIM_MAX as usize);
    let found = store.find_due(Ms::new(u64::MAX >> 16), CLAIM_MAX).await.unwrap();
    assert!(found.iter().eq(timed.iter().map(|(_, trigger)| *trigger)), "what has a time is found by it");
}

/// What is due and nobody's can be claimed, under a fence above all others; what the dead claimed is theirs.
async fn goes_on(store: &Embedded, stored: &BTreeMap<String, Trigger>) {
    let due = store.claim_due(&id("checker"), LEASE_MS, CLAIM_MAX).await.unwrap();
    let is_due = |trigger: &&Trigger| {
        trigger.run.status == TriggerStatus::Pending && trigger.wake_at().is_some_and(|at| at <= due.at)
    };
    let mut expected: Vec<&str> = stored.values().filter(is_due).map(|trigger| trigger.id.as_str()).collect();
    let mut claimed: Vec<&str> = due.claimed.iter().map(|trigger| trigger.id.as_str()).collect();
    expected.sort_unstable();
    claimed.sort_unstable();
    assert_eq!(claimed, expected, "what is due");
    let highest = stored.values().map(|trigger| trigger.run.fence).max();
    assert!(due.claimed.iter().all(|trigger| Some(trigger.run.fence) > highest), "fences after {highest:?}");
}
