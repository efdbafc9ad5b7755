//! Retention of jobs. Ended jobs stand by status and time, the newest first; what one purge has removed lies at the
//! beginning of what the next one would look at. Walking over what was removed costs as much as reading it, so where
//! nothing is left is remembered.

use windlass_core::job::JobStatus;
use windlass_core::time::Ms;

use super::index::Index;
use super::record::Kept;
use crate::key;
use crate::kv::{KvError, Read as _};
use crate::tx::Tx;

/// Gaps that are remembered, at most.
const GAPS_MAX: usize = 16;

/// A run of keys: from the first up to but not including the second.
type Run = (Vec<u8>, Vec<u8>);

/// Runs of keys of ended jobs between which there is nothing, in order and apart from each other.
#[derive(Default)]
pub(super) struct Purged(Vec<Run>);

impl Purged {
    /// Something is to be written at `place`.
    pub(super) fn forget(&mut self, place: &[u8]) {
        if !self.0.is_empty() {
            self.0.retain(|(from, to)| place < from.as_slice() || to.as_slice() <= place);
        }
    }

    /// The parts of a run that are in no gap.
    fn rest(&self, (mut from, to): Run) -> Vec<Run> {
        let mut rest = Vec::new();
        for (start, end) in &self.0 {
            if *end <= from {
                continue;
            }
            if *start >= to {
                break;
            }
            if *start > from {
                rest.push((from, start.clone()));
            }
            from = end.clone();
        }
        if from < to {
            rest.push((from, to));
        }
        rest
    }

    /// There is nothing in a run any more.
    fn add(&mut self, (mut from, mut to): Run) {
        self.0.retain(|(start, end)| {
            let meets = *start <= to && from <= *end;
            if meets {
                from = from.clone().min(start.clone());
                to = to.clone().max(end.clone());
            }
            !meets
        });
        let at = self.0.partition_point(|(start, _)| *start < from);
        self.0.insert(at, (from, to));
        // The oldest gap is the last of its status; any may be forgotten.
        self.0.truncate(GAPS_MAX);
    }
}

impl Index {
    /// Forgets up to `limit` jobs that ended before `before`.
    pub(super) fn purge(&mut self, tx: &mut Tx<'_>, before: Ms, limit: u32) -> Result<u32, KvError> {
        let mut gone = 0;
        for status in [JobStatus::Failed, JobStatus::Cancelled, JobStatus::Completed] {
            for (from, to) in self.purged.rest(key::jobs_ended_before(status, before)) {
                let room = (limit - gone) as usize;
                if room == 0 {
                    return Ok(gone);
                }
                let mut old = Vec::new();
                let mut last = None;
                tx.scan(&from, &to, &mut |key, value| {
                    old.push(Kept::decode(value)?);
                    last = Some(key.to_vec());
                    Ok(old.len() < room)
                })?;
                for kept in &old {
                    Self::forget(tx, kept)?;
                }
                gone += old.len() as u32;
                let end = match last.filter(|_| old.len() == room) {
                    Some(mut last) => {
                        // The smallest key that is larger.
                        last.push(0);
                        last
                    }
                    None => to,
                };
                self.purged.add((from, end));
            }
        }
        Ok(gone)
    }
}

#[cfg(test)]
mod tests;
