//! The contract. One harness is one schema in the server of the test run.

use std::sync::Arc;

use windlass_conformance::harness::{Harness, Ports};
use windlass_conformance::trigger::TriggerHarness;
use windlass_core::port::trigger::Triggers;
use windlass_store_postgres::{Options, Postgres};

use crate::server::{Schema, schema};

async fn make() -> Schema {
    schema().await
}

#[async_trait::async_trait]
impl Harness for Schema {
    async fn open(&self, ahead_ms: u64) -> Ports {
        let store = rival(self, ahead_ms).await;
        Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
    }

    /// Everything is in the server: whoever opens next finds it. That the server itself may end is seen in
    /// `outage.rs`.
    async fn restart(&self) {}
}

#[async_trait::async_trait]
impl TriggerHarness for Schema {
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
        Arc::new(rival(self, ahead_ms).await)
    }

    async fn restart(&self) {}
}

async fn rival(schema: &Schema, ahead_ms: u64) -> Postgres {
    // Outages are for `outage.rs`: here a disk that is busy with other tests is waited for.
    let options = Options { ahead_ms, connections: 2, answer_ms: 240_000, ..Options::default() };
    Postgres::open(&schema.url, &options).await.unwrap()
}

windlass_conformance::suite!(make);
windlass_conformance::trigger_suite!(make);
