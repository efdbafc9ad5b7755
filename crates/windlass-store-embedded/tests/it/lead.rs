//! A caller that is alone writes for itself, on the same promises as the writer's thread.

use std::sync::{Arc, Mutex};

use windlass_core::port::PortError;
use windlass_core::port::state::State;
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::kv::{Batch, Kv, KvError, Read, Survives};
use windlass_store_embedded::{Clock, Embedded};

use crate::probe::{Fail, Probe, WHY};
use crate::work::id;

/// Notes which thread commits.
struct Names {
    inner: Memory,
    threads: Mutex<Vec<String>>,
}

impl Kv for Names {
    fn read(&self) -> Box<dyn Read + '_> {
        self.inner.read()
    }

    fn commit(&self, batch: Batch, survives: Survives) -> Result<(), KvError> {
        let name = std::thread::current().name().unwrap_or("a caller").to_owned();
        self.threads.lock().unwrap().push(name);
        self.inner.commit(batch, survives)
    }

    fn mark(&self, seq: u64) -> Result<(), KvError> {
        self.inner.mark(seq)
    }

    fn close(&self) -> Result<(), KvError> {
        self.inner.close()
    }
}

async fn writers() -> Vec<String> {
    let kv = Arc::new(Names { inner: Memory::default(), threads: Mutex::default() });
    let store = Embedded::over(Arc::clone(&kv) as _, Clock::system()).unwrap();
    for _ in 0..3 {
        store.beat(&id("i"), 60_000).await.unwrap();
    }
    store.close();
    std::mem::take(&mut kv.threads.lock().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alone_on_a_runtime_with_threads_a_caller_writes_for_itself() {
    let threads = writers().await;
    assert!(threads.len() == 3 && threads.iter().all(|name| name != "windlass-writer"), "{threads:?}");
}

#[tokio::test]
async fn on_a_runtime_with_one_thread_nobody_blocks_it() {
    assert_eq!(writers().await, ["windlass-writer"; 3]);
}

/// What a machine with one processor has.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn on_a_runtime_with_one_worker_nobody_blocks_it() {
    assert_eq!(tokio::spawn(writers()).await.unwrap(), ["windlass-writer"; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_of_its_own_that_fails_stops_the_store_too() {
    for fail in [Fail::Commit, Fail::AfterCommit, Fail::Panic, Fail::Mark] {
        let kv = Probe::over(Arc::new(Memory::default()));
        let store = Embedded::over(Arc::<Probe>::clone(&kv), Clock::system()).unwrap();
        store.beat(&id("before"), 60_000).await.unwrap();
        kv.fail(fail);
        let told = store.beat(&id("i"), 60_000).await.map(drop);
        assert!(matches!(told, Err(PortError::Unavailable(_))), "{fail:?}: {told:?}");
        let why = store.stopped().unwrap();
        assert!(why.contains(WHY), "{fail:?}: {why}");
        let later = store.beat(&id("i"), 60_000).await.map(drop);
        assert_eq!(later, Err(PortError::Unavailable(why)), "{fail:?}");
        store.close();
        assert_eq!(kv.commits().len(), 2, "{fail:?}: nothing more reaches the engine");
    }
}
