//! Running tasks as this process left them. Every write raises a row's version, and its owner's names the operation: a
//! row that still has both is as it was left, and need not be read again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, PlanId, TaskId, TenantId};
use windlass_core::port::state::{CheckpointPut, Step, Stepped, Writer};
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Control, Task};
use windlass_core::time::Ms;

/// When so many are remembered, all are forgotten: some are of tasks that went elsewhere.
const ROWS_MAX: usize = 65_536;

/// A row that was written by this process.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) version: u64,
    pub(super) seq: u64,
    /// As it stands in the row.
    pub(super) op: String,
    pub(super) checkpoint: u64,
    /// Who wrote the checkpoint, if it is known.
    pub(super) checkpoint_by: Option<(Option<InstanceId>, Fence)>,
    plan: PlanId,
    tenant: TenantId,
    position: u32,
    status: TaskStatus,
    owner: Option<InstanceId>,
    fence: Fence,
    times: [Option<Ms>; 4],
}

impl Left {
    /// As the step left it; `checkpoint` is the version that is stored now.
    pub(super) fn by(step: &Step, task: &Task, stepped: &Stepped, checkpoint: u64, before: Option<&Left>) -> Left {
        let checkpoint_by = match &step.checkpoint {
            CheckpointPut::Put(put) => Some((put.executor_instance.clone(), put.fence)),
            CheckpointPut::Keep => before.and_then(|before| before.checkpoint_by.clone()),
            CheckpointPut::Remove => None,
        };
        Left {
            version: stepped.version,
            seq: stepped.seq,
            op: format!("{} {} {}", step.op.id, step.op.digest, stepped.at.get()),
            checkpoint,
            checkpoint_by,
            plan: task.plan.clone(),
            tenant: task.tenant.clone(),
            position: task.position,
            status: task.status,
            owner: task.owner.clone(),
            fence: task.fence,
            times: times(task),
        }
    }

    /// Whether the step goes on from here: the same attempt in the same place, and not the operation once more.
    pub(super) fn goes_on(&self, step: &Step, task: &Task) -> bool {
        self.status == task.status
            && self.fence == task.fence
            && self.position == task.position
            && self.times == times(task)
            && self.owner == task.owner
            && self.plan == task.plan
            && self.tenant == task.tenant
            && self.op.split(' ').next() != Some(step.op.id.as_str())
    }
}

/// What a boundary does not change.
fn times(task: &Task) -> [Option<Ms>; 4] {
    [Some(task.created_at), Some(task.ready_at), task.started_at, task.ended_at]
}

#[derive(Default)]
pub(crate) struct Known {
    rows: Mutex<HashMap<TaskId, Left>>,
}

impl Known {
    fn rows(&self) -> MutexGuard<'_, HashMap<TaskId, Left>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the row away: whoever writes it puts back what it has become.
    pub(super) fn take(&self, task: &TaskId) -> Option<Left> {
        self.rows().remove(task)
    }

    pub(super) fn put(&self, task: &TaskId, left: Left) {
        let mut rows = self.rows();
        if rows.len() >= ROWS_MAX {
            rows.clear();
        }
        rows.insert(task.clone(), left);
    }

    /// A step was taken. `checkpoint` is the stored version, if it was written now and not before.
    pub(super) fn stepped(&self, step: &Step, stepped: &Stepped, checkpoint: Option<u64>) {
        let (Writer::Owner { instance, fence }, [put]) = (&step.by, &step.tasks[..]) else { return };
        let task = &put.task;
        let before = self.take(&task.id);
        let runs = task.status.is_running() && task.owner.as_ref() == Some(instance) && task.fence == *fence;
        if let Some(checkpoint) = checkpoint.filter(|_| runs && stepped.control == Control::default()) {
            self.put(&task.id, Left::by(step, task, stepped, checkpoint, before.as_ref()));
        }
    }
}
