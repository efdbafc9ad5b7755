//! State on MySQL: the port's methods. Each runs in a task of its own, so that a caller who goes away does not leave it half-way.

pub(crate) mod commit;
mod known;
pub(crate) mod list;
mod load;
mod onward;
mod purge;
mod roomy;
pub(crate) mod row;
mod take;
pub(crate) mod write;

pub(crate) use known::Known;
pub(crate) use roomy::Roomy;

use async_trait::async_trait;
use windlass_core::id::InstanceId;
use windlass_core::port::page::{check_batch, check_limit};
use windlass_core::port::state::{Beat, Filter, Key, Row, State, Step, Stepped, Take, TaskRow, Which};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

use crate::MySql;
use crate::wake::Port;

#[async_trait]
impl State for MySql {
    fn at_once(&self) -> Option<usize> {
        Some(commit::STEPS_AT_ONCE)
    }

    /// While one half is under way the other comes back.
    fn enough(&self) -> Option<usize> {
        Some(2 * commit::STEPS_AT_ONCE)
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        check_batch(steps.len())?;
        commit::commit(&self.inner, steps).await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        if let Which::Named(ids) = &take.which {
            check_batch(ids.len())?;
        }
        let Take { instance, which } = take.clone();
        self.run(async move |inner| match &which {
            Which::Named(ids) => take::named(&inner, &instance, ids).await,
            Which::Ready { plan, limit } => take::ready(&inner, &instance, plan.as_ref(), *limit).await,
        })
        .await
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        let instance = instance.clone();
        self.run(async move |inner| {
            let beat = take::beat(&inner, &instance, lease_ms).await?;
            if lease_ms == 0 {
                inner.wake.tell();
            }
            Ok(beat)
        })
        .await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        check_batch(keys.len())?;
        let keys = keys.to_vec();
        self.run(async move |inner| load::load(&inner.pool, &keys).await).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        check_limit(limit)?;
        let (filter, after) = (filter.clone(), after.cloned());
        self.run(async move |inner| list::list(&inner.pool, &inner.clock, &filter, after.as_ref(), limit).await).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner, Port::State, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| purge::purge(&inner, before, limit).await).await
    }
}
