//! Steps and reads of many callers, each kind as one statement.

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

    type Answer = Result<Vec<Option<Row>>, PortError>;
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
        match load::load(&inner.pool, &keys).await {
            Ok(rows) => {
                let mut rows = rows.into_iter();
                Ok(batch.iter().map(|load| Ok(rows.by_ref().take(load.0.len()).collect())).collect())
            }
            // Of what cannot be read only whoever asked for it hears.
            Err(PortError::Corrupt(_)) if batch.len() > 1 => {
                let mut answers = Vec::with_capacity(batch.len());
                for load in batch {
                    answers.push(load::load(&inner.pool, &load.0).await);
                }
                Ok(answers)
            }
            Err(error) => Err(error),
        }
    }
}
