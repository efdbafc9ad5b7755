//! The store on disk: fjall, with bounds that keep memory and recovery small.

use std::cell::OnceCell;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, Snapshot};

use super::{Batch, Kv, KvError, Read, Survives, Value, Visit};
use crate::chain;
use crate::error::OpenError;
use crate::mark::Mark;

/// What this program writes, in the file `FORMAT`.
const FORMAT: &str = "windlass-embedded 1";
const FORMAT_FILE: &str = "FORMAT";
/// Held by the process that has the folder open.
const LOCK_FILE: &str = "LOCK";

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
/// Tables are synced when they are full, and merged with those below them: the smaller they are, the shorter a commit
/// waits for a disk that is busy with them.
const TABLE_BYTES: u64 = 8 << 20;

/// No store has this many batches.
const SEQNO_MAX: u64 = 1 << 62;

/// A folder with a fjall database, its format and its mark.
pub struct Disk {
    db: Database,
    rows: Keyspace,
    mark: Mark,
    /// The last to go.
    _lock: File,
}

impl Disk {
    /// Opens `folder`, making it if it is not there.
    pub fn open(folder: &Path, options: &Options) -> Result<Disk, OpenError> {
        let io = |error: std::io::Error| OpenError::Io { folder: folder.into(), why: error.to_string() };
        std::fs::create_dir_all(folder).map_err(io)?;
        let lock = lock(folder)?;
        let data = folder.join("data");
        if !check_format(folder, &data)? {
            write_format(folder).map_err(io)?;
        }
        if !data.exists() {
            create(folder, &data, options)?;
        }
        // fjall asserts where it reads damaged lengths; to whoever opens a store that is an error too.
        let opened = std::panic::catch_unwind(|| open(&data, options)).map_err(|panic| {
            let why = panic.downcast_ref::<String>().map_or("its journal cannot be read", |why| why.as_str());
            OpenError::Corrupt { folder: folder.into(), why: why.into() }
        })?;
        let (db, rows) = opened.map_err(|error| open_error(folder, error))?;
        let mark = Mark::open(folder).map_err(io)?;
        let disk = Disk { db, rows, mark, _lock: lock };
        disk.check_mark(folder, options)?;
        Ok(disk)
    }

    /// Refuses to go on when fewer batches are there than were acknowledged, or when one is missing
    /// among them: fjall ends its recovery silently at the first damaged batch of a journal.
    fn check_mark(&self, folder: &Path, options: &Options) -> Result<(), OpenError> {
        let damaged = |why: KvError| OpenError::Corrupt { folder: folder.into(), why: why.to_string() };
        let io = |error: std::io::Error| OpenError::Io { folder: folder.into(), why: error.to_string() };
        // A flipped bit in a batch's number, which fjall does not check, can leave none for the next one.
        if self.db.seqno() >= SEQNO_MAX {
            return Err(damaged(KvError::Corrupt("the numbers of its batches are damaged".into())));
        }
        let chain::Chain { last: found, broken } = chain::walk(&*self.read()).map_err(damaged)?;
        let acknowledged = self.mark.read();
        if found < acknowledged && !options.accept_loss {
            return Err(OpenError::Lost { folder: folder.into(), found, acknowledged });
        }
        match broken {
            Some(after) if !options.accept_loss => {
                return Err(OpenError::Hole { folder: folder.into(), after, found });
            }
            Some(_) => self.commit(chain::mended(found), Survives::PowerLoss).map_err(damaged)?,
            None => {}
        }
        self.mark.reset(found).map_err(io)
    }

    /// Bytes on disk, journals included.
    pub fn disk_bytes(&self) -> Result<u64, KvError> {
        Ok(self.db.disk_space()?)
    }
}

/// One process at a time, from the first file on.
fn lock(folder: &Path) -> Result<File, OpenError> {
    let io = |error: std::io::Error| OpenError::Io { folder: folder.into(), why: error.to_string() };
    let file = File::options().create(true).truncate(false).write(true).open(folder.join(LOCK_FILE)).map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked(folder.into())),
        Err(TryLockError::Error(error)) => Err(io(error)),
    }
}

fn open(data: &Path, options: &Options) -> Result<(Database, Keyspace), fjall::Error> {
    let db = Database::builder(data)
        .cache_size(options.cache_bytes)
        .max_journaling_size(JOURNAL_BYTES_MAX)
        .worker_threads(2)
        .open()?;
    let tables = Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES));
    let rows = KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES_MAX).compaction_strategy(tables);
    let rows = db.keyspace("rows", || rows)?;
    Ok((db, rows))
}

/// Makes the database under another name first: fjall does not open what was half made when its
/// process died.
fn create(folder: &Path, data: &Path, options: &Options) -> Result<(), OpenError> {
    let io = |error: std::io::Error| OpenError::Io { folder: folder.into(), why: error.to_string() };
    let draft = folder.join("data.new");
    if draft.exists() {
        std::fs::remove_dir_all(&draft).map_err(io)?;
    }
    drop(open(&draft, options).map_err(|error| open_error(folder, error))?);
    std::fs::rename(&draft, data).and_then(|()| File::open(folder)?.sync_all()).map_err(io)
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
fn check_format(folder: &Path, data: &Path) -> Result<bool, OpenError> {
    let foreign = |found: &str| OpenError::Format { folder: folder.into(), found: found.into(), expected: FORMAT };
    match std::fs::read_to_string(folder.join(FORMAT_FILE)) {
        Ok(found) if found.trim() == FORMAT => Ok(true),
        Ok(found) => Err(foreign(found.trim())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && data.exists() => Err(foreign("")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(OpenError::Io { folder: folder.into(), why: error.to_string() }),
    }
}

/// Names the format before there is any data, whole or not at all: a crash or a power loss must not
/// leave acknowledged writes beside an empty name.
fn write_format(folder: &Path) -> std::io::Result<()> {
    let draft = folder.join("FORMAT.new");
    let mut file = File::create(&draft)?;
    file.write_all(FORMAT.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, folder.join(FORMAT_FILE))?;
    File::open(folder)?.sync_all()?;
    // The folder's own name may be new too.
    match folder.canonicalize()?.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// A moment's view, from its first look on: a batch of boundary commits needs none.
struct View<'a> {
    disk: &'a Disk,
    snapshot: OnceCell<Snapshot>,
}

impl View<'_> {
    fn snapshot(&self) -> &Snapshot {
        self.snapshot.get_or_init(|| self.disk.db.snapshot())
    }
}

impl Read for View<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, KvError> {
        Ok(self.snapshot().get(&self.disk.rows, key)?)
    }

    fn scan(&self, from: &[u8], to: &[u8], visit: &mut Visit<'_>) -> Result<(), KvError> {
        if from >= to {
            return Ok(());
        }
        for entry in self.snapshot().range(&self.disk.rows, from..to) {
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
        Box::new(View { disk: self, snapshot: OnceCell::new() })
    }

    fn commit(&self, batch: Batch, survives: Survives) -> Result<(), KvError> {
        let mode = match survives {
            Survives::Kill => PersistMode::Buffer,
            Survives::PowerLoss => PersistMode::SyncData,
        };
        let mut write = fjall::OwnedWriteBatch::with_capacity(self.db.clone(), batch.len()).durability(Some(mode));
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
