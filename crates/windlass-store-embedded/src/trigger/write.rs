//! Where a trigger is written: its record, and what finds it by time, by its end and by whom it waits for.

use windlass_core::id::TriggerId;
use windlass_core::trigger::{NOTES_MAX, Note, TriggerStatus};

use super::read;
use super::record::{Kept, Spec};
use crate::key;
use crate::kv::{KvError, Value};
use crate::record;
use crate::tx::Tx;

/// Claimed triggers that are remembered; more at once are read from the store.
const HOT_MAX: usize = 16_384;

/// A stored trigger, as the writer last wrote it.
pub(super) fn stored(tx: &Tx<'_>, id: &TriggerId) -> Result<Option<Kept>, KvError> {
    match tx.hot.triggers.claimed.get(id) {
        Some(kept) => Ok(Some(kept.clone())),
        None => read::kept(tx, id),
    }
}

/// A trigger ready to be written, whole: nothing that follows can fail.
pub(super) struct Ready {
    kept: Kept,
    named: Value,
    due: Option<(Vec<u8>, Value)>,
    notes: Vec<(Vec<u8>, Value)>,
    /// Its own record of what people say, if that is new and large.
    apart: Option<Value>,
}

impl Ready {
    pub(super) fn new(mut kept: Kept, notes: &[Note], apart: Option<Value>) -> Result<Ready, KvError> {
        let mut slots = Vec::with_capacity(notes.len().min(NOTES_MAX));
        kept.notes += notes.len().saturating_sub(NOTES_MAX) as u64;
        for note in &notes[notes.len().saturating_sub(NOTES_MAX)..] {
            slots.push((key::note(&kept.id, slot(kept.notes)), record::encode(&(kept.notes, note))?));
            kept.notes += 1;
        }
        let due = match kept.wake_at() {
            Some(at) => Some((key::due(at, &kept.id), kept.encode_due()?)),
            None => None,
        };
        Ok(Ready { named: kept.encode_named()?, due, notes: slots, kept, apart })
    }

    /// Writes it over what was there.
    pub(super) fn write(self, tx: &mut Tx<'_>, before: Option<&Kept>) {
        let Ready { kept, named, due, notes, apart } = self;
        if let Some(old) = before.and_then(due_key)
            && due.as_ref().is_none_or(|(key, _)| *key != old)
        {
            tx.remove(old);
        }
        // Where it is due says all of it.
        if due.is_none() || before.is_none_or(|before| before.head() != kept.head()) {
            tx.put(key::trigger(&kept.id), named);
        }
        if let Some((key, value)) = due {
            tx.hot.triggers.due_from.lower(&key);
            tx.put(key, value);
        }
        indexes(tx, before, Some(&kept));
        notes.into_iter().for_each(|(key, value)| tx.put(key, value));
        match apart {
            Some(spec) => tx.put(key::trigger_spec(&kept.id), spec),
            None if !is_apart(&kept) && before.is_some_and(is_apart) => tx.remove(key::trigger_spec(&kept.id)),
            None => {}
        }
        let claimed = &mut tx.hot.triggers.claimed;
        match kept.run.status == TriggerStatus::Processing && !is_apart(&kept) && claimed.len() < HOT_MAX {
            true => drop(claimed.insert(kept.id.clone(), kept)),
            false => drop(claimed.remove(&kept.id)),
        }
    }
}

/// Removes it with all that belongs to it.
pub(super) fn remove(tx: &mut Tx<'_>, kept: &Kept) {
    tx.hot.triggers.claimed.remove(&kept.id);
    if let Some(due) = due_key(kept) {
        tx.remove(due);
    }
    tx.remove(key::trigger(&kept.id));
    indexes(tx, Some(kept), None);
    if is_apart(kept) {
        tx.remove(key::trigger_spec(&kept.id));
    }
    for n in 0..kept.notes.min(NOTES_MAX as u64) {
        tx.remove(key::note(&kept.id, slot(n)));
    }
}

/// What finds it by its end, and those that wait for a person.
fn indexes(tx: &mut Tx<'_>, before: Option<&Kept>, after: Option<&Kept>) {
    let ended = |kept: &Kept| kept.ended_at().map(|at| key::trigger_ended(at, &kept.id));
    let waiting = |kept: &Kept| kept.waits_for_a_person().then(|| key::trigger_waiting(&kept.id));
    if let Some(key) = after.and_then(ended) {
        tx.hot.triggers.ended_from.lower(&key);
    }
    for (old, new) in
        [(before.and_then(ended), after.and_then(ended)), (before.and_then(waiting), after.and_then(waiting))]
    {
        if old == new {
            continue;
        }
        old.into_iter().for_each(|key| tx.remove(key));
        new.into_iter().for_each(|key| tx.put(key, Value::from(Vec::new())));
    }
}

fn due_key(kept: &Kept) -> Option<Vec<u8>> {
    kept.wake_at().map(|at| key::due(at, &kept.id))
}

fn is_apart(kept: &Kept) -> bool {
    matches!(kept.spec, Spec::Apart)
}

fn slot(n: u64) -> u32 {
    (n % NOTES_MAX as u64) as u32
}
