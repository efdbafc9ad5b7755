//! Which jobs ended last, for those who wait for one: in memory, bounded, each with its number.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;
use windlass_core::id::JobId;
use windlass_core::port::Mark;
use windlass_core::port::job::{Ended, FEED_MAX};

pub(crate) struct Feed {
    last: Mutex<VecDeque<JobId>>,
    /// The number of the last one.
    mark: watch::Sender<u64>,
}

impl Feed {
    pub(crate) fn new(first: u64) -> Feed {
        Feed { last: Mutex::default(), mark: watch::channel(first).0 }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.mark.subscribe()
    }

    pub(crate) fn add(&self, ended: Vec<JobId>) {
        if ended.is_empty() {
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let more = ended.len() as u64;
        last.extend(ended);
        let over = last.len().saturating_sub(FEED_MAX);
        last.drain(..over);
        // While the list is held: the number and the list are of one moment.
        self.mark.send_modify(|mark| *mark += more);
    }

    pub(super) fn since(&self, since: Mark) -> Ended {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = *self.mark.borrow();
        let missed = mark.checked_sub(since.0).and_then(|missed| usize::try_from(missed).ok());
        let (jobs, gap) = match missed.and_then(|missed| last.len().checked_sub(missed)) {
            Some(from) => (last.range(from..).copied().collect(), false),
            // A mark of an earlier run, or of too long ago.
            None => (Vec::new(), true),
        };
        Ended { mark: Mark(mark), jobs, gap }
    }
}
