//! The contract. One harness is one prefix in the server of the test run.

use std::sync::Arc;

use windlass_conformance::harness::{Harness, Ports};
use windlass_conformance::job::JobHarness;
use windlass_conformance::trigger::TriggerHarness;
use windlass_core::port::job::Jobs;
use windlass_core::port::trigger::Triggers;
use windlass_store_redis::{Options, Redis};

use crate::server::{Space, space};

async fn make() -> Space {
    space()
}

impl Space {
    async fn opened(&self, ahead_ms: u64) -> Redis {
        // Outages are for `outage.rs`: here a machine that is busy with other tests is waited for.
        let options = Options { ahead_ms, answer_ms: 240_000, prefix: self.prefix.clone(), ..Options::default() };
        Redis::open(&self.url, &options).await.unwrap()
    }
}

#[async_trait::async_trait]
impl Harness for Space {
    async fn open(&self, ahead_ms: u64) -> Ports {
        let store = self.opened(ahead_ms).await;
        Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
    }

    /// Everything is in the server: whoever opens next finds it. That the server itself may end is seen in
    /// `outage.rs`.
    async fn restart(&self) {}
}

windlass_conformance::suite!(make);

#[async_trait::async_trait]
impl JobHarness for Space {
    async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
        Arc::new(self.opened(ahead_ms).await)
    }

    async fn restart(&self) {}
}

mod jobs {
    use super::make;

    windlass_conformance::job_suite!(make);
}

#[async_trait::async_trait]
impl TriggerHarness for Space {
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
        Arc::new(self.opened(ahead_ms).await)
    }

    async fn restart(&self) {}
}

windlass_conformance::trigger_suite!(make);
