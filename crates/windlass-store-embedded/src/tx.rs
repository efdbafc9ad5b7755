//! One batch in the making: what is stored, with the writes of this batch over it, so that each
//! caller's work sees what the work before it in the same batch has done.

use std::ops::Bound;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, TaskId, TenantId};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::port::state::{TaskRow, TenantRow};
use windlass_core::time::Ms;

use crate::hot::Hot;
use crate::job::index::Index;
use crate::kv::{Batch, KvError, Read, Value, Visit};
use crate::{chain, job, key, record};

/// Typed reads of anything that has bytes.
pub(crate) trait Records: Read {
    fn record<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, KvError> {
        self.get(key)?.map(|value| record::decode(&value)).transpose()
    }

    fn get_is_some(&self, key: &[u8]) -> Result<bool, KvError> {
        Ok(self.get(key)?.is_some())
    }
}

impl<R: Read + ?Sized> Records for R {}

/// A task as it is stored: its row, and its checkpoint beside it unless that is large, so that a
/// boundary is one record less. A large one has a record of its own, so that reading a task does not
/// read that.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept {
    pub(crate) row: TaskRow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) saved: Option<Json>,
}

/// Fences go with the clock's microseconds: ten seconds of them are stored at once.
const FENCES: u64 = 10_000_000;

