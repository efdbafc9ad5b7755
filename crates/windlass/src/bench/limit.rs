//! The machine's own limits: what the disk and the engine do with nothing of ours above them.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use windlass_store_embedded::Options;
use windlass_store_embedded::kv::disk::Disk;
use windlass_store_embedded::kv::{Batch, Kv};

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
    let folder = folder.join(format!("raw-{rows}"));
    let disk = Disk::open(&folder, &Options::default())?;
    let mut timer = Timer::new()?;
    let mut next = 0u64;
    let began = Instant::now();
    while began.elapsed() < run {
        let mut batch = Batch::new();
        for _ in 0..rows {
            next += 1;
            // Scattered over the key space, as ids are.
            let key = [next.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), next.to_be_bytes()].concat();
            batch.insert(key, Some(vec![b'x'; ROW_BYTES].into()));
        }
        let one = Instant::now();
        disk.commit(batch)?;
        timer.add(one, rows);
    }
    let row = timer.row(&format!("limit: raw batch of {rows}"), "fjall", 1, "rows", began.elapsed());
    drop(disk);
    std::fs::remove_dir_all(folder)?;
    Ok(row)
}
