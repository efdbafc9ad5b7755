//! Histories: the newest events of a task or a plan. A step's events are one record, in a ring of
//! [`HISTORY_MAX`] slots, so that a history is bounded without deleting anything.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::event::{Event, HISTORY_MAX};

use crate::key::{self, Subject};
use crate::kv::{KvError, Read};
use crate::record;
use crate::tx::Tx;

/// A step's events: the number of the first; the others follow it, whatever number they carry.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk<T> {
    first: u64,
    events: T,
}

/// Adds events, the last of which is number `seq`; `text` is theirs, if it is made already. Two steps
/// meet in a slot only when at least [`HISTORY_MAX`] events lie between them, and then the older one
/// is no longer wanted.
pub(super) fn append(
    tx: &mut Tx<'_>,
    subject: Subject<'_>,
    seq: u64,
    mut events: Vec<Event>,
    text: Option<Box<RawValue>>,
) -> Result<(), KvError> {
    if events.is_empty() {
        return Ok(());
    }
    let key = key::history(subject, (seq % HISTORY_MAX as u64) as u32);
    let first = |kept: usize| seq + 1 - kept as u64;
    match text {
        Some(text) if events.len() <= HISTORY_MAX => {
            tx.put_record(key, &Chunk { first: first(events.len()), events: text })
        }
        _ => {
            events.drain(..events.len().saturating_sub(HISTORY_MAX));
            events.iter_mut().for_each(|event| event.seq = 0);
            tx.put_record(key, &Chunk { first: first(events.len()), events })
        }
    }
}

/// The newest events up to number `seq`, in order.
pub(super) fn newest(read: &(impl Read + ?Sized), subject: Subject<'_>, seq: u64) -> Result<Vec<Event>, KvError> {
    let (from, to) = key::histories(subject);
    let mut events: Vec<Event> = Vec::new();
    read.scan(&from, &to, &mut |_, value| {
        let Chunk { first, events: more } = record::decode::<Chunk<Vec<Event>>>(value)?;
        events.extend((first..).zip(more).map(|(seq, event)| Event { seq, ..event }));
        Ok(true)
    })?;
    events.retain(|event| event.seq + HISTORY_MAX as u64 > seq);
    events.sort_unstable_by_key(|event| event.seq);
    Ok(events)
}
