//! What is measured, and how Prometheus reads it. Counting is a few atomic additions and never waits.

mod observer;
mod render;
pub mod store;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use observer::observe;
pub(crate) use render::render;

use crate::router::routes;

/// Upper bounds of what is counted together, in microseconds: from a call of a store to a person who takes a day.
const BOUNDS_US: [u64; 18] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    5_000_000,
    30_000_000,
    300_000_000,
    3_600_000_000,
    86_400_000_000,
];

/// Durations, counted by size.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// The last one counts what is longer than every bound.
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl Histogram {
    pub(crate) fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let place = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }
}

/// Requests of one route.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    pub(crate) took: Histogram,
    /// By the first digit of the status.
    pub(crate) answers: [AtomicU64; 6],
}

/// Everything that is measured.
#[derive(Debug)]
pub struct Metrics {
    /// In the order of the table of routes.
    pub(crate) requests: Vec<Requests>,
    pub(crate) calls: store::Calls,
    pub(crate) stage: Histogram,
    pub(crate) task: Histogram,
    pub(crate) human: Histogram,
    pub(crate) trigger_delay: Histogram,
    pub(crate) stages_failed: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) steps: AtomicU64,
    pub(crate) events_missed: AtomicU64,
    pub(crate) slow_clients: AtomicU64,
    pub(crate) slow_streams: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            requests: routes().iter().map(|_| Requests::default()).collect(),
            calls: store::Calls::default(),
            stage: Histogram::default(),
            task: Histogram::default(),
            human: Histogram::default(),
            trigger_delay: Histogram::default(),
            stages_failed: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            steps: AtomicU64::new(0),
            events_missed: AtomicU64::new(0),
            slow_clients: AtomicU64::new(0),
            slow_streams: AtomicU64::new(0),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
