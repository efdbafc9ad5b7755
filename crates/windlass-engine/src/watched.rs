//! A value that others wait for. They are woken in the order in which they came, so that what happened can be made
//! to happen again; tokio's `watch` wakes them in a random one, and takes much more room, which counts where every
//! task that waits has one.

use std::sync::Mutex;

use tokio::sync::Notify;

use crate::shared::locked;

/// See the module.
#[derive(Debug, Default)]
pub struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Watched<T> {
    /// As it is first.
    #[must_use]
    pub fn new(value: T) -> Watched<T> {
        Watched { value: Mutex::new(value), changed: Notify::new() }
    }

    /// As it is now.
    pub fn look<R>(&self, at: impl FnOnce(&T) -> R) -> R {
        at(&locked(&self.value))
    }

    /// Wakes whoever waits if `change` says that it changed something; answers what it said.
    pub fn modify(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let changed = change(&mut locked(&self.value));
        if changed {
            self.changed.notify_waiters();
        }
        changed
    }

    /// Ends when the value is as wanted; at once if it is.
    pub async fn until(&self, wanted: impl Fn(&T) -> bool) {
        loop {
            // Before looking: a change that comes while we look is not missed.
            let changed = self.changed.notified();
            if self.look(&wanted) {
                return;
            }
            changed.await;
        }
    }
}

impl<T: Copy> Watched<T> {
    /// As it is now.
    pub fn get(&self) -> T {
        *locked(&self.value)
    }
}
