//! Occurrences: claimed, settled, prolonged.

use windlass_core::fence::Fence;
use windlass_core::id::InstanceId;
use windlass_core::port::trigger::{Claim, Due};
use windlass_core::port::{PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::Trigger;
use windlass_core::trigger::rules::{self, Alive, Outcome};

use super::bytes::damaged;
use super::record::Kept;
use super::write::{Ready, stored};
use crate::key;
use crate::kv::{KvError, Read};
use crate::tx::{Records, Tx};

type Judged<T> = Result<Result<T, Refusal>, PortError>;

pub(super) fn claim(tx: &mut Tx<'_>, owner: &InstanceId, lease_ms: u64, limit: u32, now: Ms) -> Result<Due, PortError> {
    let Found { due, next, above } = find(tx, limit as usize, now)?;
    let alive = tx.record::<Alive>(key::SCHEDULERS)?.unwrap_or_default().claims(lease_ms, now);
    let fence = if due.is_empty() { Fence::NONE } else { tx.draw_fence()? };
    let (mut claimed, mut ready) = (Vec::with_capacity(due.len()), Vec::with_capacity(due.len()));
    for kept in due {
        let run = rules::claim(&kept.run, owner, fence, lease_ms, now);
        let after = Kept { run, version: kept.version + 1, ..kept.clone() };
        claimed.push(after.whole(tx)?);
        ready.push((kept, Ready::new(after, &[], None)?));
    }
    // From here on nothing fails: what the table no longer begins with is written elsewhere.
    tx.hot.triggers.due_from.raise(above);
    ready.into_iter().for_each(|(kept, ready)| ready.write(tx, Some(&kept)));
    tx.put_record(key::SCHEDULERS.to_vec(), &alive)?;
    Ok(Due { claimed, next, alive_since: alive.since, at: now })
}

struct Found {
    due: Vec<Kept>,
    /// When the next one is.
    next: Option<Ms>,
    /// Where the table begins once these are claimed.
    above: Vec<u8>,
}

fn find(tx: &Tx<'_>, limit: usize, now: Ms) -> Result<Found, KvError> {
    let (from, to) = key::all_due();
    let (mut due, mut next) = (Vec::new(), None);
    tx.scan(&tx.hot.triggers.due_from.from(from), &to, &mut |key, value| {
        let (at, id) = key::timed(key).ok_or_else(damaged)?;
        if at > now || due.len() == limit {
            next = Some((at, key.to_vec()));
            return Ok(false);
        }
        due.push(Kept::decode_due(id, value)?);
        Ok(true)
    })?;
    let (next, above) = next.map_or((None, to), |(at, key)| (Some(at), key));
    Ok(Found { due, next, above })
}

pub(super) fn settle(tx: &mut Tx<'_>, claim: &Claim, outcome: &Outcome) -> Judged<()> {
    let Some(kept) = stored(tx, &claim.trigger)? else { return Ok(Err(gone(claim))) };
    let run = match rules::settle(&kept.run, claim.fence, &outcome.run) {
        Ok(Some(run)) => run,
        Ok(None) => return Ok(Ok(())),
        Err(why) => return Ok(Err(why)),
    };
    let child = match &outcome.child {
        Some(child) if stored(tx, &child.id)?.is_none() => {
            let (child, apart) = Kept::of(Trigger { version: 1, ..child.clone() }, 0)?;
            Some(Ready::new(child, &[], apart)?)
        }
        _ => None,
    };
    let after = Kept { run, version: kept.version + 1, ..kept.clone() };
    Ready::new(after, &outcome.notes, None)?.write(tx, Some(&kept));
    if let Some(child) = child {
        child.write(tx, None);
    }
    Ok(Ok(()))
}

pub(super) fn renew(tx: &mut Tx<'_>, claim: &Claim, lease_ms: u64, now: Ms) -> Judged<Ms> {
    let Some(kept) = stored(tx, &claim.trigger)? else { return Ok(Err(gone(claim))) };
    let run = match rules::renew(&kept.run, claim.fence, lease_ms, now) {
        Ok(run) => run,
        Err(why) => return Ok(Err(why)),
    };
    let until = run.lease_until;
    let after = Kept { run, version: kept.version + 1, ..kept.clone() };
    Ready::new(after, &[], None)?.write(tx, Some(&kept));
    Ok(Ok(until))
}

fn gone(claim: &Claim) -> Refusal {
    Refusal::NotFound(format!("trigger {}", claim.trigger))
}
