//! The contract. One harness is one schema in the server of the test run.

use std::sync::Arc;

use windlass_conformance::harness::{Harness, Ports};
use windlass_conformance::job::JobHarness;
use windlass_conformance::trigger::TriggerHarness;
use windlass_core::port::job::Jobs;
use windlass_core::port::trigger::Triggers;
use windlass_store_postgres::{Options, Postgres};

use crate::server::{Schema, schema};

async fn make() -> Schema {
    schema().await
}

#[async_trait::async_trait]
impl Harness for Schema {
    async fn open(&self, ahead_ms: u64) -> Ports {
        // Outages are for `outage.rs`: here a disk that is busy with other tests is waited for.
        let options = Options { ahead_ms, connections: 2, answer_ms: 240_000, ..Options::default() };
        let store = Postgres::open(&self.url, &options).await.unwrap();
        Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
    }

    /// Everything is in the server: whoever opens next finds it. That the server itself may end is seen in
    /// `outage.rs`.
    async fn restart(&self) {}
}

windlass_conformance::suite!(make);

#[async_trait::async_trait]
impl JobHarness for Schema {
    async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
        let options = Options { ahead_ms, connections: 2, answer_ms: 240_000, ..Options::default() };
        Arc::new(Postgres::open(&self.url, &options).await.unwrap())
    }

    async fn restart(&self) {}
}

mod jobs {
    use super::make;

    windlass_conformance::job_suite!(make);
}

#[async_trait::async_trait]
impl TriggerHarness for Schema {
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
        let options = Options { ahead_ms, connections: 2, answer_ms: 240_000, ..Options::default() };
        Arc::new(Postgres::open(&self.url, &options).await.unwrap())
    }

    async fn restart(&self) {}
}

windlass_conformance::trigger_suite!(make);
