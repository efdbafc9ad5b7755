//! Which jobs have ended, as far as this process has heard. Every word carries the count that the store keeps: what was
//! not heard shows in it, and then the feed has a gap.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use windlass_core::id::JobId;
use windlass_core::port::Mark;
use windlass_core::port::job::{Ended, FEED_MAX};

/// Words that wait for one that is missing, at most.
const EARLY_MAX: usize = 1_000;

pub(crate) struct Feed {
    state: Mutex<State>,
    heard: watch::Sender<u64>,
}

struct State {
    /// The mark before the first that is remembered.
    first: u64,
    ids: VecDeque<JobId>,
    /// How many ends were heard of, by the store's count.
    count: u64,
    /// Words before which others are missing, by the count they carry.
    early: BTreeMap<u64, Vec<JobId>>,
}

impl State {
    fn mark(&self) -> u64 {
        self.first + self.ids.len() as u64
    }

    /// These ended next, and with them so many have.
    fn take(&mut self, count: u64, ids: Vec<JobId>) {
        // What was counted when somebody began to listen, or when something was missing, is not told again.
        let known = (self.count + ids.len() as u64).saturating_sub(count) as usize;
        self.ids.extend(ids.into_iter().skip(known));
        let surplus = self.ids.len().saturating_sub(FEED_MAX);
        self.ids.drain(..surplus);
        self.first += surplus as u64;
        self.count = self.count.max(count);
    }

    /// Nobody who has seen less than this knows what is missing.
    fn gap(&mut self) {
        self.first = self.mark() + 1;
        self.ids.clear();
    }
}

impl Feed {
    /// `begin` is later than every mark of a process before; `count` have ended so far.
    pub(crate) fn new(begin: u64, count: u64) -> Feed {
        let state = State { first: begin, ids: VecDeque::new(), count, early: BTreeMap::new() };
        Feed { state: Mutex::new(state), heard: watch::Sender::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }

    /// These have ended, and with them so many have. Words come on two ways, with answers and from the channel: one that
    /// was said before this and is still on its way comes first.
    pub(crate) fn hear(&self, count: u64, ids: Vec<JobId>) {
        let mut state = self.state();
        // Counted when somebody began to listen, or known already.
        if state.count >= count {
            return;
        }
        state.early.insert(count, ids);
        let known = state.count;
        if state.early.len() > EARLY_MAX {
            state.gap();
            state.count = state.early.keys().next_back().copied().unwrap_or(count);
            state.early.clear();
        }
        while let Some((next, ids)) = state.early.pop_first() {
            if next.saturating_sub(ids.len() as u64) > state.count {
                state.early.insert(next, ids);
                break;
            }
            state.take(next, ids);
        }
        let news = state.count != known;
        drop(state);
        if news {
            self.heard.send_modify(|n| *n += 1);
        }
    }

    /// The store has counted `count` ends, `before` of them when it was last asked: what was said of those is heard by
    /// now, or was lost.
    pub(crate) fn compare(&self, count: u64, before: Option<u64>) {
        let mut state = self.state();
        if before.is_some_and(|before| before > state.count) || count < state.count {
            state.gap();
            state.count = count;
            state.early = state.early.split_off(&(count + 1));
            drop(state);
            self.heard.send_modify(|n| *n += 1);
        }
    }

    /// What ended after `since`; `None` if nothing has.
    pub(crate) fn since(&self, since: Mark) -> Option<Ended> {
        let state = self.state();
        let mark = state.mark();
        if since.0 == mark {
            return None;
        }
        let known = (state.first..mark).contains(&since.0);
        let jobs = match known {
            true => state.ids.iter().skip((since.0 - state.first) as usize).copied().collect(),
            false => Vec::new(),
        };
        Some(Ended { mark: Mark(mark), jobs, gap: !known })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(n: u128) -> Vec<JobId> {
        (0..n).map(JobId::random).collect()
    }

    #[test]
    fn what_was_said_is_heard_once_and_in_order() {
        let (feed, mark) = (Feed::new(10, 5), Mark(10));
        feed.hear(5, ids(1));
        assert_eq!(feed.since(mark), None, "it was counted before");
        feed.hear(8, ids(3));
        let ended = feed.since(mark).unwrap();
        assert_eq!((ended.jobs, ended.gap), (ids(3), false));
        feed.hear(12, ids(2));
        assert_eq!(feed.since(ended.mark), None, "two of others come first");
        feed.hear(10, ids(4)[2..].to_vec());
        feed.hear(12, ids(2));
        let after = feed.since(ended.mark).unwrap();
        assert_eq!((after.jobs, after.gap), ([&ids(4)[2..], &ids(2)].concat(), false));
    }

    #[test]
    fn what_was_not_heard_is_a_gap() {
        let feed = Feed::new(10, 0);
        feed.hear(2, ids(2));
        let mark = feed.since(Mark(10)).unwrap().mark;
        feed.hear(9, ids(3));
        feed.compare(9, None);
        assert_eq!(feed.since(mark), None, "four may be on their way");
        feed.compare(9, Some(9));
        let ended = feed.since(mark).unwrap();
        assert!(ended.gap, "nobody said so");
        feed.hear(10, ids(1));
        assert_eq!(feed.since(ended.mark).unwrap().jobs, ids(1), "and it goes on from there");
    }

    #[test]
    fn who_hears_only_what_comes_too_early_has_a_gap() {
        let (feed, many) = (Feed::new(10, 0), EARLY_MAX as u64 + 2);
        (2..many).for_each(|count| feed.hear(count, ids(1)));
        assert_eq!(feed.since(Mark(10)), None);
        feed.hear(many, ids(1));
        assert!(feed.since(Mark(10)).unwrap().gap);
    }

    #[test]
    fn what_is_not_remembered_is_a_gap() {
        let feed = Feed::new(10, 0);
        feed.hear(FEED_MAX as u64 + 5, ids(FEED_MAX as u128 + 5));
        for unknown in [0, 9, 12, 1 << 40] {
            let ended = feed.since(Mark(unknown)).unwrap();
            assert!(ended.gap && ended.jobs.is_empty(), "{unknown}");
        }
    }
}
