use windlass_core::id::PlanId;
use windlass_core::trigger::TriggerSpec;
use windlass_core::trigger::rules::create;

use super::*;
use crate::kv::memory::Memory;
use crate::kv::{Kv, Survives};

fn spec(text: &str) -> TriggerSpec {
    serde_json::from_str(text).unwrap()
}

/// Every shape that a specification has, and every field another than its default.
fn specs() -> Vec<TriggerSpec> {
    [
        r#"{"schedule":{"at":"2026-12-24T18:00:00Z"},"target":{"job":{"queue":"q"}}}"#,
        r#"{"schedule":{"after":"90s"},"target":{"plan":{"name":"p","tasks":[]}},"payload":null}"#,
        r#"{"schedule":{"every":"5m"},"target":{"operation":{"do":"freeze","on":{"tenant":"acme"}}},"misfire":"skip"}"#,
        r#"{"schedule":{"every":"1d","from":"2026-01-01T06:00:00Z"},"target":{"http":{"url":"https://x","headers":{"a":"b"}}},
            "misfire":{"catch_up":{"max":7}},"recovery":"held","overlap":"skip","maxRetries":9}"#,
        r#"{"schedule":{"cron":"0 9 * * mon-fri","zone":"Europe/Berlin"},"tenant":"acme","payload":{"n":1e400},
            "target":{"job":{"queue":"q","priority":-7,"maxAttempts":5,"timeoutMs":1,"backoff":{"first_ms":7,"max_ms":8}}}}"#,
    ]
    .map(|text| spec(&text.replace("first_ms", "firstMs").replace("max_ms", "maxMs")))
    .to_vec()
}

fn runs(run: &Run) -> Vec<Run> {
    let made = [
        Made::Job(JobId::random(7)),
        Made::Plan("p-1".parse::<PlanId>().unwrap()),
        Made::Operation("thawed\n\"x\"".into()),
        Made::Called(599),
    ];
    let mut runs: Vec<Run> = made.into_iter().map(|made| Run { made: Some(made), ..run.clone() }).collect();
    runs.push(Run { status: TriggerStatus::Dead, error: Some(String::new()), ended_at: Some(Ms::ZERO), ..run.clone() });
    runs.push(Run { held: true, retry_count: u32::MAX, fence: Fence(u64::MAX), try_at: Ms::MAX, ..run.clone() });
    runs.push(Run { asked: true, ..run.clone() });
    runs.push(Run { status: TriggerStatus::Processing, owner: Some("me".parse().unwrap()), ..run.clone() });
    runs
}

#[test]
fn a_trigger_comes_back_and_a_damaged_one_does_not() {
    let store = Memory::default();
    for spec in specs() {
        let new = create("t".parse().unwrap(), spec, Ms::new(1_800_000_000_000)).unwrap();
        for run in runs(&new.run) {
            let asker = Asker { by: "Zoë".parse().unwrap(), reason: None, at: Ms::new(5) };
            for (paused, parent) in [(None, None), (Some(asker.clone()), Some("p".parse().unwrap()))] {
                let trigger = Trigger { run: run.clone(), paused, parent, version: 300, ..new.clone() };
                let (kept, apart) = Kept::of(trigger.clone(), 12).unwrap();
                assert!(apart.is_none());
                let due = kept.encode_due().unwrap();
                let back = Kept::decode_due("t", &due).unwrap();
                assert_eq!(back.whole(&*store.read()).unwrap(), trigger);
                assert_eq!(back.notes, 12);
                for at in 0..due.len() {
                    let mut bytes = due.to_vec();
                    bytes[at] ^= 1;
                    assert!(Kept::decode_due("t", &bytes).is_err(), "byte {at}");
                }
                let named = kept.encode_named().unwrap();
                let (head, rest) = Head::decode(&named).unwrap();
                assert!(head == kept.head() && head.wake_at == trigger.wake_at());
                if head.wake_at.is_none() {
                    let back = Kept::decode(trigger.id.clone(), rest).unwrap();
                    assert_eq!(back.whole(&*store.read()).unwrap(), trigger);
                }
            }
        }
    }
}

#[test]
fn what_is_cut_short_is_damage_and_no_panic() {
    for spec in specs() {
        let new = create("t".parse().unwrap(), spec, Ms::ZERO).unwrap();
        let (kept, _) = Kept::of(new, 0).unwrap();
        let mut out = Out::new();
        kept.encode(&mut out).unwrap();
        let bytes = out.part();
        for cut in 0..bytes.len() {
            let decoded = Kept::decode(kept.id.clone(), In::part(&bytes[..cut]));
            let store = Memory::default();
            // A payload that is cut may still be JSON; nothing else may be what it was.
            let _same_or_damage = decoded.and_then(|kept| kept.whole(&*store.read()));
        }
    }
}

#[test]
fn a_large_specification_stands_apart() {
    let mut spec = specs().remove(0);
    spec.payload = Some(windlass_core::json::Json::of(&"x".repeat(BESIDE_BYTES_MAX)).unwrap());
    let trigger = create("t".parse().unwrap(), spec, Ms::ZERO).unwrap();
    let (kept, apart) = Kept::of(trigger.clone(), 0).unwrap();
    let store = Memory::default();
    store.commit([(key::trigger_spec(&kept.id), apart)].into(), Survives::PowerLoss).unwrap();
    let due = kept.encode_due().unwrap();
    assert!(due.len() < 200, "{}", due.len());
    assert_eq!(Kept::decode_due("t", &due).unwrap().whole(&*store.read()).unwrap(), trigger);
}
