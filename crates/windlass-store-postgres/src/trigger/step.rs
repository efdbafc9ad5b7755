//! Steps that need the core's rules: rows are locked and read in one trip, judged here, and written with their COMMIT in a
//! second.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::fence::Fence;
use windlass_core::id::TriggerId;
use windlass_core::port::trigger::{Claim, Save};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Outcome};
use windlass_core::trigger::{NOTES_MAX, Note, Trigger};

use super::row::{self, Kept, Notes};
use super::sql;
use crate::cell::{Cells, params, signed};
use crate::error::Failure;
use crate::pool::{Call, Pool};
use crate::sql::{BEGIN, NOW};
use crate::state::one;

/// What a transaction sees and changes.
pub(super) struct World {
    rows: BTreeMap<TriggerId, Kept>,
    there: BTreeSet<TriggerId>,
    changed: BTreeSet<TriggerId>,
    notes: Vec<(TriggerId, u64, Note)>,
    /// Drawn beforehand, in case it is needed.
    fence: Fence,
    pub(super) now: Ms,
    /// Something was saved that may be due.
    pub(super) wakes: bool,
}

impl World {
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

    pub(super) fn save(&mut self, save: &Save) -> Result<u64, Refusal> {
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

    pub(super) fn settle(&mut self, claim: &Claim, outcome: &Outcome) -> Result<(), Refusal> {
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

    pub(super) fn renew(&mut self, claim: &Claim, lease_ms: u64) -> Result<Ms, Refusal> {
        let stored = self.owned(claim)?;
        let run = rules::renew(&stored.run, claim.fence, lease_ms, self.now)?;
        let until = run.lease_until;
        let renewed = Trigger { run, version: stored.version + 1, ..stored.clone() };
        self.write(renewed, &[]);
        Ok(until)
    }

    fn calls(&self) -> Result<Vec<Call>, PortError> {
        let mut calls = Vec::new();
        let changed = |new: bool| {
            let wanted = self.changed.iter().filter(move |id| self.there.contains(*id) != new);
            wanted.filter_map(|id| self.rows.get(id)).collect::<Vec<_>>()
        };
        for (statement, rows) in [(sql::INSERT, changed(true)), (sql::UPDATE, changed(false))] {
            if !rows.is_empty() {
                calls.push(row::put(statement, &rows)?);
            }
        }
        let mut notes = Notes::default();
        let mut told = BTreeSet::new();
        for (id, seq, note) in &self.notes {
            notes.add(id.as_str(), *seq, note)?;
            told.insert(id);
        }
        calls.extend(notes.call());
        let full = |id: &&TriggerId| self.rows.get(*id).filter(|kept| kept.notes > NOTES_MAX as u64);
        let (ids, seqs): (Vec<String>, Vec<i64>) = told
            .iter()
            .filter_map(|id| full(id).map(|kept| (id.to_string(), signed(kept.notes - NOTES_MAX as u64))))
            .unzip();
        if !ids.is_empty() {
            calls.push(Call::new(sql::FORGET_NOTES, params![ids, seqs]));
        }
        if self.wakes {
            calls.push(Call::bare(sql::CHANGED));
        }
        Ok(calls)
    }
}

/// Judges items one after the other, all in one transaction. `ids` are those it may look at or make.
pub(super) async fn judged<T>(
    pool: &Pool,
    ids: Vec<String>,
    ahead_ms: i64,
    judge: impl Fn(&mut World) -> Vec<Result<T, Refusal>>,
) -> Result<(Vec<Result<T, Refusal>>, bool), PortError> {
    let mut races = 0;
    loop {
        let tx = pool.begin().await?;
        let attempt = async {
            let calls = vec![
                Call::new(sql::LOCK, params![ids.clone()]),
                Call::bare(sql::DRAW),
                Call::new(NOW, params![ahead_ms]),
            ];
            let answers = tx.open(BEGIN, calls).await?;
            let [rows, fence, now] = &answers[..] else {
                return Err(Failure::from(PortError::Corrupt("three answers were expected".to_owned())));
            };
            let mut kept = BTreeMap::new();
            for row in rows {
                let one = row::trigger(&mut Cells::of(row))?;
                kept.insert(one.trigger.id.clone(), one);
            }
            let mut world = World {
                there: kept.keys().cloned().collect(),
                rows: kept,
                changed: BTreeSet::new(),
                notes: Vec::new(),
                fence: Fence(one(fence)?.count()?),
                now: one(now)?.at()?,
                wakes: false,
            };
            let judged = judge(&mut world);
            let wakes = world.wakes;
            tx.commit(world.calls()?).await?;
            Ok((judged, wakes))
        }
        .await;
        if let Some(done) = tx.settle(attempt, &mut races).await {
            return done;
        }
    }
}

/// What is left after a statement that took the plain ones.
pub(super) fn fill<T>(all: Vec<Option<Result<T, Refusal>>>, rest: Vec<Result<T, Refusal>>) -> Each<T> {
    let mut rest = rest.into_iter();
    let missing = || PortError::Corrupt("an answer is missing".to_owned());
    all.into_iter().map(|answer| answer.or_else(|| rest.next()).ok_or_else(missing)).collect()
}
