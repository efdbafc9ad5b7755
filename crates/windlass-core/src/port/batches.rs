//! How much a store writes at once: what waits while one batch is made durable is the next one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of sizes that are counted together.
pub const BATCH_BOUNDS: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// Sizes of batches so far: how many callers' work each made durable.
#[derive(Debug, Default)]
pub struct Batches {
    /// The last one counts what is larger than every bound.
    counts: [AtomicU64; BATCH_BOUNDS.len() + 1],
    sum: AtomicU64,
}

impl Batches {
    /// One of this size.
    pub fn add(&self, size: usize) {
        let size = size as u64;
        let place = BATCH_BOUNDS.partition_point(|bound| *bound < size);
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(size, Ordering::Relaxed);
    }

    /// How many there were within each bound and above the one before; the last is without a bound.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed))
    }

    /// All sizes together.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_counted_at_the_bound_that_holds_it() {
        let batches = Batches::default();
        [1, 1, 2, 3, 4, 1_024, 1_025, 9_999].into_iter().for_each(|size| batches.add(size));
        assert_eq!(batches.counts().collect::<Vec<_>>(), [2, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(batches.sum(), 12_059);
    }
}
