//! The sequence mark: how many batches were acknowledged, in a file of its own. Written after every
//! commit without a sync of its own (a second one would cost 1.7×), so after a power loss it may be
//! behind, but it is never ahead of what was durable: if fewer batches come back than it says, the
//! journal has lost some.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The file's name in the store's folder.
pub const MARK_FILE: &str = "MARK";

/// Two slots, written in turn, so that a torn write leaves the other one whole.
const SLOT_BYTES: usize = 512;

pub(crate) struct Mark {
    file: File,
    turn: AtomicU64,
}

impl Mark {
    pub(crate) fn open(folder: &Path) -> io::Result<Mark> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(MARK_FILE))?;
        Ok(Mark { file, turn: AtomicU64::new(0) })
    }

    /// The higher of the slots that are whole; 0 if none is.
    pub(crate) fn read(&self) -> u64 {
        (0..2).filter_map(|slot| self.slot(slot)).max().unwrap_or(0)
    }

    fn slot(&self, slot: u64) -> Option<u64> {
        let mut bytes = [0; 12];
        self.file.read_exact_at(&mut bytes, slot * SLOT_BYTES as u64).ok()?;
        let (seq, sum) = bytes.split_at(8);
        let sum = u32::from_le_bytes(sum.try_into().ok()?);
        (crc32fast::hash(seq) == sum).then(|| u64::from_le_bytes(seq.try_into().unwrap_or_default()))
    }

    pub(crate) fn write(&self, seq: u64) -> io::Result<()> {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&seq.to_le_bytes());
        bytes[8..].copy_from_slice(&crc32fast::hash(&seq.to_le_bytes()).to_le_bytes());
        let slot = self.turn.fetch_add(1, Ordering::Relaxed) % 2;
        self.file.write_all_at(&bytes, slot * SLOT_BYTES as u64)
    }

    /// Both slots anew: after a loss that was accepted, neither may go on telling of more.
    pub(crate) fn reset(&self, seq: u64) -> io::Result<()> {
        self.write(seq)?;
        self.write(seq)?;
        self.sync()
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_higher_whole_slot_counts() {
        let folder = tempfile::tempdir().unwrap();
        let mark = Mark::open(folder.path()).unwrap();
        assert_eq!(mark.read(), 0);
        mark.write(7).unwrap();
        mark.write(8).unwrap();
        assert_eq!(Mark::open(folder.path()).unwrap().read(), 8);
        mark.file.write_all_at(&[0xff; 4], SLOT_BYTES as u64).unwrap();
        assert_eq!(mark.read(), 7, "a torn slot leaves the other");
    }
}
