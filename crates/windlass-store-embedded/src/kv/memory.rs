//! `memory:`: the same store over a `BTreeMap`.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use super::{Batch, Kv, KvError, Read, Survives, Value, Visit};

/// An ordered map in memory. Durable as long as it is not dropped.
#[derive(Default)]
pub struct Memory(RwLock<BTreeMap<Vec<u8>, Value>>);

struct View<'a>(RwLockReadGuard<'a, BTreeMap<Vec<u8>, Value>>);

impl Read for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, KvError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), KvError> {
        if from >= to {
            return Ok(());
        }
        for (key, value) in self.0.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))) {
            if !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

impl Kv for Memory {
    fn read(&self) -> Box<dyn Read + '_> {
        // A panic while holding the lock cannot leave half a batch: applying one cannot panic.
        Box::new(View(self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }

    fn commit(&self, batch: Batch, _: Survives) -> Result<(), KvError> {
        let mut map = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in batch {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
        Ok(())
    }

    fn mark(&self, _seq: u64) -> Result<(), KvError> {
        Ok(())
    }

    fn close(&self) -> Result<(), KvError> {
        Ok(())
    }
}
