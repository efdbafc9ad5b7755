//! A value that many wait for. They are woken in the order in which they came, so that what happened can be made
//! to happen again; tokio's `watch` wakes them in a random one.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::shared::locked;

/// See the module.
#[derive(Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Watched<T> {
    pub(crate) fn get(&self) -> T {
        *locked(&self.value)
    }

    /// Wakes whoever waits if `change` says that it changed something; answers what it said.
    pub(crate) fn modify(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let changed = change(&mut locked(&self.value));
        if changed {
            self.changed.notify_waiters();
        }
        changed
    }

    /// Ends when the value is as wanted; at once if it is.
    pub(crate) async fn until(&self, wanted: impl Fn(T) -> bool) {
        loop {
            // Before looking: a change that comes while we look is not missed.
            let changed = self.changed.notified();
            if wanted(self.get()) {
                return;
            }
            changed.await;
        }
    }
}
