//! The clock of the engine: what events are dated by. Leases and locks are judged by the store's.

use windlass_core::time::Ms;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Ms;
}

/// The machine's.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the engine reads the clock")]
    fn now(&self) -> Ms {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ms::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl<F: Fn() -> Ms + Send + Sync> Clock for F {
    fn now(&self) -> Ms {
        self()
    }
}
