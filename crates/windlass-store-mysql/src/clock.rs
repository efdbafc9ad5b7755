//! The store's clock, in statements.

use windlass_core::time::Ms;

use crate::text::Script;

/// How far a reading may run ahead: a hundred years, which no sum with a time of today takes beyond what the server knows.
const AHEAD_MAX: u64 = 100 * 366 * 24 * 3_600_000;

/// The server's clock, as somebody whose clock runs ahead sees it.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    sql: String,
}

impl Clock {
    pub(crate) fn ahead(ahead_ms: u64) -> Clock {
        let sql = match ahead_ms.min(AHEAD_MAX) {
            0 => "UTC_TIMESTAMP(3)".to_owned(),
            ms => format!("(UTC_TIMESTAMP(3) + INTERVAL {} MICROSECOND)", ms * 1_000),
        };
        Clock { sql }
    }

    /// Now, as an expression.
    pub(crate) fn now(&self) -> &str {
        &self.sql
    }

    /// Asks for it.
    pub(crate) fn ask(&self, script: &mut Script) {
        script.ask(&format!("SELECT {}", self.sql));
    }
}

/// `ms` as a number of milliseconds that a lease may have.
pub(crate) fn lease(ms: u64) -> u64 {
    ms.min(Ms::MAX.get())
}
