//! The machine's own limits: what the disk and the engine do with nothing of ours above them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_store_embedded::Options;
use windlass_store_embedded::kv::disk::Disk;
use windlass_store_embedded::kv::{Batch, Kv, Survives};

use super::{Row, Timer};

/// A raw row: a key of 16 bytes and a value of this many.
const ROW_BYTES: usize = 100;

/// `fdatasync` after each 4 KiB appended.
pub(super) fn sync(folder: &Path, run: Duration) -> anyhow::Result<Row> {
    use std::io::Write as _;
    let path = folder.join("sync-probe");
    let mut file = std::fs::File::create(&path).context("cannot write the sync probe")?;
    let mut timer = Timer::new()?;
    let began = Instant::now();
    while began.elapsed() < run {
        let one = Instant::now();
        file.write_all(&[7; 4096])?;
        rustix::fs::fdatasync(&file)?;
        timer.add(one, 1);
    }
    let row = timer.row("limit: fdatasync", "disk", 1, "syncs", began.elapsed());
    std::fs::remove_file(path)?;
    Ok(row)
}

/// The engine alone: durable batches of `rows` rows.
pub(super) fn engine(folder: &Path, rows: u64, run: Duration) -> anyhow::Result<Row> {
    let mut raw = Raw::open(folder, rows)?;
    while raw.spent < run {
        raw.commit()?;
    }
    raw.row()
}

/// The engine alone, commit by commit. A disk's latency drifts within seconds: who is judged by this measures it between
/// what it measures itself.
pub(super) struct Raw {
    folder: PathBuf,
    disk: Disk,
    rows: u64,
    next: u64,
    timer: Timer,
    spent: Duration,
}

impl Raw {
    pub(super) fn open(folder: &Path, rows: u64) -> anyhow::Result<Raw> {
        let folder = folder.join(format!("raw-{rows}"));
        let disk = Disk::open(&folder, &Options::default())?;
        Ok(Raw { folder, disk, rows, next: 0, timer: Timer::new()?, spent: Duration::ZERO })
    }

    /// One more.
    pub(super) fn commit(&mut self) -> anyhow::Result<()> {
        let mut batch = Batch::new();
        for _ in 0..self.rows {
            self.next += 1;
            // Scattered over the key space, as ids are.
            let key = [self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), self.next.to_be_bytes()].concat();
            batch.insert(key, Some(vec![b'x'; ROW_BYTES].into()));
        }
        let one = Instant::now();
        self.disk.commit(batch, Survives::PowerLoss)?;
        self.timer.add(one, self.rows);
        self.spent += one.elapsed();
        Ok(())
    }

    /// How long they took together.
    pub(super) const fn spent(&self) -> Duration {
        self.spent
    }

    /// All of them; what was written goes.
    pub(super) fn row(self) -> anyhow::Result<Row> {
        let row = self.timer.row(&format!("limit: raw batch of {}", self.rows), "fjall", 1, "rows", self.spent);
        drop(self.disk);
        std::fs::remove_dir_all(self.folder)?;
        Ok(row)
    }
}
