//! Which jobs run, so that a store that is opened again finds them without looking at those that wait. Each batch
//! that claims something writes one record of all it claimed; the record goes when none of it runs any more, and is
//! written anew when less than half of it does. So it costs a part of a row for each job instead of two.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::fence::Fence;
use windlass_core::id::JobId;

use super::index::Running;
use super::record::{In, Out};
use crate::kv::{KvError, Value};
use crate::{key, record};

#[derive(Default)]
pub(super) struct Claims {
    /// By the first fence of its batch.
    all: BTreeMap<u64, Claim>,
    /// Of the batch that is being made.
    open: Option<u64>,
    /// Those that lost a job in this batch.
    touched: BTreeSet<u64>,
}

#[derive(Default)]
struct Claim {
    runs: BTreeSet<JobId>,
    /// Jobs in the record that is stored.
    stored: usize,
}

impl Claims {
    /// A job was delivered under `fence`; answers the claim it belongs to.
    pub(super) fn join(&mut self, id: JobId, fence: Fence) -> u64 {
        let number = *self.open.get_or_insert(fence.0);
        self.all.entry(number).or_default().runs.insert(id);
        number
    }

    pub(super) fn leave(&mut self, id: &JobId, number: u64) {
        if let Some(claim) = self.all.get_mut(&number) {
            claim.runs.remove(id);
            self.touched.insert(number);
        }
    }

    /// A claim as it was found in the store.
    pub(super) fn found(&mut self, number: u64, runs: BTreeSet<JobId>, stored: usize) {
        self.all.insert(number, Claim { runs, stored });
        self.touched.insert(number);
    }

    /// The records that this batch changes.
    pub(super) fn seal(&mut self, running: &HashMap<JobId, Running>) -> Vec<(Vec<u8>, Option<Value>)> {
        let open = self.open.take();
        let mut rows = Vec::new();
        for number in std::mem::take(&mut self.touched).into_iter().chain(open) {
            let Some(claim) = self.all.get_mut(&number) else { continue };
            if claim.runs.is_empty() {
                if claim.stored > 0 {
                    rows.push((key::claimed(number), None));
                }
                self.all.remove(&number);
            } else if claim.stored == 0 || claim.runs.len() * 2 < claim.stored {
                claim.stored = claim.runs.len();
                rows.push((key::claimed(number), Some(encode(&claim.runs, running))));
            }
        }
        rows
    }
}

/// Each job's fence and the key of its place.
fn encode(runs: &BTreeSet<JobId>, running: &HashMap<JobId, Running>) -> Value {
    let mut out = Out(Vec::with_capacity(runs.len() * 48));
    for job in runs.iter().filter_map(|id| running.get(id)) {
        out.number(job.kept.job.fence.0);
        out.text(&key::live_job(&job.kept.job));
    }
    record::encode_bytes(&out.0)
}

/// Fences and keys of places.
pub(super) fn decode(value: &Value) -> Result<Vec<(Fence, Vec<u8>)>, KvError> {
    let mut from = In { bytes: record::decode_bytes(value)?, at: 0 };
    let mut jobs = Vec::new();
    while !from.is_at_end() {
        let fence = Fence(from.number()?);
        jobs.push((fence, from.slice()?.to_vec()));
    }
    Ok(jobs)
}
