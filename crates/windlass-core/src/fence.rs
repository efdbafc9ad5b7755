//! Fences: numbers that only grow. One is drawn for every attempt; every write made under it
//! carries it, and the store refuses a smaller one.

use serde::{Deserialize, Serialize};

/// A fence. [`Fence::NONE`] is smaller than every one that was drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fence(pub u64);

impl Fence {
    /// Before the first.
    pub const NONE: Fence = Fence(0);

    /// The next one after `last`: larger than every one before, and close to the clock, so that a
    /// store that was lost and begun anew does not hand out old numbers again.
    #[must_use]
    pub const fn next(last: Fence, clock_us: u64) -> Fence {
        let after = last.0.saturating_add(1);
        Fence(if clock_us > after { clock_us } else { after })
    }
}

impl std::fmt::Display for Fence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_next_fence_is_larger_whatever_the_clock_says(last in 0..u64::MAX - 1, clock: u64) {
            let next = Fence::next(Fence(last), clock);
            prop_assert!(next > Fence(last));
            prop_assert!(next.0 >= clock);
        }
    }
}
