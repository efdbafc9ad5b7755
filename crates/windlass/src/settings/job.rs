//! Defaults and bounds of `[jobs]` and `[triggers]`.

use windlass_engine::Options;
use windlass_engine::job::JobOptions;

use super::environment::Environment;
use super::{Jobs, Triggers, within};

const DAY: u64 = 24 * 60 * 60 * 1000;

impl Default for Jobs {
    fn default() -> Self {
        let JobOptions { lease_ms, scan_ms, poll_ms, retention_ms, drain_ms } = JobOptions::default();
        Jobs { lease_ms, scan_ms, poll_ms, retention_ms, drain_ms }
    }
}

impl From<&Jobs> for JobOptions {
    fn from(jobs: &Jobs) -> JobOptions {
        let Jobs { lease_ms, scan_ms, poll_ms, retention_ms, drain_ms } = *jobs;
        JobOptions { lease_ms, scan_ms, poll_ms, retention_ms, drain_ms }
    }
}

impl Default for Triggers {
    fn default() -> Self {
        let options = Options::default();
        Triggers { misfire_grace_ms: options.misfire_grace_ms, retention_ms: options.trigger_retention_ms }
    }
}

impl Jobs {
    pub(super) fn read(&mut self, from: &Environment<'_>) -> anyhow::Result<()> {
        from.number("WINDLASS_JOBS_LEASE_MS", &mut self.lease_ms)?;
        from.number("WINDLASS_JOBS_SCAN_MS", &mut self.scan_ms)?;
        from.number("WINDLASS_JOBS_POLL_MS", &mut self.poll_ms)?;
        from.number("WINDLASS_JOBS_RETENTION_MS", &mut self.retention_ms)?;
        from.number("WINDLASS_JOBS_DRAIN_MS", &mut self.drain_ms)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        within("[jobs] lease_ms", self.lease_ms, 100..=DAY, "")?;
        within("[jobs] scan_ms", self.scan_ms, 10..=60_000, "")?;
        within("[jobs] poll_ms", self.poll_ms, 1..=10_000, "")?;
        within("[jobs] retention_ms", self.retention_ms, 1_000..=3_650 * DAY, "")?;
        within("[jobs] drain_ms", self.drain_ms, 0..=DAY, "")
    }
}

impl Triggers {
    pub(super) fn read(&mut self, from: &Environment<'_>) -> anyhow::Result<()> {
        from.number("WINDLASS_TRIGGERS_MISFIRE_GRACE_MS", &mut self.misfire_grace_ms)?;
        from.number("WINDLASS_TRIGGERS_RETENTION_MS", &mut self.retention_ms)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        within("[triggers] misfire_grace_ms", self.misfire_grace_ms, 0..=DAY, "")?;
        within("[triggers] retention_ms", self.retention_ms, 1_000..=3_650 * DAY, "")
    }
}
