//! The contract. One harness is one database in the server of the test run.

use std::sync::Arc;

use windlass_conformance::harness::{Harness, Ports};
use windlass_conformance::job::JobHarness;
use windlass_conformance::trigger::TriggerHarness;
use windlass_core::port::job::Jobs;
use windlass_core::port::trigger::Triggers;
use windlass_store_mysql::{MySql, Options};

use crate::server::{Database, database};

async fn make() -> Database {
    database().await
}

/// Outages are for `outage.rs`: here a disk that is busy with other tests is waited for.
async fn open(url: &str, ahead_ms: u64) -> MySql {
    let options = Options { ahead_ms, connections: 3, answer_ms: 240_000, ..Options::default() };
    MySql::open(url, &options).await.unwrap()
}

#[async_trait::async_trait]
impl Harness for Database {
    async fn open(&self, ahead_ms: u64) -> Ports {
        let store = open(&self.url, ahead_ms).await;
        Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
    }

    /// Everything is in the server: whoever opens next finds it. That the server itself may end is seen in `outage.rs`.
    async fn restart(&self) {}
}

windlass_conformance::suite!(make);

#[async_trait::async_trait]
impl JobHarness for Database {
    async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
        Arc::new(open(&self.url, ahead_ms).await)
    }

    async fn restart(&self) {}
}

mod jobs {
    use super::make;

    windlass_conformance::job_suite!(make);
}

#[async_trait::async_trait]
impl TriggerHarness for Database {
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
        Arc::new(open(&self.url, ahead_ms).await)
    }

    async fn restart(&self) {}
}

windlass_conformance::trigger_suite!(make);
