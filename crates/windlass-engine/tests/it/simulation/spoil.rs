//! Stores that break one rule each. If the simulation did not notice, it would prove nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, OpId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{
    Beat, CheckpointPut, Filter, Key, Op, Row, State, Step, Stepped, Take, TaskRow, Which, Writer,
};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

/// The rule that is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// A stale owner is refused.
    Fence,
    /// The same operation again changes nothing.
    Repeat,
    /// Who lived before a restart is known after it.
    Lives,
    /// A lock that is given back is free.
    Release,
    /// A plan has no more tasks at once than it says.
    Slots,
    /// What is completed is kept.
    Progress,
    /// A worker that lost its job is refused.
    Answer,
    /// So is a scheduler that lost its occurrence.
    Claim,
    /// One (trigger, time) makes one job.
    Occurrence,
    /// A job that was taken is there.
    Job,
}

/// A store without that rule.
pub(super) struct Spoiled {
    pub(super) rule: Rule,
    pub(super) state: Arc<dyn State>,
    pub(super) locks: Arc<dyn Locks>,
    pub(super) ops: AtomicU64,
}

impl Spoiled {
    /// Makes any owner the right one.
    async fn forge(&self, step: &mut Step) -> Result<(), PortError> {
        let [put] = &mut step.tasks[..] else { return Ok(()) };
        let keys = [Key::Task(put.task.id.clone()), Key::Tenant(put.task.tenant.clone())];
        let rows = self.state.load(&keys).await?;
        let [Some(Row::Task(row)), Some(Row::Tenant(tenant))] = &rows[..] else { return Ok(()) };
        let Writer::Owner { instance, fence } = &mut step.by else { return Ok(()) };
        if let Some(owner) = &row.task.owner {
            *instance = owner.clone();
        }
        *fence = tenant.fence.max(*fence);
        put.from = TaskStatus::ALL.into_iter().filter(|from| from.may_become(put.task.status)).collect();
        if let CheckpointPut::Put(checkpoint) = &mut step.checkpoint {
            (checkpoint.fence, checkpoint.version) = (*fence, row.checkpoint + 1);
        }
        Ok(())
    }
}

#[async_trait]
impl State for Spoiled {
    fn at_once(&self) -> Option<usize> {
        self.state.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.state.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        let mut steps = steps.to_vec();
        for step in &mut steps {
            match self.rule {
                Rule::Fence => self.forge(step).await?,
                Rule::Repeat => {
                    let n = self.ops.fetch_add(1, Ordering::Relaxed);
                    step.op.id = OpId::of(&"spoiled".parse().unwrap(), n);
                }
                // A step that completes a stage says so in its events only.
                Rule::Progress => {
                    if let ([put], CheckpointPut::Put(checkpoint)) = (&mut step.tasks[..], &mut step.checkpoint)
                        && put.task.status == TaskStatus::Failed
                        && put.task.completed > 0
                    {
                        put.task.completed = 0;
                        checkpoint.last_completed_stage_index = -1;
                        checkpoint.completed_stages.clear();
                    }
                }
                _ => {}
            }
        }
        self.state.commit(&steps).await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        let (Rule::Slots, Which::Ready { .. }) = (self.rule, &take.which) else { return self.state.take(take).await };
        let mut rows = self.state.take(take).await?;
        let Some(Ok(first)) = rows.first() else { return Ok(rows) };
        let (plan, statuses) = (Some(first.task.plan.clone()), [TaskStatus::Pending].into_iter().collect());
        let filter = Filter::Tasks { plan, tenant: None, statuses, interrupted: false };
        let free = self.state.list(&filter, None, 100).await?.items.into_iter().filter_map(|row| match row {
            Row::Task(row) if row.task.owner.is_none() => Some(row.task.id),
            _ => None,
        });
        let named = Take { instance: take.instance.clone(), which: Which::Named(free.collect()) };
        rows.extend(self.state.take(&named).await?);
        Ok(rows)
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.state.beat(instance, lease_ms).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        self.state.load(keys).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        match (self.rule, filter) {
            (Rule::Lives, Filter::Instances) => Ok(Page { items: Vec::new(), next: None }),
            _ => self.state.list(filter, after, limit).await,
        }
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.state.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.state.purge(before, limit).await
    }
}

#[async_trait]
impl Locks for Spoiled {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        self.locks.acquire(want).await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        self.locks.renew(held, ttl_ms).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        match self.rule {
            Rule::Release => Ok(held.iter().map(|_| Ok(())).collect()),
            _ => self.locks.release(held).await,
        }
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        self.locks.force(tenant, what, by, reason, op).await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        self.locks.load(tenants).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        self.locks.list(after, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.locks.changed(since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.locks.purge(before, limit).await
    }
}
