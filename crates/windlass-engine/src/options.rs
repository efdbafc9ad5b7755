//! What can be set. Every duration has a lower bound, so that tests can be quick and a slip cannot
//! make an instance that loses its own lease.

use windlass_core::lock::LOCK_MS;
use windlass_core::plan::spec::RETRY_LIMIT;

/// What becomes of attempts while the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOutage {
    /// They go on; their state is kept in memory and written when the store is back.
    #[default]
    Degrade,
    /// They wait at their boundary.
    Hold,
    /// Their tasks end FAILED with kind PERSISTENCE.
    Fail,
}

/// How an engine behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The lease of this instance; at least 100 ms.
    pub lease_ms: u64,
    /// How often it is renewed; at most a third of the lease.
    pub beat_ms: u64,
    /// How long a tenant lock is granted for.
    pub lock_ms: u64,
    /// How often locks are renewed.
    pub lock_renew_ms: u64,
    /// Tasks that run at once on this instance.
    pub tasks_max: u32,
    /// How often to look for what no wake-up told.
    pub scan_ms: u64,
    /// How often the janitor comes.
    pub janitor_ms: u64,
    /// How long ended plans are kept.
    pub retention_ms: u64,
    /// Retries of one task, unless its plan or itself says otherwise; 0 is no limit.
    pub retry_limit: u32,
    /// While the store does not answer.
    pub outage: OnOutage,
    /// An occurrence of a trigger that is late by no more than this has not been missed.
    pub misfire_grace_ms: u64,
    /// How long finished triggers are kept.
    pub trigger_retention_ms: u64,
    /// How long a stop waits for stages to reach their boundary.
    pub drain_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            lease_ms: 30_000,
            beat_ms: 10_000,
            lock_ms: LOCK_MS,
            lock_renew_ms: 30 * 60 * 1000,
            tasks_max: 1_000,
            scan_ms: 5_000,
            janitor_ms: 60_000,
            retention_ms: 7 * 24 * 60 * 60 * 1000,
            retry_limit: RETRY_LIMIT,
            outage: OnOutage::Degrade,
            misfire_grace_ms: 60_000,
            trigger_retention_ms: 7 * 24 * 60 * 60 * 1000,
            drain_ms: 30_000,
        }
    }
}

impl Options {
    /// Within their bounds.
    #[must_use]
    pub fn bounded(mut self) -> Options {
        self.lease_ms = self.lease_ms.max(100);
        self.beat_ms = self.beat_ms.clamp(1, self.lease_ms / 3);
        self.lock_ms = self.lock_ms.max(self.lease_ms);
        self.lock_renew_ms = self.lock_renew_ms.clamp(1, self.lock_ms / 2);
        self.tasks_max = self.tasks_max.clamp(1, 10_000);
        self.scan_ms = self.scan_ms.clamp(10, 60_000);
        self.janitor_ms = self.janitor_ms.max(10);
        self
    }
}
