//! Whether this instance is well: what its loops last did, and whether its store answers.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use windlass_core::time::Ms;

use crate::Engine;

/// The loops that an instance cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Renews the lease.
    Lease,
    /// Hands tasks out.
    Dispatch,
    /// Ends plans and takes them over.
    Conduct,
    /// Clears away what is left behind.
    Janitor,
    /// Fires triggers.
    Scheduler,
}

impl Part {
    /// Every one.
    pub const ALL: [Part; 5] = [Part::Lease, Part::Dispatch, Part::Conduct, Part::Janitor, Part::Scheduler];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Part::Lease => "lease",
            Part::Dispatch => "dispatch",
            Part::Conduct => "conduct",
            Part::Janitor => "janitor",
            Part::Scheduler => "scheduler",
        }
    }
}

/// When each loop last came round, in milliseconds since the instance came up, plus one; 0 is never.
pub(crate) struct Rounds {
    since: Instant,
    at: [AtomicU64; Part::ALL.len()],
}

impl Rounds {
    pub(crate) fn new() -> Rounds {
        Rounds { since: Instant::now(), at: Default::default() }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn came(&self, part: Part) {
        self.at[part as usize].store(self.now() + 1, Ordering::Relaxed);
    }
}

/// How an instance is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulse {
    /// Since when the store has not answered.
    pub down_since: Option<Ms>,
    /// It takes no more work.
    pub stopping: bool,
    /// Loops that have not come round for much longer than they may take, and for how many milliseconds.
    pub stalled: Vec<(Part, u64)>,
}

impl Pulse {
    /// Whether it can be given work.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.down_since.is_none() && !self.stopping && self.stalled.is_empty()
    }
}

impl Engine {
    /// How this instance is.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        let shared = &self.0;
        let now = shared.rounds.now();
        let full = self.running() >= shared.options.tasks_max as usize;
        let stalled = Part::ALL.into_iter().filter(|part| match part {
            Part::Scheduler => shared.triggers.is_some(),
            // Without room it waits until a task has ended.
            Part::Dispatch => !full,
            _ => true,
        });
        let stalled = stalled.filter_map(|part| {
            let at = shared.rounds.at[part as usize].load(Ordering::Relaxed);
            let quiet = now.saturating_sub(at.saturating_sub(1));
            (quiet > self.patience_ms(part)).then_some((part, quiet))
        });
        Pulse { down_since: shared.health.down_since(), stopping: shared.is_stopping(), stalled: stalled.collect() }
    }

    /// Three rounds and a lease: a loop that waits for a store that does not answer is not the one that is stalled.
    fn patience_ms(&self, part: Part) -> u64 {
        let options = &self.0.options;
        let round = match part {
            Part::Lease => options.beat_ms,
            Part::Dispatch | Part::Conduct | Part::Scheduler => options.scan_ms,
            Part::Janitor => options.janitor_ms,
        };
        3 * round + options.lease_ms
    }
}
