//! Which jobs have ended lately, as far as one process has heard.

use std::collections::VecDeque;

use crate::id::JobId;
use crate::port::Mark;
use crate::port::job::{Ended, FEED_MAX};

/// The newest ends, each with its place; what came before is not known.
#[derive(Debug)]
pub struct Recent {
    /// The mark before the first that is remembered.
    first: u64,
    ids: VecDeque<JobId>,
}

impl Recent {
    /// Nothing yet. `begin` is later than every mark of a process before.
    #[must_use]
    pub fn new(begin: u64) -> Recent {
        Recent { first: begin, ids: VecDeque::new() }
    }

    fn mark(&self) -> u64 {
        self.first + self.ids.len() as u64
    }

    /// These have ended.
    pub fn push(&mut self, ids: impl IntoIterator<Item = JobId>) {
        self.ids.extend(ids);
        let surplus = self.ids.len().saturating_sub(FEED_MAX);
        self.ids.drain(..surplus);
        self.first += surplus as u64;
    }

    /// Others have, and nobody knows which: whoever has seen less than this has to look.
    pub fn gap(&mut self) {
        self.first = self.mark() + 1;
        self.ids.clear();
    }

    /// What ended after `since`; `None` if nothing has.
    #[must_use]
    pub fn since(&self, since: Mark) -> Option<Ended> {
        let mark = self.mark();
        if since.0 == mark {
            return None;
        }
        let known = (self.first..mark).contains(&since.0);
        let jobs = match known {
            true => self.ids.iter().skip((since.0 - self.first) as usize).copied().collect(),
            false => Vec::new(),
        };
        Some(Ended { mark: Mark(mark), jobs, gap: !known })
    }
}
