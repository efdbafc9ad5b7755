//! The workers of this process: who is there, and what they must hear at once.

use std::sync::{Arc, Mutex};

use tokio::sync::broadcast;
use windlass_core::id::{JobId, QueueName};

use crate::job::Queues;
use crate::shared::locked;
use crate::watched::Watched;

/// Workers of this process, and what they must hear at once.
pub(in crate::job) struct Here {
    alive: Watched<usize>,
    cancels: broadcast::Sender<JobId>,
    /// Queues that are worked on, each as often as it is.
    queues: Mutex<Vec<QueueName>>,
    /// Counts what was submitted here for one of them.
    submitted: Watched<u64>,
}

impl Default for Here {
    fn default() -> Self {
        let cancels = broadcast::Sender::new(1_024);
        Here { alive: Watched::default(), cancels, queues: Mutex::default(), submitted: Watched::default() }
    }
}

impl Here {
    /// The job's end was asked for: if a worker of this process runs it, it need not wait for its next heartbeat.
    pub(in crate::job) fn cancel(&self, job: JobId) {
        // Nobody hears it where there is no worker.
        drop(self.cancels.send(job));
    }

    /// There is work in these queues: workers of this process need not wait until the store tells them.
    pub(in crate::job) fn submitted<'q>(&self, mut queues: impl Iterator<Item = &'q QueueName>) {
        let worked = locked(&self.queues);
        if !worked.is_empty() && queues.any(|queue| worked.contains(queue)) {
            drop(worked);
            self.submitted.modify(|submitted| {
                *submitted += 1;
                true
            });
        }
    }

    /// How often there was.
    pub(super) fn news(&self) -> &Watched<u64> {
        &self.submitted
    }

    pub(in crate::job) async fn workers_gone(&self) {
        self.alive.until(|alive| *alive == 0).await;
    }

    pub(super) fn hear(&self) -> broadcast::Receiver<JobId> {
        self.cancels.subscribe()
    }
}

/// Says that a worker is gone, however it went.
pub(super) struct Gone {
    queues: Queues,
    names: Vec<QueueName>,
    gone: Arc<Watched<bool>>,
}

impl Gone {
    /// A worker of these queues is there, until this is dropped.
    pub(super) fn later(queues: &Queues, names: Vec<QueueName>, gone: &Arc<Watched<bool>>) -> Gone {
        locked(&queues.0.running.queues).extend(names.iter().cloned());
        queues.0.running.alive.modify(|alive| {
            *alive += 1;
            true
        });
        Gone { queues: queues.clone(), names, gone: Arc::clone(gone) }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        let mut worked = locked(&self.queues.0.running.queues);
        for name in &self.names {
            if let Some(at) = worked.iter().position(|queue| queue == name) {
                worked.swap_remove(at);
            }
        }
        drop(worked);
        self.gone.modify(|gone| !std::mem::replace(gone, true));
        self.queues.0.running.alive.modify(|alive| {
            *alive -= 1;
            true
        });
    }
}
