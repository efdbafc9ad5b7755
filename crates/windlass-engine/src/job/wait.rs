//! Many waiters, one notification path. Whoever waits for a job has its cell; one loop hears from the store which jobs
//! have ended and reads each of those that somebody waits for once, however many do. While the store's word is missing
//! or has a gap, it looks itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::{Mark, PortError};

use super::Queues;
use crate::shared::locked;
use crate::watched::Watched;
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// What is known of a job that somebody waits for: how it ended, or nothing yet.
#[derive(Default)]
pub(super) struct Cell {
    heard: Watched<Heard>,
    /// The store was asked once since somebody listens: whoever comes later need not ask again.
    looked: OnceCell<()>,
}

#[derive(Default)]
struct Heard {
    known: Known,
    /// It was seen in the store.
    stored: bool,
    /// A worker of this process has it, and tells what comes of it.
    here: bool,
    /// Grows when what was read before does not hold any more.
    turned: u64,
}

/// See [`Cell`].
#[derive(Debug, Clone, Default)]
pub(super) enum Known {
    /// Not ended, as far as anybody heard.
    #[default]
    Nothing,
    /// As it ended.
    Ended(Arc<Job>),
    /// It is not stored: it never was, or, if this says so, it was and its retention is over.
    Gone { was_there: bool },
}

impl Known {
    fn is_nothing(&self) -> bool {
        matches!(self, Known::Nothing)
    }

    /// Nothing will become of it any more.
    fn is_final(&self) -> bool {
        matches!(self, Known::Ended(job) if job.status == JobStatus::Completed)
    }
}

impl Cell {
    /// What is known, once it is more than nothing.
    async fn known(&self) -> Known {
        loop {
            self.heard.until(|heard| !heard.known.is_nothing()).await;
            match self.heard.look(|heard| heard.known.clone()) {
                // Requeued in between.
                Known::Nothing => {}
                known => return known,
            }
        }
    }
}

/// Somebody's place among those who wait for a job.
pub(super) struct Seat {
    queues: Queues,
    job: JobId,
    /// `None` only while it is dropped.
    cell: Option<Arc<Cell>>,
}

impl Seat {
    pub(super) fn take(queues: &Queues, job: JobId) -> Seat {
        Seat { queues: queues.clone(), job, cell: Some(queues.0.waiting.watch(job)) }
    }

    /// It was stored just now, and whatever becomes of it is heard.
    pub(super) fn stored(&self) {
        let Some(cell) = &self.cell else { return };
        cell.heard.modify(|heard| {
            // Somebody may have looked too early.
            if matches!(heard.known, Known::Gone { .. }) {
                heard.known = Known::Nothing;
            }
            heard.stored = true;
            heard.turned += 1;
            false
        });
        // Somebody else has: as good.
        drop(cell.looked.set(()));
    }

    /// What the job came to, once it has ended. The first who waits asks the store, in case nobody listened then.
    pub(super) async fn known(&self) -> Known {
        match &self.cell {
            Some(cell) => cell.known().await,
            None => Known::Gone { was_there: false },
        }
    }

