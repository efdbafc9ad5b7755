//! Triggers in a transaction's hands: locked, judged one after the other, and written where they have changed.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::{self, Outcome};
use super::{NOTES_MAX, Note, Trigger};
use crate::fence::Fence;
use crate::id::TriggerId;
use crate::port::Refusal;
use crate::port::trigger::{Claim, Save};
use crate::time::Ms;

/// A trigger, and how many notes there were.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The trigger.
    pub trigger: Trigger,
    /// Its notes are numbered from 0 to this.
    pub notes: u64,
}

/// What a transaction sees and changes.
#[derive(Debug)]
pub struct World {
    rows: BTreeMap<TriggerId, Kept>,
    there: BTreeSet<TriggerId>,
    changed: BTreeSet<TriggerId>,
    notes: Vec<(TriggerId, u64, Note)>,
    /// Drawn beforehand, in case it is needed.
    fence: Fence,
    now: Ms,
    /// Something was saved that may be due.
    pub wakes: bool,
}

impl World {
    /// What was locked. `fence` was drawn beforehand, in case it is needed.
    #[must_use]
    pub fn new(kept: Vec<Kept>, fence: Fence, now: Ms) -> World {
        let rows: BTreeMap<TriggerId, Kept> = kept.into_iter().map(|kept| (kept.trigger.id.clone(), kept)).collect();
        let there = rows.keys().cloned().collect();
        World { rows, there, changed: BTreeSet::new(), notes: Vec::new(), fence, now, wakes: false }
    }

    fn write(&mut self, trigger: Trigger, notes: &[Note]) {
        let id = trigger.id.clone();
        let before = self.rows.get(&id).map_or(0, |kept| kept.notes);
        let old = notes.len().saturating_sub(NOTES_MAX);
        for (nth, note) in notes.iter().enumerate().skip(old) {
            self.notes.push((id.clone(), before + nth as u64, note.clone()));
        }
        self.rows.insert(id.clone(), Kept { trigger, notes: before + notes.len() as u64 });
        self.changed.insert(id);
    }

    /// What a person writes; answers its version.
    pub fn save(&mut self, save: &Save) -> Result<u64, Refusal> {
        let stored = self.rows.get(&save.trigger.id).map(|kept| &kept.trigger);
        let mut saved = rules::save(stored, &save.trigger, self.now)?;
        if rules::takes_away(stored, &save.trigger) {
            saved.run.fence = self.fence;
        }
        let version = saved.version;
        self.wakes |= saved.wake_at().is_some();
        self.write(saved, &save.notes);
        Ok(version)
    }

    fn owned(&self, claim: &Claim) -> Result<&Trigger, Refusal> {
        let kept = self.rows.get(&claim.trigger);
        kept.map(|kept| &kept.trigger).ok_or_else(|| Refusal::NotFound(format!("trigger {}", claim.trigger)))
    }

    /// What an occurrence came to.
    pub fn settle(&mut self, claim: &Claim, outcome: &Outcome) -> Result<(), Refusal> {
        let stored = self.owned(claim)?;
        let Some(run) = rules::settle(&stored.run, claim.fence, &outcome.run)? else { return Ok(()) };
        let settled = Trigger { run, version: stored.version + 1, ..stored.clone() };
        self.write(settled, &outcome.notes);
        if let Some(child) = &outcome.child
            && !self.rows.contains_key(&child.id)
        {
            self.write(Trigger { version: 1, ..child.clone() }, &[]);
        }
        Ok(())
    }

    /// A claim goes on; answers until when.
    pub fn renew(&mut self, claim: &Claim, lease_ms: u64) -> Result<Ms, Refusal> {
        let stored = self.owned(claim)?;
        let run = rules::renew(&stored.run, claim.fence, lease_ms, self.now)?;
        let until = run.lease_until;
        let renewed = Trigger { run, version: stored.version + 1, ..stored.clone() };
        self.write(renewed, &[]);
        Ok(until)
    }

    /// What is to be written: what is new, or what was there.
    #[must_use]
    pub fn changed(&self, new: bool) -> Vec<&Kept> {
        let wanted = self.changed.iter().filter(|id| self.there.contains(*id) != new);
        wanted.filter_map(|id| self.rows.get(id)).collect()
    }

    /// Notes that are to be added, with their numbers.
    #[must_use]
    pub fn notes(&self) -> &[(TriggerId, u64, Note)] {
        &self.notes
    }

    /// Triggers that have more notes than are kept, with the number of the first that is.
    #[must_use]
    pub fn full(&self) -> Vec<(&TriggerId, u64)> {
        let told: BTreeSet<&TriggerId> = self.notes.iter().map(|(id, ..)| id).collect();
        let full = |id: &TriggerId| self.rows.get(id).and_then(|kept| kept.notes.checked_sub(NOTES_MAX as u64));
        told.into_iter().filter_map(|id| full(id).filter(|first| *first > 0).map(|first| (id, first))).collect()
    }
}
