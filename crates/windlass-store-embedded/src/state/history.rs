//! Histories: the newest events of a task or a plan. A step's events are one record, in a ring of
//! [`HISTORY_MAX`] slots, so that a history is bounded without deleting anything.

use windlass_core::event::{Event, HISTORY_MAX};

use crate::key::{self, Subject};
use crate::kv::{KvError, Read};
use crate::record;
use crate::tx::Tx;

/// Events carry their numbers already. Two steps meet in a slot only when at least [`HISTORY_MAX`]
/// events lie between them, and then the older one is no longer wanted.
pub(super) fn append(tx: &mut Tx<'_>, subject: Subject<'_>, events: Vec<Event>) -> Result<(), KvError> {
    let Some(last) = events.last() else { return Ok(()) };
    let slot = (last.seq % HISTORY_MAX as u64) as u32;
    let newest = &events[events.len().saturating_sub(HISTORY_MAX)..];
    tx.put_record(key::history(subject, slot), &newest)
}

/// The newest events up to number `seq`, in order.
pub(super) fn newest(read: &(impl Read + ?Sized), subject: Subject<'_>, seq: u64) -> Result<Vec<Event>, KvError> {
    let (from, to) = key::histories(subject);
    let mut events: Vec<Event> = Vec::new();
    read.scan(&from, &to, &mut |_, value| {
        events.extend(record::decode::<Vec<Event>>(value)?);
        Ok(true)
    })?;
    events.retain(|event| event.seq + HISTORY_MAX as u64 > seq);
    events.sort_unstable_by_key(|event| event.seq);
    Ok(events)
}
