//! The rows that boundary commits ask for, as the writer last wrote them: those of tasks that run,
//! and of their tenants. Nobody else writes, and a batch that fails ends the writer, so what is here
//! is what is stored. Tasks that only wait are not written, and leave: what they are is stored.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use windlass_core::fence::Fence;
use windlass_core::id::{TaskId, TenantId};
use windlass_core::port::state::TenantRow;

use crate::job::index::Index;
use crate::trigger;
use crate::tx::Kept;

/// See the module.
#[derive(Default)]
pub(crate) struct Hot {
    pub(crate) tasks: Lately<TaskId, Kept>,
    pub(crate) tenants: Lately<TenantId, TenantRow>,
    /// What is known of jobs, once somebody has asked.
    pub(crate) jobs: Option<Box<Index>>,
    pub(crate) triggers: trigger::Hot,
    /// The last that was drawn since the store was opened.
    pub(crate) fence: Option<Fence>,
    /// The highest that may be drawn before another is stored.
    pub(crate) fence_max: Fence,
}

/// What was written last is kept, at least this many rows and at most twice as many; others are read from the store.
const LATELY: usize = 2_048;

/// What was written lately: in the younger half or, if as many others were written since, in the older one, which
/// goes when the younger is full.
pub(crate) struct Lately<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K, V> Default for Lately<K, V> {
    fn default() -> Self {
        Lately { young: HashMap::new(), old: HashMap::new() }
    }
}

impl<K: Hash + Eq + Borrow<str>, V> Lately<K, V> {
    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= LATELY && !self.young.contains_key(key.borrow()) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(key.borrow());
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests;
