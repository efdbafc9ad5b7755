//! A store under watch: it tells which boundaries were acknowledged, and counts how often the engine over it has looked for
//! work. What ends the process is beneath it, in the store itself: the feature `fault`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use windlass::core::id::InstanceId;
use windlass::core::port::state::{Beat, Filter, Key, Row, State, Step, Stepped, Take, TaskRow, Writer};
use windlass::core::port::{Cursor, Each, Mark, Page, PortError};
use windlass::core::time::Ms;
use windlass::open::Stores;

/// What an attempt is told once a write of its own was acknowledged.
type Acknowledged = Box<dyn Fn(&Step) + Send + Sync>;

pub(crate) struct Watched {
    state: Arc<dyn State>,
    acknowledged: Acknowledged,
    takes: AtomicU32,
    plans: AtomicU32,
}

impl Watched {
    /// These stores; `acknowledged` hears of every owner's commit that was taken.
    pub(crate) fn over(
        stores: &Stores,
        acknowledged: impl Fn(&Step) + Send + Sync + 'static,
    ) -> (Arc<Watched>, Stores) {
        let watched = Arc::new(Watched {
            state: Arc::clone(&stores.state),
            acknowledged: Box::new(acknowledged),
            takes: AtomicU32::new(0),
            plans: AtomicU32::new(0),
        });
        let stores = Stores { state: Arc::clone(&watched) as _, ..stores.clone() };
        (watched, stores)
    }

    /// How often the engine has looked for tasks, and at the list of open plans: the smaller of both.
    pub(crate) fn looks(&self) -> u32 {
        self.takes.load(Ordering::SeqCst).min(self.plans.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl State for Watched {
    fn at_once(&self) -> Option<usize> {
        self.state.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.state.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        let answers = self.state.commit(steps).await;
        for (step, answer) in steps.iter().zip(answers.iter().flatten()) {
            if answer.is_ok() && matches!(step.by, Writer::Owner { .. }) {
                (self.acknowledged)(step);
            }
        }
        answers
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        let taken = self.state.take(take).await;
        self.takes.fetch_add(1, Ordering::SeqCst);
        taken
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.state.beat(instance, lease_ms).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        self.state.load(keys).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        let page = self.state.list(filter, after, limit).await;
        // The conductor asks for all open plans; whoever hands out tasks, for those that run, if not any will do.
        match filter {
            Filter::Plans { statuses } if statuses.len() > 1 => self.plans.fetch_add(1, Ordering::SeqCst),
            Filter::Plans { .. } => self.takes.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        page
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.state.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.state.purge(before, limit).await
    }
}
