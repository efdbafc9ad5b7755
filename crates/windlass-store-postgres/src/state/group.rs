//! Steps and reads of many callers, each kind together: boundaries and reads as one statement, steps of plans as one transaction.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_core::id::{TaskId, TenantId};
use windlass_core::port::state::{Key, Row, Step, Stepped};
use windlass_core::port::{PortError, Refusal};

use super::{boundary, commit, load};
use crate::Inner;
use crate::line::{Line, UNDER_WAY_MAX, Work};
use crate::wake::Port;

/// Steps under way at a time.
pub(super) const STEPS_AT_ONCE: usize = UNDER_WAY_MAX * boundary::STEPS_MAX;

/// Keys of several callers in one read, at most; one caller may ask for more.
const KEYS_MAX: usize = 512;

/// A step that fits a boundary statement.
pub(crate) struct Boundary(pub(super) Step);

/// Each task and tenant once.
#[derive(Default)]
pub(crate) struct Named {
    tasks: HashSet<TaskId>,
    tenants: HashSet<TenantId>,
}

impl Work for Boundary {
    type Answer = Result<Stepped, Refusal>;
    type Batch = Named;
    const SPLITS: bool = true;
    // Of several instances on one server many small ones are slower than few that are full.
    const BESIDE_MIN: usize = boundary::STEPS_MAX;

    fn line(inner: &Inner) -> &Line<Boundary> {
        &inner.boundaries
    }

    fn join(&self, batch: &mut Named) -> bool {
        let task = &self.0.tasks[0].task;
        let fits = batch.tasks.len() < boundary::STEPS_MAX
            && !batch.tasks.contains(&task.id)
            && !batch.tenants.contains(&task.tenant);
        fits && batch.tasks.insert(task.id.clone()) && batch.tenants.insert(task.tenant.clone())
    }

    /// Whoever gives its task up has waited before, when it learned that it is to; and others wait for its slot.
    fn is_urgent(&self) -> bool {
        self.0.tasks.iter().any(|put| put.task.owner.is_none())
    }

    async fn run(inner: &Arc<Inner>, batch: &mut Vec<Boundary>) -> Result<Vec<Self::Answer>, PortError> {
        let steps: Vec<&Step> = batch.iter().map(|boundary| &boundary.0).collect();
        let committed = commit::boundaries(&inner.pool, &steps, inner.ahead_ms).await?;
        if committed.wakes {
            inner.wake.tell(Port::State);
        }
        Ok(committed.answers)
    }
}

/// What one caller wants to read: a thousand tasks that begin or pause at once ask for the same plan.
pub(crate) struct Load(pub(super) Vec<Key>);

impl Work for Load {
    const WRITES: bool = false;
    const SPLITS: bool = true;

    type Answer = Vec<Option<Row>>;
    type Batch = usize;

    fn line(inner: &Inner) -> &Line<Load> {
        &inner.loads
    }

    fn join(&self, batch: &mut usize) -> bool {
        *batch += self.0.len();
        *batch <= KEYS_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &mut Vec<Load>) -> Result<Vec<Self::Answer>, PortError> {
        let keys: Vec<Key> = batch.iter().flat_map(|load| &load.0).cloned().collect();
        let mut rows = load::load(&inner.pool, &keys).await?.into_iter();
        Ok(batch.iter().map(|load| rows.by_ref().take(load.0.len()).collect()).collect())
    }
}

/// A step about a plan alone: many that are started at once end at once too.
pub(crate) struct PlanStep(pub(super) Step);

impl PlanStep {
    pub(super) fn fits(step: &Step) -> bool {
        step.plan.is_some()
            && step.tasks.is_empty()
            && step.ask.is_none()
            && step.events.iter().all(|event| event.task.is_none())
    }
}

impl Work for PlanStep {
    type Answer = Result<Stepped, Refusal>;
    type Batch = usize;
    const SPLITS: bool = true;
    const BESIDE_MIN: usize = boundary::STEPS_MAX;

    fn line(inner: &Inner) -> &Line<PlanStep> {
        &inner.plan_steps
    }

    fn join(&self, batch: &mut usize) -> bool {
        *batch += 1;
        *batch <= boundary::STEPS_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &mut Vec<PlanStep>) -> Result<Vec<Self::Answer>, PortError> {
        let steps: Vec<&Step> = batch.iter().map(|one| &one.0).collect();
        let committed = commit::judged(&inner.pool, &steps, inner.ahead_ms).await?;
        if committed.wakes {
            inner.wake.tell(Port::State);
        }
        Ok(committed.answers)
    }
}
