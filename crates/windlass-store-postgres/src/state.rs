//! State on PostgreSQL: the port's methods. Each runs in a task of its own, so that a caller who goes
//! away does not leave it half-way.

mod ask;
mod boundary;
mod commit;
pub(crate) mod group;
pub(crate) mod list;
mod load;
pub(crate) mod row;
mod take;
pub(crate) mod write;

use async_trait::async_trait;
use tokio_postgres::Row as Record;
use windlass_core::id::InstanceId;
use windlass_core::port::page::{check_batch, check_limit};
use windlass_core::port::state::{Beat, Filter, Key, Row, State, Step, Stepped, Take, TaskRow, Which};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

use self::group::{Boundary, Load, PlanStep};
use crate::cell::{Cells, Stamp, params};
use crate::line::carry;
use crate::pool::Call;
use crate::wake::Port;
use crate::{Postgres, sql};

#[async_trait]
impl State for Postgres {
    fn at_once(&self) -> Option<usize> {
        Some(group::STEPS_AT_ONCE)
    }

    fn enough(&self) -> Option<usize> {
        None
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        check_batch(steps.len())?;
        if let [step] = steps {
            if boundary::fits(step) {
                return carry(&self.inner, Boundary(step.clone())).await.map(|answer| vec![answer]);
            }
            if PlanStep::fits(step) {
                return carry(&self.inner, PlanStep(step.clone())).await.map(|answer| vec![answer]);
            }
        }
        let steps = steps.to_vec();
        self.run(async move |inner| {
            let committed = commit::in_order(&inner.pool, &steps, inner.ahead_ms).await?;
            if committed.wakes {
                inner.wake.tell(Port::State);
            }
            Ok(committed.answers)
        })
        .await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        if let Which::Named(ids) = &take.which {
            check_batch(ids.len())?;
        }
        let Take { instance, which } = take.clone();
        self.run(async move |inner| match &which {
            Which::Named(ids) => take::named(&inner.pool, &instance, ids, inner.ahead_ms).await,
            Which::Ready { plan, limit } => {
                take::ready(&inner.pool, &instance, plan.as_ref(), *limit, inner.ahead_ms).await
            }
        })
        .await
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        let instance = instance.clone();
        self.run(async move |inner| {
            let beat = take::beat(&inner.pool, &instance, lease_ms, inner.ahead_ms).await?;
            if lease_ms == 0 {
                inner.wake.tell(Port::State);
            }
            Ok(beat)
        })
        .await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        check_batch(keys.len())?;
        carry(&self.inner, Load(keys.to_vec())).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        check_limit(limit)?;
        let (filter, after) = (filter.clone(), after.cloned());
        self.run(async move |inner| list::list(&inner.pool, &filter, after.as_ref(), limit, inner.ahead_ms).await).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner.pool, Port::State, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| {
            let params = params![Stamp(before), i64::from(limit), inner.ahead_ms];
            let rows = inner.pool.query(&Call::new(sql::PURGE, params)).await?;
            one(&rows)?.count()
        })
        .await
    }
}

/// The first row, which is always there.
pub(crate) fn one(rows: &[Record]) -> Result<Cells<'_>, PortError> {
    rows.first().map(Cells::of).ok_or_else(|| PortError::Corrupt("a statement answered nothing".to_owned()))
}
