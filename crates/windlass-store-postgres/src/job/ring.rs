//! Whose turn it is in each queue, as far as this process has served.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use windlass_core::id::QueueName;

#[derive(Default)]
pub(crate) struct Ring {
    last: Mutex<HashMap<QueueName, String>>,
}

impl Ring {
    fn last(&self) -> MutexGuard<'_, HashMap<QueueName, String>> {
        self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// From where on the next tenant is looked for. No name holds a '!', and it sorts before everything that one does.
    pub(super) fn after(&self, queue: &QueueName) -> String {
        self.last().get(queue).map_or_else(String::new, |last| format!("{last}!"))
    }

    pub(super) fn served(&self, queue: &QueueName, tenant: &str) {
        let mut last = self.last();
        match last.get_mut(queue) {
            Some(last) => {
                last.clear();
                last.push_str(tenant);
            }
            None => drop(last.insert(queue.clone(), tenant.to_owned())),
        }
    }
}
