//! How many attempts write at once, and whether one more would only make the others slower: a store says how many keep it
//! busy. Attempts in a stage wait for something else and do not count.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Attempts that are not in a stage: they write, or are about to.
pub(crate) struct Writing {
    now: AtomicUsize,
    enough: Option<usize>,
}

impl Writing {
    pub(crate) fn new(enough: Option<usize>) -> Writing {
        Writing { now: AtomicUsize::new(0), enough }
    }

    /// How many may begin now. None before half of what is enough is left: they are taken by many, not one by one.
    pub(crate) fn room(&self) -> usize {
        let Some(enough) = self.enough else { return usize::MAX };
        match self.now.load(Ordering::Relaxed) {
            now if now <= enough / 2 => enough - now,
            _ => 0,
        }
    }

    /// One more writes.
    pub(crate) fn joined(&self) {
        self.now.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; whether there is room from now on.
    pub(crate) fn left(&self) -> bool {
        let before = self.now.fetch_sub(1, Ordering::Relaxed);
        self.enough.is_some_and(|enough| before == enough / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Writing;

    #[test]
    fn there_is_room_again_when_half_has_left_and_that_is_said_once() {
        let writing = Writing::new(Some(4));
        assert_eq!(writing.room(), 4);
        (0..3).for_each(|_| writing.joined());
        assert_eq!(writing.room(), 0, "one more would be taken alone");
        assert!(writing.left());
        assert_eq!(writing.room(), 2);
        assert!(!writing.left(), "it was said");
        assert_eq!(writing.room(), 3);
    }

    #[test]
    fn a_store_that_is_busy_with_one_has_room_when_that_has_left() {
        let writing = Writing::new(Some(1));
        writing.joined();
        assert_eq!(writing.room(), 0);
        assert!(writing.left());
        assert_eq!(writing.room(), 1);
    }

    #[test]
    fn a_store_for_which_more_cost_nothing_always_has_room() {
        let writing = Writing::new(None);
        writing.joined();
        assert_eq!(writing.room(), usize::MAX);
        assert!(!writing.left());
    }
}
