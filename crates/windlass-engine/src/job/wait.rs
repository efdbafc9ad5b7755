//! Many waiters, one notification path. Whoever waits for a job has its cell; one loop hears from the store which jobs
//! have ended and reads each of those that somebody waits for once, however many do. While the store's word is missing
//! or has a gap, it looks itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::port::{Mark, PortError};

use super::Queues;
use crate::shared::locked;
use crate::watched::Watched;

/// What is known of a job that somebody waits for: how it ended, or nothing yet.
pub(super) type Cell = Watched<Known>;

/// See [`Cell`].
#[derive(Debug, Clone, Default)]
pub(super) enum Known {
    /// Not ended, as far as anybody heard.
    #[default]
    Nothing,
    /// As it ended.
    Ended(Arc<Job>),
    /// It is not stored: never was, or not any more.
    Gone,
}

/// Jobs that are read in one call.
const READ_MAX: usize = 1_000;
/// How long one call to the store's feed waits.
const FEED_WAIT_MS: u64 = 30_000;

/// Who waits for what.
#[derive(Default)]
pub(super) struct Waiting {
    cells: Mutex<HashMap<JobId, Weak<Cell>>>,
    /// Jobs that were read for those who wait.
    pub(super) reads: AtomicU64,
    /// Somebody waits, so that there is somebody to listen for.
    wanted: tokio::sync::Notify,
}

impl Waiting {
    /// The cell of a job: the same for everybody who waits for it.
    pub(super) fn watch(&self, job: JobId) -> Arc<Cell> {
        let mut cells = locked(&self.cells);
        if let Some(cell) = cells.get(&job).and_then(Weak::upgrade) {
            return cell;
        }
        let cell = Arc::new(Cell::default());
        if cells.insert(job, Arc::downgrade(&cell)).is_none() && cells.len() == 1 {
            self.wanted.notify_one();
        }
        cell
    }

    /// Nobody waits for it any more.
    pub(super) fn forget(&self, job: JobId) {
        let mut cells = locked(&self.cells);
        if cells.get(&job).is_some_and(|cell| cell.strong_count() == 0) {
            cells.remove(&job);
        }
    }

    /// Those of `jobs` that somebody waits for.
    fn wanted_of(&self, jobs: Vec<JobId>) -> Vec<JobId> {
        let cells = locked(&self.cells);
        jobs.into_iter().filter(|job| cells.get(job).is_some_and(|cell| cell.strong_count() > 0)).collect()
    }

    fn all(&self) -> Vec<JobId> {
        locked(&self.cells).iter().filter(|(_, cell)| cell.strong_count() > 0).map(|(job, _)| *job).collect()
    }

    fn tell(&self, job: JobId, known: Known) {
        let cell = locked(&self.cells).get(&job).and_then(Weak::upgrade);
        if let Some(cell) = cell {
            cell.modify(|cell| {
                *cell = known;
                true
            });
        }
    }

    /// It has not ended any more.
    pub(super) fn again(&self, job: JobId) {
        self.tell(job, Known::Nothing);
    }

    async fn any(&self) {
        while locked(&self.cells).is_empty() {
            self.wanted.notified().await;
        }
    }
}

/// Hears which jobs have ended, as long as anybody waits.
pub(super) async fn listen(queues: &Queues) {
    let inner = &queues.0;
    let mut mark = Mark::default();
    loop {
        inner.waiting.any().await;
        match inner.port.ended(mark, FEED_WAIT_MS).await {
            Ok(ended) => {
                // The first answer has a gap by nature: nobody listened before.
                mark = ended.mark;
                let jobs = match ended.gap {
                    true => inner.waiting.all(),
                    false => inner.waiting.wanted_of(ended.jobs),
                };
                // Read failed: they are still waited for, and a gap makes the next round look at all of them.
                if read(queues, &jobs).await.is_err() {
                    mark = Mark::default();
                    pause(inner.options.poll_ms).await;
                }
            }
            Err(_) => {
                pause(inner.options.poll_ms).await;
                mark = Mark::default();
                // Without the feed, looking is all there is; an error again means the store is away.
                drop(read(queues, &inner.waiting.all()).await);
            }
        }
    }
}

/// Reads these jobs and tells who waits for those that have ended.
pub(super) async fn read(queues: &Queues, jobs: &[JobId]) -> Result<(), PortError> {
    for part in jobs.chunks(READ_MAX) {
        queues.0.waiting.reads.fetch_add(part.len() as u64, Ordering::Relaxed);
        let found = queues.0.port.load(part).await?;
        for (id, job) in part.iter().zip(found) {
            match job {
                Some(job) if job.status.is_ended() => queues.0.waiting.tell(*id, Known::Ended(Arc::new(job))),
                Some(_) => {}
                None => queues.0.waiting.tell(*id, Known::Gone),
            }
        }
    }
    Ok(())
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
