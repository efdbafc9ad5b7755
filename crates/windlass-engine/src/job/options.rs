//! What can be set about jobs.

use windlass_core::job::DURATION_MS_MAX;

/// How jobs are worked on and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOptions {
    /// How long a delivered job stays its worker's without a sign of life; at least 100 ms.
    pub lease_ms: u64,
    /// How often workers and waiters look for what no wake-up told.
    pub scan_ms: u64,
    /// How often waiters look while there are no wake-ups.
    pub poll_ms: u64,
    /// How long ended jobs are kept.
    pub retention_ms: u64,
    /// How long a stop waits for handlers to end.
    pub drain_ms: u64,
}

impl Default for JobOptions {
    fn default() -> Self {
        JobOptions {
            lease_ms: 30_000,
            scan_ms: 5_000,
            poll_ms: 100,
            retention_ms: 24 * 60 * 60 * 1000,
            drain_ms: 30_000,
        }
    }
}

impl JobOptions {
    /// Within their bounds.
    #[must_use]
    pub fn bounded(mut self) -> JobOptions {
        self.lease_ms = self.lease_ms.clamp(100, DURATION_MS_MAX);
        self.drain_ms = self.drain_ms.min(DURATION_MS_MAX);
        self.scan_ms = self.scan_ms.clamp(10, 60_000);
        self.poll_ms = self.poll_ms.clamp(1, 10_000);
        self
    }
}
