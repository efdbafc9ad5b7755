//! Triggers as they are stored, byte for byte: a golden file, which every later version reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::job::Asker;
use windlass_core::json::Json;
use windlass_core::port::trigger::{Claim, Save, TriggerFilter, Triggers};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{Outcome, create, failed, fired, pause};
use windlass_core::trigger::{Made, Note, Run, Trigger, TriggerSpec, TriggerStatus};
use windlass_store_embedded::Embedded;
use windlass_store_embedded::kv::memory::Memory;

use crate::format::{NOW, over, store_of, text};
use crate::probe::dump;
use crate::work::id;

pub(crate) const GOLDEN: &str = include_str!("../data/format-1/triggers.txt");

const DUE: Ms = Ms::new(1_799_999_999_000);

async fn save(store: &Embedded, name: &str, spec: &str, change: impl FnOnce(&mut Trigger)) {
    let spec: TriggerSpec = serde_json::from_str(spec).unwrap();
    let mut trigger = create(id(name), spec, DUE).unwrap();
    change(&mut trigger);
    assert_eq!(store.save(&[Save { trigger, notes: Vec::new() }]).await.unwrap(), [Ok(1)]);
}

fn at_due(trigger: &mut Trigger) {
    trigger.run = Run { trigger_at: DUE, try_at: DUE, ..trigger.run.clone() };
}

/// A little of everything: at its end every table of triggers has a row.
async fn scenario(store: &Embedded) {
    let (job, every) =
        (r#""target":{"job":{"queue":"q","priority":-3,"timeoutMs":9}}"#, r#""schedule":{"every":"1h"}"#);
    let cron = r#""schedule":{"cron":"0 9 * * mon-fri","zone":"Europe/Berlin"}"#;
    save(store, "a-fires", &format!("{{{cron},{job},\"tenant\":\"acme\",\"payload\":{{\"n\":1}}}}"), at_due).await;
    save(store, "b-fails", &format!("{{{every},{job},\"misfire\":\"skip\",\"overlap\":\"skip\"}}"), at_due).await;
    save(store, "c-dies", &format!("{{{every},{job},\"maxRetries\":0,\"recovery\":\"held\"}}"), at_due).await;
    let http = r#""target":{"http":{"url":"https://example.org/"}}"#;
    save(store, "d-ends", &format!(r#"{{"schedule":{{"at":"2027-01-15T07:59:59Z"}},{http}}}"#), |_| {}).await;
    save(store, "e-claimed", &format!(r#"{{"schedule":{{"after":"1s"}},{http},"misfire":"catch_up"}}"#), at_due).await;
    let claimed = store.claim_due(&id("i-1"), 60_000, 9).await.unwrap().claimed;
    assert_eq!(claimed.len(), 5);
    let outcomes = [
        fired(&claimed[0], Made::Plan(id("p-1")), NOW),
        failed(&claimed[1], "no such address", 0, NOW),
        failed(&claimed[2], "no", 0, NOW),
        fired(&claimed[3], Made::Called(204), NOW),
    ];
    let claim = |of: &Trigger| Claim { trigger: of.id.clone(), fence: of.run.fence };
    let settles: Vec<(Claim, Outcome)> = claimed.iter().map(claim).zip(outcomes).collect();
    assert_eq!(store.settle(&settles).await.unwrap(), vec![Ok(()); 4]);
    let asker = Asker { by: id("ada"), reason: Some(id("audit")), at: NOW };
    save(store, "f-paused", &format!("{{{every},{job}}}"), |trigger| *trigger = pause(trigger, &asker)).await;
    save(store, "g-large", &format!("{{{every},{job}}}"), |trigger| {
        trigger.spec.payload = Some(Json::of(&"x".repeat(2_048)).unwrap());
    })
    .await;
    save(store, "h-held", &format!("{{{every},{job}}}"), |trigger| trigger.run.held = true).await;
}

/// Everything that can be asked.
async fn everything(store: &Embedded) -> (Vec<Trigger>, Vec<Vec<Note>>, Vec<Trigger>, Vec<Trigger>) {
    let all = TriggerFilter::default();
    let waiting = TriggerFilter { waiting: true, ..all.clone() };
    let listed = Triggers::list(store, &all, None, 100).await.unwrap().items;
    let mut notes = Vec::new();
    for trigger in &listed {
        notes.push(store.notes(&trigger.id).await.unwrap());
    }
    let waiting = Triggers::list(store, &waiting, None, 100).await.unwrap().items;
    (listed, notes, store.find_due(Ms::MAX, 100).await.unwrap(), waiting)
}

#[tokio::test]
async fn what_is_written_is_what_is_promised() {
    let kv = Arc::new(Memory::default());
    let store = over(&kv);
    scenario(&store).await;
    store.close();
    let tables: BTreeSet<char> = dump(&*kv).iter().map(|(key, _)| char::from(key[0])).collect();
    assert!("ADNTWYZ".chars().all(|table| tables.contains(&table)), "{tables:?}");
    let written = text(&*kv);
    assert!(written == GOLDEN, "format 1 has changed; what is written now:\n{written}");
}

#[tokio::test]
async fn what_was_written_is_read() {
    let kv = Arc::new(Memory::default());
    let (new, old) = (over(&kv), over(&store_of(GOLDEN)));
    scenario(&new).await;
    let (new, old) = (everything(&new).await, everything(&old).await);
    assert_eq!(old, new);
    let statuses: BTreeSet<TriggerStatus> = old.0.iter().map(|trigger| trigger.run.status).collect();
    assert_eq!(statuses.len(), 4);
}
