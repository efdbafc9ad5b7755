//! Whether the store answers. Whoever finds that it does not says so; the loop that renews the lease
//! finds out when it does again, and wakes everybody who waits for that.

use tokio::sync::watch;
use windlass_core::time::Ms;

use crate::bus::News;
use crate::shared::Shared;

/// Since when the store has not answered.
pub(crate) struct Health(watch::Sender<Option<Ms>>);

impl Default for Health {
    fn default() -> Self {
        Health(watch::channel(None).0)
    }
}

impl Health {
    pub(crate) fn down_since(&self) -> Option<Ms> {
        *self.0.borrow()
    }

    /// Ends when the store answers; at once if it does.
    pub(crate) async fn up(&self) {
        // The sender lives as long as this call.
        drop(self.0.subscribe().wait_for(Option::is_none).await);
    }

    /// Ends when the store has stopped answering.
    pub(crate) async fn down(&self) {
        drop(self.0.subscribe().wait_for(Option::is_some).await);
    }
}

impl Shared {
    /// The store did not answer.
    pub(crate) fn store_is_down(&self, why: &dyn std::fmt::Display) {
        let since = self.clock.now();
        let first = self.health.0.send_if_modified(|down| {
            let first = down.is_none();
            down.get_or_insert(since);
            first
        });
        if first {
            tracing::warn!(%why, "the store does not answer");
            self.bus.tell(News::StoreDegraded { since });
        }
    }

    /// It did.
    pub(crate) fn store_is_up(&self) {
        if self.health.0.send_if_modified(|down| down.take().is_some()) {
            tracing::info!("the store answers again");
            self.bus.tell(News::StoreRestored);
        }
    }
}
