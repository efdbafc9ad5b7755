//! What scenarios of triggers are told with: triggers to be saved, and a client that holds every trigger it is shown to
//! what must hold of every stored one.

use std::sync::Arc;

use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::job::Asker;
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers};
use windlass_core::port::{Mark, PAGE_MAX, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{Outcome, create, fired};
use windlass_core::trigger::schedule::Schedule;
use windlass_core::trigger::{Made, Note, Noted, Trigger, TriggerSpec, TriggerStatus};

use super::TriggerHarness;
use crate::world::{BORN, id};

/// A lease that no scenario outlasts …
pub const LEASE_MS: u64 = 60_000;
/// … and how far ahead a client's clock runs that sees every such lease run out.
pub const LATER_MS: u64 = 600_000;
/// A day, in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// A specification from its schedule, as people write it.
#[must_use]
pub fn spec(schedule: &str) -> TriggerSpec {
    let text = format!(r#"{{"schedule": {schedule}, "target": {{"job": {{"queue": "q"}}}}, "payload": {{"a": 1}}}}"#);
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{text} in a scenario: {why}"))
}

/// A trigger that fires once, at this time.
#[must_use]
pub fn once(name: &str, at: Ms) -> Trigger {
    let spec = TriggerSpec { schedule: Schedule::At(at), ..spec(r#"{"after": "1s"}"#) };
    create(id(name), spec, BORN).unwrap_or_else(|| panic!("{name} never fires"))
}

/// The same, due for long.
#[must_use]
pub fn due(name: &str) -> Trigger {
    once(name, BORN)
}

/// A trigger that fires every day, due for long.
#[must_use]
pub fn daily(name: &str) -> Trigger {
    let created = create(id(name), spec(r#"{"every": "1d"}"#), BORN);
    created.unwrap_or_else(|| panic!("{name} never fires"))
}

/// Who asks.
#[must_use]
pub fn asker(at: Ms) -> Asker {
    Asker { by: id("Zoë"), reason: Some(id("wrong day")), at }
}

/// What an occurrence made.
#[must_use]
pub fn made() -> Made {
    Made::Plan(id("plan-1"))
}

/// That it fired, now.
#[must_use]
pub fn done(trigger: &Trigger, now: Ms) -> Outcome {
    fired(trigger, made(), now)
}

/// A note to tell from others.
#[must_use]
pub fn note(n: u64) -> Note {
    Note { at: BORN.plus(n), occurrence: BORN, what: Noted::Skipped(format!("the {n}th")) }
}

/// What a claim is known by.
#[must_use]
pub fn claim_of(trigger: &Trigger) -> Claim {
    Claim { trigger: trigger.id.clone(), fence: trigger.run.fence }
}

/// The ids, in order.
#[must_use]
pub fn ids(triggers: &[Trigger]) -> Vec<&str> {
    triggers.iter().map(|trigger| trigger.id.as_str()).collect()
}

pub(super) fn one<T>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one answer for one item");
    answers.remove(0)
}

/// Somebody on their own way to the store: a scheduler, a person.
#[derive(Clone)]
pub struct Client {
    /// The way.
    pub triggers: Arc<dyn Triggers>,
    /// Its name as an owner.
    pub me: InstanceId,
}

impl Client {
    /// On a clock that runs ahead.
    pub async fn ahead(h: &dyn TriggerHarness, me: &str, ahead_ms: u64) -> Client {
        Client { triggers: h.open_triggers(ahead_ms).await, me: id(me) }
    }

    /// On the store's clock.
    pub async fn open(h: &dyn TriggerHarness, me: &str) -> Client {
        Client::ahead(h, me, 0).await
    }

    /// What time it is.
    pub async fn now(&self) -> Ms {
        self.triggers.claim_due(&self.me, 1, 0).await.expect("claim_due").at
    }

    /// Saves one, with notes.
    pub async fn save_with(&self, trigger: &Trigger, notes: &[Note]) -> Result<u64, Refusal> {
        let save = Save { trigger: trigger.clone(), notes: notes.to_vec() };
        one(self.triggers.save(&[save]).await.expect("save"))
    }

    /// Saves one.
    pub async fn save(&self, trigger: &Trigger) -> Result<u64, Refusal> {
        self.save_with(trigger, &[]).await
    }

    /// Saves triggers that must be new.
    pub async fn add(&self, new: &[Trigger]) {
        let saves: Vec<_> = new.iter().map(|new| Save { trigger: new.clone(), notes: Vec::new() }).collect();
        let saved = self.triggers.save(&saves).await.expect("save");
        assert!(saved.iter().all(|saved| *saved == Ok(1)), "every trigger is new: {saved:?}");
    }

    /// Claims; what it claimed must be as a claim makes it.
    pub async fn claim_due(&self, limit: u32) -> Due {
        let due = self.triggers.claim_due(&self.me, LEASE_MS, limit).await.expect("claim_due");
        assert!(due.claimed.len() <= limit as usize, "a claim keeps its limit");
        for trigger in &due.claimed {
            assert_eq!((trigger.run.status, trigger.run.owner.as_ref()), (TriggerStatus::Processing, Some(&self.me)));
            assert_eq!(trigger.run.lease_until, due.at.plus(LEASE_MS), "a lease begins with its claim");
        }
        due
    }

    /// Claims, for what it claimed.
    pub async fn claim(&self, limit: u32) -> Vec<Trigger> {
        self.claim_due(limit).await.claimed
    }

    /// Claims one, which must be there.
    pub async fn take(&self) -> Trigger {
        one(self.claim(1).await)
    }

    /// Writes what a claimed occurrence came to.
    pub async fn settle(&self, trigger: &Trigger, outcome: Outcome) -> Result<(), Refusal> {
        one(self.triggers.settle(&[(claim_of(trigger), outcome)]).await.expect("settle"))
    }

    /// Prolongs a claim.
    pub async fn renew(&self, trigger: &Trigger, lease_ms: u64) -> Result<Ms, Refusal> {
        one(self.triggers.renew(&[claim_of(trigger)], lease_ms).await.expect("renew"))
    }

    /// A trigger, if it is there.
    pub async fn find(&self, name: &str) -> Option<Trigger> {
        one(self.triggers.load(&[id(name)]).await.expect("load"))
    }

    /// A trigger that is there.
    pub async fn load(&self, name: &str) -> Trigger {
        self.find(name).await.unwrap_or_else(|| panic!("{name} is gone"))
    }

    /// Removes one.
    pub async fn remove(&self, name: &str) -> bool {
        one(self.triggers.remove(&[id(name)]).await.expect("remove"))
    }

    /// Its notes.
    pub async fn notes(&self, name: &str) -> Vec<Note> {
        let name: TriggerId = id(name);
        self.triggers.notes(&name).await.expect("notes")
    }

    /// A whole list, in pages of so many.
    pub async fn list(&self, filter: &TriggerFilter, limit: u32) -> Vec<Trigger> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.triggers.list(filter, after.as_ref(), limit).await.expect("list");
            assert!(page.items.len() <= limit as usize, "a page keeps its limit");
            all.extend(page.items);
            assert!(page.next.is_none() || page.next != after, "a cursor moves on, or a list has no end");
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// Everything, by id.
    pub async fn everything(&self) -> Vec<Trigger> {
        self.list(&TriggerFilter::default(), PAGE_MAX).await
    }

    /// How far the feed of what may be due is.
    pub async fn mark(&self) -> Mark {
        self.triggers.changed(Mark::default(), 0).await.expect("changed")
    }
}
