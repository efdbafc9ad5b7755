//! The store's clock: what leases and expiry are judged by.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_core::time::Ms;

/// Microseconds since 1970, never going back.
#[derive(Clone)]
pub struct Clock {
    read_us: Arc<dyn Fn() -> u64 + Send + Sync>,
    latest_us: Arc<AtomicU64>,
}

impl Clock {
    /// The machine's.
    #[must_use]
    pub fn system() -> Clock {
        #[expect(clippy::disallowed_methods, reason = "the one place where the embedded store reads the clock")]
        Clock::new(|| {
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
        })
    }

    /// Any other.
    pub fn new(read_us: impl Fn() -> u64 + Send + Sync + 'static) -> Clock {
        Clock { read_us: Arc::new(read_us), latest_us: Arc::default() }
    }

    /// Now, in microseconds. A clock that is set back stands still until it has caught up.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        let now = (self.read_us)();
        now.max(self.latest_us.fetch_max(now, Ordering::Relaxed))
    }

    /// Now, as somebody whose clock runs ahead sees it.
    #[must_use]
    pub fn now(&self, ahead_ms: u64) -> Ms {
        Ms::new(self.now_us() / 1000).plus(ahead_ms)
    }
}
