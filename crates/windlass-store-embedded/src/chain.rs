//! The chain of batches: what makes a batch that is missing in the middle visible at open. The mark
//! only tells that the end is there; fjall also drops the rest of a damaged journal when newer
//! journals follow it, and its checksums do not cover the number that orders a batch.
//!
//! Batch n writes its own link and closes the link before it. A batch that is gone, or was replayed
//! out of order, leaves a link open. Links are a ring, so that they are bounded without deleting
//! anything. The ring is longer than what can be in journals and not yet
//! in tables: 8 MiB of memory hold 73 thousand of the smallest batches, a lease and nothing else.
//! Walking all of it at open takes 0.08 s.

use crate::key;
use crate::kv::{Batch, KvError, Read};
use crate::record;

/// Links that are kept.
const LINKS: u64 = 1 << 18;

/// What the links tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The number of the last batch that is there; 0 if there is none.
    pub(crate) last: u64,
    /// The number of the first batch after which the chain is broken.
    pub(crate) broken: Option<u64>,
}

/// Adds the links of batch `seq`.
pub(crate) fn link(batch: &mut Batch, seq: u64) {
    batch.insert(key_of(seq), Some(record::encode_u64(open(seq))));
    // The first closes a link that nobody wrote, so that it can be missed too.
    batch.insert(key_of(seq - 1), Some(record::encode_u64(closed(seq - 1))));
}

/// Walks the ring.
pub(crate) fn walk(read: &dyn Read) -> Result<Chain, KvError> {
    let mut links = Vec::new();
    let (from, to) = key::links();
    read.scan(&from, &to, &mut |_, value| {
        links.push(record::decode_u64(value)?);
        Ok(true)
    })?;
    let Some(last) = links.iter().map(|link| link / 2).max() else { return Ok(Chain { last: 0, broken: None }) };
    let first = first(last);
    let mut whole = vec![false; (last + 1 - first) as usize];
    for link in links {
        let seq = link / 2;
        if seq >= first && link == state(seq, last) {
            whole[(seq - first) as usize] = true;
        }
    }
    let broken = whole.iter().position(|whole| !whole).map(|place| first + place as u64);
    Ok(Chain { last, broken })
}

/// The chain as it would be if nothing were missing: how a loss is accepted.
pub(crate) fn mended(last: u64) -> Batch {
    (first(last)..=last).map(|seq| (key_of(seq), Some(record::encode_u64(state(seq, last))))).collect()
}

/// The oldest link that is still there once batch `last` is.
fn first(last: u64) -> u64 {
    last.saturating_sub(LINKS - 1)
}

fn key_of(seq: u64) -> Vec<u8> {
    key::link((seq % LINKS) as u32)
}

/// How the link of `seq` stands once batch `last` is there.
fn state(seq: u64, last: u64) -> u64 {
    if seq == last { open(seq) } else { closed(seq) }
}

fn open(seq: u64) -> u64 {
    seq * 2
}

fn closed(seq: u64) -> u64 {
    seq * 2 + 1
}

#[cfg(test)]
mod tests;