pub(crate) struct Tx<'a> {
    stored: &'a dyn Read,
    pub(crate) hot: &'a mut Hot,
    batch: Batch,
    /// The store's clock, in microseconds, for the whole batch.
    clock_us: u64,
    /// It is acknowledged only once it survives power loss.
    pub(crate) lasts: bool,
    /// Something was written that somebody may be waiting for.
    pub(crate) state_changed: bool,
    pub(crate) locks_changed: bool,
    pub(crate) jobs_changed: bool,
    /// Jobs that ended.
    pub(crate) ended: Vec<JobId>,
    pub(crate) triggers_changed: bool,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(stored: &'a dyn Read, hot: &'a mut Hot, clock_us: u64) -> Tx<'a> {
        Tx {
            stored,
            hot,
            batch: Batch::new(),
            clock_us,
            lasts: false,
            state_changed: false,
            locks_changed: false,
            jobs_changed: false,
            ended: Vec::new(),
            triggers_changed: false,
        }
    }

    pub(crate) fn now(&self, ahead_ms: u64) -> Ms {
        Ms::new(self.clock_us / 1000).plus(ahead_ms)
    }

    pub(crate) fn task(&self, id: &TaskId) -> Result<Option<TaskRow>, KvError> {
        match self.hot.tasks.get(id.as_str()) {
            Some(kept) => Ok(Some(kept.row.clone())),
            None => Ok(self.record::<Kept>(&key::task(id))?.map(|kept| kept.row)),
        }
    }

    /// The same without a copy, if it was written lately.
    pub(crate) fn hot_task(&self, id: &TaskId) -> Option<&TaskRow> {
        self.hot.tasks.get(id.as_str()).map(|kept| &kept.row)
    }

    /// The checkpoint that is stored beside the task.
    pub(crate) fn saved(&self, id: &TaskId) -> Result<Option<Json>, KvError> {
        match self.hot.tasks.get(id.as_str()) {
            Some(kept) => Ok(kept.saved.clone()),
            None => Ok(self.record::<Kept>(&key::task(id))?.and_then(|kept| kept.saved)),
        }
    }

    /// Stores a task; `encoded` is its record.
    pub(crate) fn put_task(&mut self, kept: Kept, encoded: Value) {
        self.put(key::task(&kept.row.task.id), encoded);
        match kept.row.task.owner.is_some() {
            true => self.hot.tasks.insert(kept.row.task.id.clone(), kept),
            false => self.hot.tasks.remove(kept.row.task.id.as_str()),
        }
    }

    pub(crate) fn remove_task(&mut self, id: &TaskId) {
        self.hot.tasks.remove(id.as_str());
        self.remove(key::task(id));
    }

    pub(crate) fn tenant(&self, id: &TenantId) -> Result<Option<TenantRow>, KvError> {
        match self.hot.tenants.get(id.as_str()) {
            Some(row) => Ok(Some(row.clone())),
            None => self.record(&key::tenant(id)),
        }
    }

    pub(crate) fn put_tenant(&mut self, id: TenantId, row: TenantRow) -> Result<(), KvError> {
        self.put_record(key::tenant(&id), &row)?;
        match row.started.is_some() {
            true => self.hot.tenants.insert(id, row),
            false => self.hot.tenants.remove(id.as_str()),
        }
        Ok(())
    }

    /// Lends `work` the index of jobs, which is made by whoever comes first.
    pub(crate) fn with_jobs<T>(
        &mut self,
        work: impl FnOnce(&mut Self, &mut Index) -> Result<T, PortError>,
    ) -> Result<T, PortError> {
        let mut index = match self.hot.jobs.take() {
            Some(index) => index,
            None => Box::new(job::open(self)?),
        };
        let done = work(self, &mut index);
        self.hot.jobs = Some(index);
        done
    }

    pub(crate) fn put(&mut self, key: Vec<u8>, value: Value) {
        self.batch.insert(key, Some(value));
    }

    /// Encodes first, so that a record that cannot be written leaves the batch as it was.
    pub(crate) fn put_record<T: Serialize>(&mut self, key: Vec<u8>, record: &T) -> Result<(), KvError> {
        let value = record::encode(record)?;
        self.put(key, value);
        Ok(())
    }

    pub(crate) fn remove(&mut self, key: Vec<u8>) {
        self.batch.insert(key, None);
    }

    /// The next fence: one counter for the whole store. What is stored is the highest that may be drawn before the
    /// next one is stored, so that no fence is drawn twice although not every draw outlives a power loss.
    pub(crate) fn draw_fence(&mut self) -> Result<Fence, KvError> {
        let last = match self.hot.fence {
            Some(last) => last,
            None => Fence(self.get(key::FENCE)?.map_or(Ok(0), |value| record::decode_u64(&value))?),
        };
        let next = Fence::next(last, self.clock_us);
        self.hot.fence = Some(next);
        if next > self.hot.fence_max {
            self.hot.fence_max = Fence(next.0.saturating_add(FENCES));
            self.put(key::FENCE.to_vec(), record::encode_u64(self.hot.fence_max.0));
            self.lasts = true;
        }
        Ok(next)
    }

    /// What is to be committed: empty if nothing was written.
    pub(crate) fn into_batch(mut self, seq: u64) -> Batch {
        if let Some(index) = &mut self.hot.jobs {
            let batch = &mut self.batch;
            index.seal(|key, value| drop(batch.insert(key, value)));
        }
        if !self.batch.is_empty() {
            chain::link(&mut self.batch, seq);
        }
        self.batch
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }
}

impl Read for Tx<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, KvError> {
        match self.batch.get(key) {
            Some(written) => Ok(written.clone()),
            None => self.stored.get(key),
        }
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), KvError> {
        if from >= to {
            return Ok(());
        }
        let mut written = self.batch.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))).peekable();
        let mut go_on = true;
        self.stored.scan(from, to, &mut |key, value| {
            while let Some((new, change)) = written.next_if(|(new, _)| new.as_slice() < key) {
                if let Some(value) = change {
                    go_on = visit(new, value)?;
                    if !go_on {
                        return Ok(false);
                    }
                }
            }
            go_on = match written.next_if(|(new, _)| new.as_slice() == key) {
                Some((_, Some(value))) => visit(key, value)?,
                Some((_, None)) => true,
                None => visit(key, value)?,
            };
            Ok(go_on)
        })?;
        for (new, change) in written {
            match change {
                Some(value) if go_on => go_on = visit(new, value)?,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
