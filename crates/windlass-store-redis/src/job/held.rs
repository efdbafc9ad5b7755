//! Jobs that workers of this process run, as they were handed out: what it takes to complete one without reading it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::Job;
use windlass_core::port::job::Delivery;
use windlass_core::time::Ms;

/// When so many are remembered, all are forgotten: some are of workers that are gone.
const HELD_MAX: usize = 65_536;

/// A job in somebody's hands.
pub(super) struct Handed {
    fence: Fence,
    pub(super) queue: QueueName,
    tenant: Option<TenantId>,
    pub(super) started_at: Ms,
}

impl Handed {
    /// Its entry in the list of what runs, as long as nobody asks for its end.
    pub(super) fn entry(&self, job: JobId) -> String {
        format!("{job}{}:{}", self.tenant.as_ref().map_or("", TenantId::as_str), self.fence.0)
    }
}

#[derive(Default)]
pub(crate) struct Held {
    jobs: Mutex<HashMap<JobId, Handed>>,
}

impl Held {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Handed>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These are handed out. One that was tried before has left more behind than is known here.
    pub(super) fn put(&self, claimed: &[Job]) {
        let mut jobs = self.jobs();
        if jobs.len() + claimed.len() > HELD_MAX {
            jobs.clear();
        }
        for job in claimed.iter().filter(|job| job.attempt == 1) {
            let started_at = job.started_at.unwrap_or(Ms::ZERO);
            let (queue, tenant) = (job.queue.clone(), job.tenant.clone());
            jobs.insert(job.id, Handed { fence: job.fence, queue, tenant, started_at });
        }
    }

    /// Takes one away, whatever becomes of it.
    pub(super) fn take(&self, of: &Delivery) -> Option<Handed> {
        let mut jobs = self.jobs();
        jobs.get(&of.job).is_some_and(|handed| handed.fence == of.fence).then(|| jobs.remove(&of.job)).flatten()
    }
}
