//! `windlass bench`: how fast, beside what the machine itself can do in the same run.

pub(crate) mod fixture;
pub mod http;
pub mod instances;
pub mod jobs;
pub(crate) mod limit;
mod meter;
pub mod plan;
pub mod reopen;
pub mod store;
pub mod triggers;

use std::fmt;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// Tasks stored.
    pub tasks: u32,
    /// How long each workload runs.
    pub run: Duration,
}

impl Scale {
    /// What figures are quoted from.
    pub const FULL: Scale = Scale { tasks: 1_000_000, run: Duration::from_secs(5) };
    /// A look.
    pub const QUICK: Scale = Scale { tasks: 20_000, run: Duration::from_millis(500) };
}

/// One figure.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    /// Which bench.
    pub bench: &'static str,
    /// What was done.
    pub workload: String,
    /// On which store.
    pub store: String,
    /// By how many callers at once.
    pub concurrency: u32,
    /// What is counted.
    pub unit: &'static str,
    /// How many a second.
    pub per_s: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// Nearly all of them.
    pub p99_us: f64,
    /// The machine's own limit; `null` if there is none to compare with.
    pub limit_per_s: Option<f64>,
    /// Bytes on disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    /// Resident memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// What is asked of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar: Option<String>,
    /// Whether it is met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<bool>,
}

impl Row {
    /// As one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        // A struct of numbers and texts always serialises; a bench that prints nothing would lie.
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }

    /// Judges the row.
    #[must_use]
    pub fn judged(mut self, bar: impl Into<String>, pass: bool) -> Row {
        self.bar = Some(bar.into());
        self.pass = Some(pass);
        self
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<22} {:<9} x{:<4} {:>11.0} {}/s  p50 {:>8.0} us  p99 {:>8.0} us",
            self.workload, self.store, self.concurrency, self.per_s, self.unit, self.p50_us, self.p99_us
        )?;
        if let Some(limit) = self.limit_per_s {
            write!(f, "  limit {limit:.0}/s ({:.0} %)", 100.0 * self.per_s / limit)?;
        }
        if let Some(bytes) = self.disk_bytes {
            write!(f, "  disk {:.0} MB", bytes as f64 / 1e6)?;
        }
        if let Some(bytes) = self.resident_bytes {
            write!(f, "  resident {:.0} MB", bytes as f64 / 1e6)?;
        }
        match (&self.bar, self.pass) {
            (Some(bar), Some(pass)) => write!(f, "  [{}: {bar}]", if pass { "pass" } else { "MISS" }),
            _ => Ok(()),
        }
    }
}

/// Latencies of one workload.
pub(crate) struct Timer {
    histogram: Histogram<u64>,
    units: u64,
}

impl Timer {
    pub(crate) fn new() -> anyhow::Result<Timer> {
        Ok(Timer { histogram: Histogram::new_with_bounds(1, 60_000_000_000, 3)?, units: 0 })
    }

    /// One call that did `units`.
    pub(crate) fn add(&mut self, began: Instant, units: u64) {
        let ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(ns);
        self.units += units;
    }

    /// One that took so long.
    pub(crate) fn record(&mut self, took: Duration) {
        self.histogram.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        self.units += 1;
    }

    /// The slowest, in microseconds.
    pub(crate) fn slowest_us(&self) -> f64 {
        self.histogram.max() as f64 / 1000.0
    }

    pub(crate) fn merge(&mut self, other: &Timer) -> anyhow::Result<()> {
        self.histogram.add(&other.histogram)?;
        self.units += other.units;
        Ok(())
    }

    /// The row of everything done in `took`.
    pub(crate) fn row(&self, workload: &str, store: &str, concurrency: u32, unit: &'static str, took: Duration) -> Row {
        let us = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Row {
            bench: "store",
            workload: workload.into(),
            store: store.into(),
            concurrency,
            unit,
            per_s: self.units as f64 / took.as_secs_f64().max(1e-9),
            p50_us: us(0.5),
            p99_us: us(0.99),
            ..Row::default()
        }
    }
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident_bytes(process: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).and_then(|rest| rest.split_whitespace().next());
    Ok(kib.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024)
}

/// Bytes that files under `folder` take on disk.
pub(crate) fn disk_bytes(folder: &std::path::Path) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be compacted away between the two looks.
        let Ok(meta) = entry.metadata() else { continue };
        bytes += if meta.is_dir() { disk_bytes(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(bytes)
}
