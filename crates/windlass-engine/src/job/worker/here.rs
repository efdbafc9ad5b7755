//! The workers of this process: who is there, and what they must hear at once.

use std::sync::Arc;

use tokio::sync::broadcast;
use windlass_core::id::JobId;

use crate::job::Queues;
use crate::watched::Watched;

/// Workers of this process, and what they must hear at once.
pub(in crate::job) struct Here {
    alive: Watched<usize>,
    cancels: broadcast::Sender<JobId>,
}

impl Default for Here {
    fn default() -> Self {
        Here { alive: Watched::default(), cancels: broadcast::Sender::new(1_024) }
    }
}

impl Here {
    /// The job's end was asked for: if a worker of this process runs it, it need not wait for its next heartbeat.
    pub(in crate::job) fn cancel(&self, job: JobId) {
        // Nobody hears it where there is no worker.
        drop(self.cancels.send(job));
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
    gone: Arc<Watched<bool>>,
}

impl Gone {
    /// A worker is there, until this is dropped.
    pub(super) fn later(queues: &Queues, gone: &Arc<Watched<bool>>) -> Gone {
        queues.0.running.alive.modify(|alive| {
            *alive += 1;
            true
        });
        Gone { queues: queues.clone(), gone: Arc::clone(gone) }
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.gone.modify(|gone| !std::mem::replace(gone, true));
        self.queues.0.running.alive.modify(|alive| {
            *alive -= 1;
            true
        });
    }
}
