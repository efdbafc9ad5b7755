//! The chain of batches: what makes a batch that is missing in the middle visible at open. The mark
//! only tells that the end is there; fjall also drops the rest of a damaged journal when newer
//! journals follow it, and its checksums do not cover the number that orders a batch.
//!
//! Batch n writes its own link and closes the link before it. A batch that is gone leaves its link
//! unwritten, one that is replayed out of order leaves a link open. Links are a ring, so that they
//! are bounded without deleting anything; it is longer than what journals hold that are not in
//! tables yet (8 MiB of memory at a time, a batch no smaller than 0.4 KiB).

use crate::key;
use crate::kv::{Batch, KvError, Read};
use crate::record;

/// Links that are kept.
const LINKS: u64 = 1 << 16;

/// Adds the links of batch `seq`.
pub(crate) fn link(batch: &mut Batch, seq: u64) {
    batch.insert(key::SEQUENCE.to_vec(), Some(record::encode_u64(seq)));
    batch.insert(key_of(seq), Some(record::encode_u64(open(seq))));
    if seq > 1 {
        batch.insert(key_of(seq - 1), Some(record::encode_u64(closed(seq - 1))));
    }
}

/// The number of the first batch that is missing or out of order among those up to `last`.
pub(crate) fn broken(read: &dyn Read, last: u64) -> Result<Option<u64>, KvError> {
    let first = last.saturating_sub(LINKS - 1).max(1);
    let mut expected = (first..=last).collect::<std::collections::BTreeSet<u64>>();
    let (from, to) = key::links();
    read.scan(&from, &to, &mut |_, value| {
        let link = record::decode_u64(value)?;
        let seq = link / 2;
        if link == state(seq, last) {
            expected.remove(&seq);
        }
        Ok(true)
    })?;
    Ok(expected.first().copied())
}

/// The chain as it would be if nothing were missing: how a loss is accepted.
pub(crate) fn mended(last: u64) -> Batch {
    let first = last.saturating_sub(LINKS - 1).max(1);
    (first..=last).map(|seq| (key_of(seq), Some(record::encode_u64(state(seq, last))))).collect()
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
