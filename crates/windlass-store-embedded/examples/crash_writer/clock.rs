//! Writers of triggers: they save, pause, remove, claim, prolong and settle, whoever saved.

use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::trigger::{Claim, Save, Triggers};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Outcome};
use windlass_core::trigger::{Made, Run, Trigger, TriggerSpec, TriggerStatus};
use windlass_store_embedded::Embedded;

use crate::work::id;
use crate::{LEASE_MS, acknowledged};

/// Triggers that are saved at once.
const SAVED: u32 = 4;

/// One writer.
pub(crate) struct Clock {
    pub(crate) store: Embedded,
    pub(crate) run: String,
    pub(crate) number: u32,
    pub(crate) instance: InstanceId,
}

impl Clock {
    pub(crate) async fn run(self) {
        for round in 0u32.. {
            // The store's own time: a claim of nothing says it.
            let now = self.due(0).await.1;
            self.save(round, now).await;
            for trigger in self.due(3).await.0 {
                self.settle(trigger, now).await;
            }
        }
    }

    /// Some are due at once, one in an hour, and one comes again and again; of those before, one is removed.
    async fn save(&self, round: u32, now: Ms) {
        let name = |round: u32, n: u32| -> TriggerId { id(&format!("{}-c{}-{round}-{n}", self.run, self.number)) };
        let spec = |n: u32| -> TriggerSpec {
            match n {
                0 => trigger(r#"{"after": "1h"}"#),
                1 => trigger(r#"{"every": "1h"}"#),
                _ => trigger(&format!(r#"{{"at": "{now}"}}"#)),
            }
        };
        let made = |n| rules::create(name(round, n), spec(n), now).unwrap_or_else(|| panic!("it never fires"));
        let saves: Vec<Save> = (0..SAVED).map(|n| Save { trigger: made(n), notes: Vec::new() }).collect();
        let answers = self.store.save(&saves).await.unwrap_or_else(|error| panic!("{error}"));
        for (save, version) in saves.iter().zip(answers) {
            let version = version.unwrap_or_else(|refusal| panic!("{refusal}"));
            acknowledged(&row(&save.trigger, version));
        }
        let Some(before) = round.checked_sub(1) else { return };
        let gone = name(before, 0);
        let removed = self.store.remove(std::slice::from_ref(&gone)).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(removed, [true], "{gone}");
        acknowledged(&format!("gone {gone}"));
    }

    async fn due(&self, limit: u32) -> (Vec<Trigger>, Ms) {
        let due = self.store.claim_due(&self.instance, LEASE_MS, limit).await.unwrap_or_else(|error| panic!("{error}"));
        for trigger in &due.claimed {
            acknowledged(&row(trigger, trigger.version));
        }
        (due.claimed, due.at)
    }

    /// It fires, or fails, or is left to whoever comes after the crash.
    async fn settle(&self, mut trigger: Trigger, now: Ms) {
        let claim = Claim { trigger: trigger.id.clone(), fence: trigger.run.fence };
        let Outcome { run, child, notes } = match trigger.run.fence.0 % 5 {
            0 => return,
            1 => rules::failed(&trigger, "it was told to", 0, now),
            2 => {
                let claims = std::slice::from_ref(&claim);
                let until = self.store.renew(claims, LEASE_MS).await.unwrap_or_else(|error| panic!("{error}"));
                assert!(until.iter().all(Result::is_ok), "{until:?}");
                trigger.version += 1;
                acknowledged(&row(&trigger, trigger.version));
                rules::fired(&trigger, Made::Called(200), now)
            }
            _ => rules::fired(&trigger, Made::Called(200), now),
        };
        let settled = self.store.settle(&[(claim, Outcome { run: run.clone(), child, notes })]).await;
        let settled = settled.unwrap_or_else(|error| panic!("{error}"));
        assert!(settled.iter().all(Result::is_ok), "{settled:?}");
        let after = Trigger { run: Run { fence: trigger.run.fence, ..run }, ..trigger };
        assert_ne!(after.run.status, TriggerStatus::Processing);
        acknowledged(&row(&after, after.version + 1));
    }
}

fn row(trigger: &Trigger, version: u64) -> String {
    let run = &trigger.run;
    format!("trigger {} {version} {} {} {}", trigger.id, run.status, run.fence, run.retry_count)
}

/// A trigger that calls a URL by this schedule, as JSON.
fn trigger(schedule: &str) -> TriggerSpec {
    let spec = format!(r#"{{"schedule": {schedule}, "target": {{"http": {{"url": "http://localhost/"}}}}}}"#);
    serde_json::from_str(&spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}
