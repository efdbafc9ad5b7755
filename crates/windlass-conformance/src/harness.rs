//! What a store hands to the contract, and how one scenario is run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;

/// One rival's way to the store.
#[derive(Clone)]
pub struct Ports {
    /// State.
    pub state: Arc<dyn State>,
    /// Tenant locks, of the same store.
    pub locks: Arc<dyn Locks>,
}

/// A store under test. One harness is one store with nothing in it, apart from every other harness.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A rival: its own connections where the store is a server. Its clock runs `ahead_ms` ahead of
    /// the store's; that is how time passes in a scenario.
    async fn open(&self, ahead_ms: u64) -> Ports;

    /// Closes everything and opens what is stored again. Every [`Ports`] handed out before is dead.
    async fn restart(&self);
}

#[async_trait]
impl<H: Harness + ?Sized> Harness for Arc<H> {
    async fn open(&self, ahead_ms: u64) -> Ports {
        (**self).open(ahead_ms).await
    }

    async fn restart(&self) {
        (**self).restart().await;
    }
}

/// What a scenario comes to.
pub type Run<'h> = Pin<Box<dyn Future<Output = ()> + Send + 'h>>;

/// A scenario, ready to be run.
pub type Scenario = for<'h> fn(&'h dyn Harness) -> Run<'h>;

/// Runs one scenario on a new store, with enough threads for its rivals to meet.
pub fn run<H, F>(make: impl FnOnce() -> F, scenario: Scenario)
where
    H: Harness,
    F: Future<Output = H>,
{
    block_on(async {
        let harness = make().await;
        scenario(&harness).await;
    });
}

/// The runtime of a test: rivals run on four threads.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime for the test")
        .block_on(future)
}
