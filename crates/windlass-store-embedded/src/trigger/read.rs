//! Looking at triggers.

use windlass_core::id::TriggerId;
use windlass_core::port::trigger::TriggerFilter;
use windlass_core::port::{Cursor, Page, PortError};
use windlass_core::time::Ms;
use windlass_core::trigger::{Note, Trigger};

use super::bytes::damaged;
use super::low::Low;
use super::record::{Head, Kept};
use crate::kv::{KvError, Read};
use crate::state::list::{cursor_after, cursor_of};
use crate::{key, record};

/// Triggers that one page looks at: a filter that refuses many makes it short, not slow.
const LOOK: usize = 10_000;

pub(super) fn kept(read: &(impl Read + ?Sized), id: &TriggerId) -> Result<Option<Kept>, KvError> {
    match read.get(&key::trigger(id))? {
        Some(named) => behind(read, id, &named).map(Some),
        None => Ok(None),
    }
}

/// The trigger behind the record that stands under its id.
fn behind(read: &(impl Read + ?Sized), id: &TriggerId, named: &[u8]) -> Result<Kept, KvError> {
    let (head, rest) = Head::decode(named)?;
    match head.wake_at {
        None => Kept::decode(id.clone(), rest),
        Some(at) => {
            let due = read.get(&key::due(at, id))?.ok_or_else(damaged)?;
            Kept::decode_due(id.as_str(), &due)
        }
    }
}

pub(super) fn whole(read: &(impl Read + ?Sized), id: &TriggerId) -> Result<Option<Trigger>, KvError> {
    kept(read, id)?.map(|kept| kept.whole(read)).transpose()
}

pub(super) fn notes(read: &dyn Read, id: &TriggerId) -> Result<Vec<Note>, KvError> {
    let (from, to) = key::notes(id);
    let mut notes: Vec<(u64, Note)> = Vec::new();
    read.scan(&from, &to, &mut |_, value| {
        notes.push(record::decode(value)?);
        Ok(true)
    })?;
    notes.sort_unstable_by_key(|(n, _)| *n);
    Ok(notes.into_iter().map(|(_, note)| note).collect())
}

/// What is due up to a time, in order.
pub(super) fn due(read: &dyn Read, low: &Low, upto: Ms, limit: u32) -> Result<Vec<Trigger>, KvError> {
    // The first look fixes the moment.
    read.get(key::SCHEDULERS)?;
    let (from, to) = key::all_due();
    let mut due = Vec::new();
    read.scan(&low.from(from), &to, &mut |key, value| {
        let (at, id) = key::timed(key).ok_or_else(damaged)?;
        if at > upto || due.len() >= limit as usize {
            return Ok(false);
        }
        due.push(Kept::decode_due(id, value)?.whole(read)?);
        Ok(true)
    })?;
    Ok(due)
}

pub(super) fn list(
    read: &dyn Read,
    filter: &TriggerFilter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Trigger>, PortError> {
    let (from, to) = if filter.waiting { key::triggers_waiting() } else { key::triggers() };
    let from = cursor_after(after, &from)?.unwrap_or(from);
    let (mut items, mut looked, mut last, mut next) = (Vec::new(), 0, None, None);
    read.scan(&from, &to, &mut |found, value| {
        let id = std::str::from_utf8(&found[1..]).map_err(|_| damaged())?;
        looked += 1;
        if looked > LOOK {
            next.clone_from(&last);
            return Ok(false);
        }
        let id: TriggerId = id.parse().map_err(|_| damaged())?;
        let named = match filter.waiting {
            true => read.get(&key::trigger(&id))?.ok_or_else(damaged)?,
            false => value.clone(),
        };
        if Head::decode(&named)?.0.fits(filter) {
            if items.len() == limit as usize {
                next.clone_from(&last);
                return Ok(false);
            }
            items.push(behind(read, &id, &named)?.whole(read)?);
        }
        last = Some(found[1..].to_vec());
        Ok(true)
    })?;
    Ok(Page { items, next: next.map(|place| cursor_of(&place)) })
}