    /// Asks the store, unless somebody who waits for the same job has.
    pub(super) async fn look(&self) -> Result<(), PortError> {
        let Some(cell) = &self.cell else { return Ok(()) };
        if cell.heard.look(|heard| heard.known.is_nothing()) {
            cell.looked.get_or_try_init(|| read(&self.queues, std::slice::from_ref(&self.job))).await?;
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        drop(self.cell.take());
        self.queues.0.waiting.forget(self.job);
    }
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

    /// A worker of this process has it, or has it no more. Answers whether somebody waits for it.
    pub(super) fn here(&self, job: JobId, here: bool) -> bool {
        let Some(cell) = locked(&self.cells).get(&job).and_then(Weak::upgrade) else { return false };
        cell.heard.modify(|heard| {
            heard.here = here;
            false
        });
        drop(cell);
        self.forget(job);
        true
    }

    /// Those of `jobs` that somebody waits for and of whose end nobody was told, or is about to be.
    fn wanted_of(&self, jobs: Vec<JobId>) -> Vec<JobId> {
        let wanted: Vec<_> = {
            let cells = locked(&self.cells);
            jobs.into_iter().filter_map(|job| Some((job, cells.get(&job)?.upgrade()?))).collect()
        };
        let is_new = |cell: &Cell| cell.heard.look(|heard| !heard.known.is_final() && !heard.here);
        let new = wanted.into_iter().filter_map(|(job, cell)| {
            let new = is_new(&cell);
            drop(cell);
            self.forget(job);
            new.then_some(job)
        });
        new.collect()
    }

    /// It was completed by a worker of this process, as the store has acknowledged; that is never undone.
    pub(super) fn completed(&self, job: Job) {
        let id = job.id;
        let Some(cell) = locked(&self.cells).get(&id).and_then(Weak::upgrade) else { return };
        cell.heard.modify(|heard| {
            heard.stored = true;
            heard.known = Known::Ended(Arc::new(job));
            true
        });
        drop(cell);
        self.forget(id);
    }

    fn all(&self) -> Vec<JobId> {
        locked(&self.cells).iter().filter(|(_, cell)| cell.strong_count() > 0).map(|(job, _)| *job).collect()
    }

    /// What reading a job must not contradict: how often things turned until now. `None`: nobody waits.
    fn turned(&self, job: JobId) -> Option<u64> {
        let cell = locked(&self.cells).get(&job).and_then(Weak::upgrade)?;
        let turned = cell.heard.look(|heard| heard.turned);
        drop(cell);
        self.forget(job);
        Some(turned)
    }

    /// Tells what was read, unless things turned while it was on its way: then `false`, and it must be read again.
    fn tell(&self, job: JobId, turned: u64, found: Option<Job>) -> bool {
        let Some(cell) = locked(&self.cells).get(&job).and_then(Weak::upgrade) else { return true };
        let mut taken = true;
        cell.heard.modify(|heard| {
            taken = heard.turned == turned;
            if !taken {
                return false;
            }
            let was_there = heard.stored;
            heard.stored |= found.is_some();
            heard.known = match found {
                Some(job) if job.status.is_ended() => Known::Ended(Arc::new(job)),
                Some(_) => return false,
                // How it ended was heard before it was forgotten.
                None if matches!(heard.known, Known::Ended(_)) => return false,
                None => Known::Gone { was_there },
            };
            true
        });
        drop(cell);
        self.forget(job);
        taken
    }

    /// It has not ended any more.
    pub(super) fn again(&self, job: JobId) {
        let Some(cell) = locked(&self.cells).get(&job).and_then(Weak::upgrade) else { return };
        cell.heard.modify(|heard| {
            heard.known = Known::Nothing;
            heard.turned += 1;
            false
        });
        drop(cell);
        self.forget(job);
    }

    /// Waits until somebody does; answers whether nobody did.
    async fn any(&self) -> bool {
        let mut idle = false;
        while locked(&self.cells).is_empty() {
            idle = true;
            self.wanted.notified().await;
        }
        idle
    }
}

/// Hears which jobs have ended, as long as anybody waits.
pub(super) async fn listen(queues: &Queues) {
    let inner = &queues.0;
    let mut mark: Option<Mark> = None;
    let scan = Duration::from_millis(inner.options.scan_ms);
    let mut scan_at = Instant::now() + scan;
    loop {
        // From when on is asked before anybody waits: what is submitted later need not be looked for.
        if mark.is_some() && inner.waiting.any().await {
            scan_at = Instant::now() + scan;
        }
        // Whoever ended a job may have died before it told: what goes on meanwhile does not show that.
        if Instant::now() >= scan_at {
            scan_at = Instant::now() + scan;
            drop(read(queues, &inner.waiting.all()).await);
        }
        let wait_ms = if mark.is_some() { FEED_WAIT_MS.min(inner.options.scan_ms) } else { 0 };
        match inner.port.ended(mark.unwrap_or_default(), wait_ms).await {
            Ok(ended) => {
                // The first answer has a gap by nature: nobody listened before.
                mark = Some(ended.mark);
                let jobs = match ended.gap {
                    true => inner.waiting.all(),
                    false => inner.waiting.wanted_of(ended.jobs),
                };
                // Read failed: they are still waited for, and a gap makes the next round look at all of them.
                if read(queues, &jobs).await.is_err() {
                    mark = None;
                    pause(inner.options.poll_ms).await;
                }
            }
            Err(_) => {
                pause(inner.options.poll_ms).await;
                mark = None;
                // Without the feed, looking is all there is; an error again means the store is away.
                drop(read(queues, &inner.waiting.all()).await);
            }
        }
    }
}

/// Reads these jobs and tells who waits for those that have ended.
pub(super) async fn read(queues: &Queues, jobs: &[JobId]) -> Result<(), PortError> {
    let waiting = &queues.0.waiting;
    for part in jobs.chunks(READ_MAX) {
        let mut part: Vec<_> = part.iter().filter_map(|job| Some((*job, waiting.turned(*job)?))).collect();
        while !part.is_empty() {
            let ids: Vec<JobId> = part.iter().map(|(job, _)| *job).collect();
            waiting.reads.fetch_add(ids.len() as u64, Ordering::Relaxed);
            let found = queues.0.port.load(&ids).await?;
            let missed = part.into_iter().zip(found).filter_map(|((job, turned), found)| {
                let taken = waiting.tell(job, turned, found);
                (!taken).then_some(job)
            });
            part = missed.filter_map(|job| Some((job, waiting.turned(job)?))).collect();
        }
    }
    Ok(())
}

async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
