//! Where a table begins. What was claimed leaves marks of its removal at the head of the table until they are compacted
//! away, and whoever begins at the head walks over all of them: so it is remembered below which key there is nothing.

use std::sync::{Mutex, PoisonError};

/// Below this key the table is empty.
#[derive(Default)]
pub(crate) struct Low(Mutex<Vec<u8>>);

impl Low {
    /// Where a walk that wants everything from `from` on may begin. Ask this after the moment is fixed that the walk
    /// sees: what moves down afterwards is not in it.
    pub(crate) fn from(&self, from: Vec<u8>) -> Vec<u8> {
        let low = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        from.max(low.clone())
    }

    /// There is nothing below `key` any more.
    pub(crate) fn raise(&self, key: Vec<u8>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// `key` is written.
    pub(crate) fn lower(&self, key: &[u8]) {
        let mut low = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if key < low.as_slice() {
            *low = key.to_vec();
        }
    }
}
