//! The small key-value interface that the store's rules stand on.

pub mod disk;
pub mod memory;

pub use crate::error::KvError;

use std::collections::BTreeMap;

/// A stored value; cheap to clone.
pub type Value = fjall::Slice;

/// Writes that belong together: the key with its new value, or `None` to remove it.
pub type Batch = BTreeMap<Vec<u8>, Option<Value>>;

/// A moment's view: whole batches only.
pub trait Read {
    /// The value at `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Value>, KvError>;

    /// Shows `visit` every entry from `from` up to but not including `to`, in order, until it
    /// answers `false`.
    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), KvError>;
}

/// What a scan calls; `false` ends it.
pub type Visit<'a> = dyn FnMut(&[u8], &Value) -> Result<bool, KvError> + 'a;

/// What a batch outlives once it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survives {
    /// The end of the process, however it comes.
    Kill,
    /// That, and the end of the machine.
    PowerLoss,
}

/// An ordered map with atomic, durable batches.
pub trait Kv: Send + Sync {
    /// What is there now.
    fn read(&self) -> Box<dyn Read + '_>;

    /// Writes `batch`, whole or not at all. When it returns, the batch survives what is said, as does every one
    /// before it, and only then can it be read. After an error nothing more may be written.
    fn commit(&self, batch: Batch, survives: Survives) -> Result<(), KvError>;

    /// Notes that the batch numbered `seq` was committed. Need not survive power loss.
    fn mark(&self, seq: u64) -> Result<(), KvError>;

    /// Before the end: everything reaches the disk.
    fn close(&self) -> Result<(), KvError>;
}
