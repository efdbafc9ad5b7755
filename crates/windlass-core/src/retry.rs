//! Retry and back-off of one stage. The randomness comes from outside, so the rule is a function.

use serde::{Deserialize, Serialize};

/// How a failed stage is tried again before the failure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// Further tries after the first, at most.
    pub max: u32,
    /// The pause before the first of them.
    pub backoff_ms: u64,
    /// No pause is longer.
    pub max_backoff_ms: u64,
}

impl Retry {
    /// A failure counts at once.
    pub const NONE: Retry = Retry { max: 0, backoff_ms: 1_000, max_backoff_ms: 30_000 };

    /// The pause before try `tried + 1`, after `tried` of them have failed; `None` when the failure
    /// counts. It doubles up to the maximum; `jitter` in `[0, 1)` takes up to half of it away, so
    /// that tenants that failed together do not come back together.
    #[must_use]
    pub fn delay_ms(&self, tried: u32, jitter: f64) -> Option<u64> {
        if tried == 0 || tried > self.max {
            return None;
        }
        let doubled = 1u64.checked_shl(tried - 1).unwrap_or(u64::MAX);
        let full = self.backoff_ms.saturating_mul(doubled).min(self.max_backoff_ms);
        let less = (full as f64 * 0.5 * jitter.clamp(0.0, 1.0)) as u64;
        Some(full - less.min(full))
    }
}

impl Default for Retry {
    fn default() -> Self {
        Retry::NONE
    }
}

#[cfg(test)]
mod tests;
