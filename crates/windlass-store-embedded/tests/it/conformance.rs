//! The contract, on disk and in memory, with a writer's thread and without.

mod disk {
    use std::sync::{Arc, Mutex};

    use windlass_conformance::harness::{Harness, Ports};
    use windlass_conformance::job::JobHarness;
    use windlass_conformance::trigger::TriggerHarness;
    use windlass_core::port::job::Jobs;
    use windlass_core::port::trigger::Triggers;
    use windlass_store_embedded::{Embedded, Options};

    struct Disk {
        folder: tempfile::TempDir,
        store: Mutex<Embedded>,
    }

    async fn make() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(folder.path(), &Options::default()).unwrap();
        Disk { folder, store: Mutex::new(store) }
    }

    #[async_trait::async_trait]
    impl Harness for Disk {
        async fn open(&self, ahead_ms: u64) -> Ports {
            super::ports(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            let mut store = self.store.lock().unwrap();
            store.close();
            *store = Embedded::open(self.folder.path(), &Options::default()).unwrap();
        }
    }

    #[async_trait::async_trait]
    impl JobHarness for Disk {
        async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
            Arc::new(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            Harness::restart(self).await;
        }
    }

    #[async_trait::async_trait]
    impl TriggerHarness for Disk {
        async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
            Arc::new(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            Harness::restart(self).await;
        }
    }

    windlass_conformance::suite!(make);
    windlass_conformance::job_suite!(make);
    windlass_conformance::trigger_suite!(make);
}

mod memory {
    use std::sync::{Arc, Mutex};

    use windlass_conformance::harness::{Harness, Ports};
    use windlass_conformance::job::JobHarness;
    use windlass_conformance::trigger::TriggerHarness;
    use windlass_core::port::job::Jobs;
    use windlass_core::port::trigger::Triggers;
    use windlass_store_embedded::kv::memory::Memory;
    use windlass_store_embedded::{Clock, Embedded};

    /// A restart keeps the map: what `memory:` would hold if the process lived.
    struct Kept {
        kv: Arc<Memory>,
        store: Mutex<Embedded>,
    }

    async fn make() -> Kept {
        let kv = Arc::new(Memory::default());
        let store = Embedded::over(kv.clone(), Clock::system()).unwrap();
        Kept { kv, store: Mutex::new(store) }
    }

    #[async_trait::async_trait]
    impl Harness for Kept {
        async fn open(&self, ahead_ms: u64) -> Ports {
            super::ports(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            let mut store = self.store.lock().unwrap();
            store.close();
            *store = Embedded::over(self.kv.clone(), Clock::system()).unwrap();
        }
    }

    #[async_trait::async_trait]
    impl JobHarness for Kept {
        async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
            Arc::new(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            Harness::restart(self).await;
        }
    }

    #[async_trait::async_trait]
    impl TriggerHarness for Kept {
        async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
            Arc::new(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            Harness::restart(self).await;
        }
    }

    windlass_conformance::suite!(make);
    windlass_conformance::job_suite!(make);
    windlass_conformance::trigger_suite!(make);
}

mod inline {
    use std::sync::{Arc, Mutex};

    use windlass_conformance::harness::{Harness, Ports};
    use windlass_conformance::job::JobHarness;
    use windlass_conformance::trigger::TriggerHarness;
    use windlass_core::port::job::Jobs;
    use windlass_core::port::trigger::Triggers;
    use windlass_store_embedded::kv::memory::Memory;
    use windlass_store_embedded::{Clock, Embedded};

    /// Without a thread of its own.
    struct Inline {
        kv: Arc<Memory>,
        store: Mutex<Embedded>,
    }

    async fn make() -> Inline {
        let kv = Arc::new(Memory::default());
        let store = Embedded::inline(kv.clone(), Clock::system()).unwrap();
        Inline { kv, store: Mutex::new(store) }
    }

    #[async_trait::async_trait]
    impl Harness for Inline {
        async fn open(&self, ahead_ms: u64) -> Ports {
            super::ports(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            let mut store = self.store.lock().unwrap();
            store.close();
            *store = Embedded::inline(self.kv.clone(), Clock::system()).unwrap();
        }
    }

    #[async_trait::async_trait]
    impl JobHarness for Inline {
        async fn open_jobs(&self, ahead_ms: u64) -> Arc<dyn Jobs> {
            Arc::new(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            Harness::restart(self).await;
        }
    }

    #[async_trait::async_trait]
    impl TriggerHarness for Inline {
        async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
            Arc::new(self.store.lock().unwrap().ahead(ahead_ms))
        }

        async fn restart(&self) {
            Harness::restart(self).await;
        }
    }

    windlass_conformance::suite!(make);
    windlass_conformance::job_suite!(make);
    windlass_conformance::trigger_suite!(make);
}

fn ports(store: windlass_store_embedded::Embedded) -> windlass_conformance::harness::Ports {
    use std::sync::Arc;
    windlass_conformance::harness::Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
}
