//! What subscribers are told, in this process: every event after its commit, and what is live only. A
//! slow subscriber misses the oldest and is told how many.

use std::sync::Arc;

use tokio::sync::broadcast;
use windlass_core::event::Event;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::time::Ms;

/// What a subscriber hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A stored fact; `durable` is false while the store is unreachable and it is kept in memory.
    Event {
        /// The fact.
        event: Arc<Event>,
        /// Whether it is stored.
        durable: bool,
    },
    /// How far a running task is: once when a retry starts, after its first events, and with every beat of the lease.
    TaskProgress {
        /// Which.
        task: TaskId,
        /// Stages done …
        completed: u32,
        /// … of so many.
        stages: u32,
    },
    /// Nobody alive runs it any more.
    TaskInterrupted {
        /// Its plan.
        plan: PlanId,
        /// Which.
        task: TaskId,
    },
    /// An attempt stopped here because somebody else owns its task now.
    TaskLost {
        /// Which.
        task: TaskId,
        /// What the store said.
        why: String,
    },
    /// The store does not answer.
    StoreDegraded {
        /// Since when.
        since: Ms,
    },
    /// It answers again.
    StoreRestored,
}

/// The place where news is told.
#[derive(Debug)]
pub struct Bus(broadcast::Sender<News>);

/// News kept for a subscriber that is behind.
const BEHIND_MAX: usize = 4_096;

impl Default for Bus {
    fn default() -> Self {
        Bus(broadcast::channel(BEHIND_MAX).0)
    }
}

impl Bus {
    /// Hears everything from now on.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }

    /// Whether anybody listens: nothing is copied for nobody.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    /// Tells whoever listens.
    pub fn tell(&self, news: News) {
        // Without a listener there is nobody to miss it.
        drop(self.0.send(news));
    }
}
