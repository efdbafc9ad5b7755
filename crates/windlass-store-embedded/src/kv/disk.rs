//! The store on disk: fjall, with bounds that keep memory and recovery small.

use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::{Batch, Kv, KvError, Read, Value, Visit};
use crate::error::OpenError;
use crate::mark::Mark;

/// What this program writes, in the file `FORMAT`.
const FORMAT: &str = "windlass-embedded 1";
const FORMAT_FILE: &str = "FORMAT";

/// How to open a store on disk.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory for blocks that were read.
    pub cache_bytes: u64,
    /// Go on although acknowledged writes are missing.
    pub accept_loss: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { cache_bytes: 64 << 20, accept_loss: false }
    }
}

/// Journals are replayed at open, so their size is the time a restart takes.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;
const MEMTABLE_BYTES_MAX: u64 = 8 << 20;

/// A folder with a fjall database, its format and its mark.
pub struct Disk {
    db: Database,
    rows: Keyspace,
    mark: Mark,
}

impl Disk {
    /// Opens `folder`, making it if it is not there.
    pub fn open(folder: &Path, options: &Options) -> Result<Disk, OpenError> {
        let io = |error: std::io::Error| OpenError::Io { folder: folder.into(), why: error.to_string() };
        std::fs::create_dir_all(folder).map_err(io)?;
        let known = check_format(folder)?;
        let data = folder.join("data");
        let db = Database::builder(&data)
            .cache_size(options.cache_bytes)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .worker_threads(2)
            .open()
            .map_err(|error| open_error(folder, error))?;
        let rows = db
            .keyspace("rows", || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES_MAX))
            .map_err(|error| open_error(folder, error))?;
        if !known {
            std::fs::write(folder.join(FORMAT_FILE), FORMAT).map_err(io)?;
        }
        let mark = Mark::open(folder).map_err(io)?;
        let disk = Disk { db, rows, mark };
        disk.check_mark(folder, options)?;
        Ok(disk)
    }

    /// Refuses to go on when fewer batches are there than were acknowledged: fjall ends its recovery
    /// silently at the first damaged batch of its journal.
    fn check_mark(&self, folder: &Path, options: &Options) -> Result<(), OpenError> {
        let found = super::sequence(self).map_err(|error| match error {
            OpenError::Corrupt { why, .. } => OpenError::Corrupt { folder: folder.into(), why },
            other => other,
        })?;
        let acknowledged = self.mark.read();
        if found < acknowledged && !options.accept_loss {
            return Err(OpenError::Lost { folder: folder.into(), found, acknowledged });
        }
        let io = |error: std::io::Error| OpenError::Io { folder: folder.into(), why: error.to_string() };
        self.mark.write(found).and_then(|()| self.mark.sync()).map_err(io)
    }

    /// Bytes on disk, journals included.
    pub fn disk_bytes(&self) -> Result<u64, KvError> {
        Ok(self.db.disk_space()?)
    }
}

fn open_error(folder: &Path, error: fjall::Error) -> OpenError {
    let folder: PathBuf = folder.into();
    match error {
        fjall::Error::Locked => OpenError::Locked(folder),
        fjall::Error::Io(error) => OpenError::Io { folder, why: error.to_string() },
        other => OpenError::Corrupt { folder, why: other.to_string() },
    }
}

/// Whether the folder names a format, which must be the known one. A folder with data and without
/// a format is somebody else's.
fn check_format(folder: &Path) -> Result<bool, OpenError> {
    match std::fs::read_to_string(folder.join(FORMAT_FILE)) {
        Ok(found) if found.trim() == FORMAT => Ok(true),
        Ok(found) => Err(OpenError::Format { folder: folder.into(), found: found.trim().into(), expected: FORMAT }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(OpenError::Io { folder: folder.into(), why: error.to_string() }),
    }
}

struct View<'a> {
    rows: &'a Keyspace,
    snapshot: Snapshot,
}

impl Read for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, KvError> {
        Ok(self.snapshot.get(self.rows, key)?)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), KvError> {
        if from >= to {
            return Ok(());
        }
        for entry in self.snapshot.range(self.rows, from..to) {
            let (key, value) = entry.into_inner()?;
            if !visit(&key, &value)? {
                break;
            }
        }
        Ok(())
    }
}

impl Kv for Disk {
    fn read(&self) -> Box<dyn Read + '_> {
        Box::new(View { rows: &self.rows, snapshot: self.db.snapshot() })
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let mut write =
            fjall::OwnedWriteBatch::with_capacity(self.db.clone(), batch.len()).durability(Some(PersistMode::SyncData));
        for (key, value) in batch {
            match value {
                Some(value) => write.insert(&self.rows, key, value),
                None => write.remove(&self.rows, key),
            }
        }
        Ok(write.commit()?)
    }

    fn mark(&self, seq: u64) -> Result<(), KvError> {
        self.mark.write(seq).map_err(|error| KvError::Io(error.to_string()))
    }

    fn close(&self) -> Result<(), KvError> {
        self.db.persist(PersistMode::SyncAll)?;
        self.mark.sync().map_err(|error| KvError::Io(error.to_string()))
    }
}
