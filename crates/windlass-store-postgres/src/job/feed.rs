//! Which jobs have ended, as far as this process has heard: from itself at once, from others by notification. What was not
//! heard shows in the count that every writer keeps in its transaction; then the feed has a gap.

use std::sync::{Mutex, MutexGuard};

use tokio::sync::watch;
use windlass_core::id::JobId;
use windlass_core::job::recent::Recent;
use windlass_core::port::Mark;
use windlass_core::port::job::Ended;

/// Ids in one notification: it holds less than 8,000 bytes.
const IDS_MAX: usize = 200;
/// Notifications at a time, at most. Beyond, the others hear that there is a gap.
const NOTICES_MAX: usize = 8;

pub(crate) struct Feed {
    /// Names this process in what it tells.
    tag: String,
    state: Mutex<State>,
    heard: watch::Sender<u64>,
}

struct State {
    recent: Recent,
    /// How many ends were heard of, by the count that the store keeps.
    count: u64,
    outbox: Vec<JobId>,
}

impl Feed {
    /// `begin` is later than every mark of a process before.
    pub(crate) fn new(begin: u64) -> Feed {
        let state = State { recent: Recent::new(begin), count: 0, outbox: Vec::new() };
        Feed { tag: format!("{begin:x}"), state: Mutex::new(state), heard: watch::Sender::new(0) }
    }

    /// How this process names itself in what it tells.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.heard.subscribe()
    }

    /// Jobs have ended here.
    pub(super) fn ended(&self, ids: &[JobId]) {
        if ids.is_empty() {
            return;
        }
        let mut state = self.state();
        state.recent.push(ids.iter().copied());
        state.count += ids.len() as u64;
        state.outbox.extend_from_slice(ids);
        drop(state);
        self.heard.send_modify(|n| *n += 1);
    }

    /// What others are to be told.
    pub(crate) fn notices(&self) -> Vec<String> {
        let ids = std::mem::take(&mut self.state().outbox);
        if ids.len() > IDS_MAX * NOTICES_MAX {
            return vec![format!("{} {}", self.tag, ids.len())];
        }
        let notice = |ids: &[JobId]| {
            let mut text = format!("{} {} ", self.tag, ids.len());
            for id in ids {
                text.push_str(&id.to_string());
            }
            text
        };
        ids.chunks(IDS_MAX).map(notice).collect()
    }

    /// What somebody told: who, how many, and which, if they are not too many.
    pub(crate) fn hear(&self, notice: &str) {
        let mut parts = notice.split(' ');
        let (tag, count, ids) = (parts.next(), parts.next().and_then(|n| n.parse::<u64>().ok()), parts.next());
        if tag == Some(self.tag.as_str()) {
            return;
        }
        let ids: Option<Vec<JobId>> = ids.and_then(|ids| {
            let each = ids.as_bytes().chunks(36).map(|id| std::str::from_utf8(id).ok()?.parse().ok());
            each.collect()
        });
        let mut state = self.state();
        state.count += count.unwrap_or(0);
        match ids {
            Some(ids) => state.recent.push(ids),
            None => state.recent.gap(),
        }
        drop(state);
        self.heard.send_modify(|n| *n += 1);
    }

    /// The store has counted `count` ends, `before` of them when it was last asked: whoever told of those is heard by now. Without
    /// that, all of them should have been.
    pub(crate) fn compare(&self, count: u64, before: Option<u64>) {
        let mut state = self.state();
        if before.unwrap_or(count) > state.count {
            state.recent.gap();
            state.count = count;
            drop(state);
            self.heard.send_modify(|n| *n += 1);
        } else {
            state.count = state.count.min(count);
        }
    }

    /// What ended after `since`; `None` if nothing has.
    pub(crate) fn since(&self, since: Mark) -> Option<Ended> {
        self.state().recent.since(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::port::job::FEED_MAX;

    fn ids(n: u128) -> Vec<JobId> {
        (0..n).map(JobId::random).collect()
    }

    #[test]
    fn what_one_tells_another_hears_and_itself_does_not() {
        let (one, two) = (Feed::new(10), Feed::new(20));
        one.ended(&ids(450));
        let notices = one.notices();
        assert!(notices.len() == 3 && notices.iter().all(|notice| notice.len() < 8_000));
        for notice in &notices {
            one.hear(notice);
            two.hear(notice);
        }
        assert_eq!(one.since(Mark(10)), Some(Ended { mark: Mark(460), jobs: ids(450), gap: false }));
        assert_eq!(two.since(Mark(20)), Some(Ended { mark: Mark(470), jobs: ids(450), gap: false }));
        assert!(one.notices().is_empty() && two.notices().is_empty() && one.since(Mark(460)).is_none());
    }

    #[test]
    fn what_is_not_known_is_a_gap() {
        let feed = Feed::new(10);
        feed.ended(&ids(FEED_MAX as u128 + 5));
        for unknown in [0, 9, 12, 1 << 40] {
            let ended = feed.since(Mark(unknown)).unwrap();
            assert!(ended.gap && ended.jobs.is_empty(), "{unknown}");
        }
        let mark = feed.since(Mark(0)).unwrap().mark;
        assert_eq!(feed.since(Mark(mark.0 - 2)).unwrap().jobs.len(), 2);
        assert_eq!(feed.notices().len(), 1, "too many to name");
        let other = Feed::new(50);
        other.hear("a 100000");
        assert!(other.since(Mark(50)).unwrap().gap);
    }

    #[test]
    fn an_end_that_is_counted_and_then_heard_of_is_no_gap_and_hides_none() {
        let (one, two) = (Feed::new(10), Feed::new(20));
        one.ended(&ids(3));
        // Whoever begins to listen takes the store's count, in which are ends that it is still to be told of.
        two.compare(3, None);
        let mark = two.since(Mark(20)).unwrap().mark;
        one.notices().iter().for_each(|notice| two.hear(notice));
        assert_eq!(two.since(mark), Some(Ended { mark: Mark(mark.0 + 3), jobs: ids(3), gap: false }), "each once");
        two.compare(3, Some(3));
        assert!(!two.since(mark).unwrap().gap, "nothing is read again");
        two.compare(4, Some(4));
        assert!(two.since(mark).unwrap().gap, "what nobody told of afterwards shows");
    }

    #[test]
    fn ends_that_nobody_told_of_show_in_the_count() {
        let feed = Feed::new(10);
        feed.compare(7, None);
        let mark = feed.since(Mark(10)).unwrap().mark;
        feed.ended(&ids(3));
        feed.compare(10, None);
        assert!(!feed.since(mark).unwrap().gap, "all were heard");
        feed.compare(12, Some(10));
        assert!(!feed.since(mark).unwrap().gap, "two may be on their way");
        feed.compare(12, Some(12));
        assert!(feed.since(mark).unwrap().gap, "nobody told of two");
    }
}
