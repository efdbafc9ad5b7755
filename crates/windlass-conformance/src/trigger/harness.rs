//! What a store hands to the contract of triggers, and how one scenario is run.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::port::trigger::Triggers;

use crate::harness::{Run, block_on};

/// A store under test. One harness is one store with nothing in it, apart from every other harness.
#[async_trait]
pub trait TriggerHarness: Send + Sync {
    /// A rival: its own connections where the store is a server. Its clock runs `ahead_ms` ahead of the store's; that
    /// is how time passes in a scenario.
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers>;

    /// Closes everything and opens what is stored again. Every port handed out before is dead.
    async fn restart(&self);
}

#[async_trait]
impl<H: TriggerHarness + ?Sized> TriggerHarness for Arc<H> {
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
        (**self).open_triggers(ahead_ms).await
    }

    async fn restart(&self) {
        (**self).restart().await;
    }
}

/// A scenario, ready to be run.
pub type Scenario = for<'h> fn(&'h dyn TriggerHarness) -> Run<'h>;

/// Runs one scenario on a new store, with enough threads for its rivals to meet.
pub fn run<H, F>(make: impl FnOnce() -> F, scenario: Scenario)
where
    H: TriggerHarness,
    F: Future<Output = H>,
{
    block_on(async {
        let harness = make().await;
        scenario(&harness).await;
    });
}
