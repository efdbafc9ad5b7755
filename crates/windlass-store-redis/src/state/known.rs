//! Tasks of this process's instances, as it left or found them. Every write raises a row's version, and its owner's names
//! the operation: a row that still has both, the same owner and the same requests is as it is known, and need not be read again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, PlanId, TaskId, TenantId};
use windlass_core::port::state::{CheckpointPut, LastOp, Step, Stepped, TaskRow, Writer};
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Control, Task};
use windlass_core::time::Ms;

use super::row::{self, Rest};
use super::straight::Seal;

/// When so many are remembered, all are forgotten: some are of tasks that went elsewhere.
const ROWS_MAX: usize = 65_536;

/// A row as it is known.
#[derive(Debug, Clone)]
pub(super) struct Left {
    pub(super) version: u64,
    pub(super) seq: u64,
    /// As it stands in the row.
    pub(super) op: String,
    pub(super) checkpoint: u64,
    /// Who wrote the checkpoint, if it is known.
    pub(super) checkpoint_by: Option<(Option<InstanceId>, Fence)>,
    pub(super) control: Control,
    /// The seal that was whole when the row became this.
    pub(super) seal: Option<Seal>,
    pub(super) task: Part,
}

/// What of a task decides where it stands.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) status: TaskStatus,
    pub(super) owner: Option<InstanceId>,
    pub(super) fence: Fence,
    pub(super) ready_at: Ms,
    pub(super) started_at: Option<Ms>,
    pub(super) ended_at: Option<Ms>,
    pub(super) rest: Rest,
    fixed: Fixed,
}

/// What never changes.
#[derive(Debug, Clone)]
struct Fixed {
    id: TaskId,
    plan: PlanId,
    tenant: TenantId,
    position: u32,
    created_at: Ms,
}

impl Part {
    fn of(task: &Task) -> Part {
        let fixed = Fixed {
            id: task.id.clone(),
            plan: task.plan.clone(),
            tenant: task.tenant.clone(),
            position: task.position,
            created_at: task.created_at,
        };
        Part {
            status: task.status,
            owner: task.owner.clone(),
            fence: task.fence,
            ready_at: task.ready_at,
            started_at: task.started_at,
            ended_at: task.ended_at,
            rest: Rest::of(task),
            fixed,
        }
    }
}

impl Fixed {
    fn is(&self, task: &Task) -> bool {
        self.id == task.id
            && self.plan == task.plan
            && self.tenant == task.tenant
            && self.position == task.position
            && self.created_at == task.created_at
    }
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
            op: format!("{} {}", row::op(&step.op.id, step.op.digest), stepped.at.get()),
            checkpoint,
            checkpoint_by,
            control: stepped.control.clone(),
            seal: None,
            task: Part::of(task),
        }
    }

    /// As it was read.
    fn read(row: &TaskRow) -> Left {
        let op = |op: &LastOp| format!("{} {}", row::op(&op.id, op.digest), op.at.get());
        Left {
            version: row.version,
            seq: row.seq,
            op: row.op.as_ref().map_or_else(String::new, op),
            checkpoint: row.checkpoint,
            checkpoint_by: None,
            control: row.control.clone(),
            seal: None,
            task: Part::of(&row.task),
        }
    }

    /// Whether an owner's step of one task would be taken if the row is as it is known, and is not the last one once more.
    pub(super) fn may(&self, step: &Step) -> bool {
        let (Writer::Owner { instance, .. }, [put]) = (&step.by, &step.tasks[..]) else { return false };
        let next = match &step.checkpoint {
            CheckpointPut::Put(checkpoint) => checkpoint.version == self.checkpoint + 1,
            _ => true,
        };
        next && put.from.has(self.task.status)
            && self.task.owner.as_ref() == Some(instance)
            && self.task.fixed.is(&put.task)
            && self.op.split(' ').next() != Some(step.op.id.as_str())
    }

    /// Whether the task stands where it stood: then only how far it has come has changed.
    pub(super) fn stays(&self, task: &Task) -> bool {
        let Part { status, owner, fence, ready_at, started_at, ended_at, rest, fixed } = &self.task;
        (*status, *fence, *ready_at) == (task.status, task.fence, task.ready_at)
            && (*started_at, *ended_at) == (task.started_at, task.ended_at)
            && *owner == task.owner
            && *rest == Rest::of(task)
            && !rest.more
            && fixed.is(task)
    }
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

    /// Keeps it while it has an owner.
    pub(super) fn put(&self, left: Left) {
        let mut rows = self.rows();
        if rows.len() >= ROWS_MAX {
            rows.clear();
        }
        if left.task.owner.is_some() {
            rows.insert(left.task.fixed.id.clone(), left);
        }
    }

    /// A row was taken for an instance of this process.
    pub(super) fn taken(&self, row: &TaskRow) {
        self.put(Left::read(row));
    }

    /// A step was taken. `checkpoint` is the stored version, if it was written now and not before.
    pub(super) fn stepped(&self, step: &Step, stepped: &Stepped, checkpoint: Option<u64>) {
        match (&step.by, &step.tasks[..], &step.ask) {
            (Writer::Owner { .. }, [put], None) => {
                let before = self.take(&put.task.id);
                if let Some(checkpoint) = checkpoint {
                    self.put(Left::by(step, &put.task, stepped, checkpoint, before.as_ref()));
                }
            }
            (Writer::Person(_), [], Some(ask)) if step.checkpoint == CheckpointPut::Keep => {
                // Somebody here asks something of a task that is run here.
                let left = self.take(&ask.task).filter(|left| left.version + 1 == stepped.version);
                if let Some(left) = left {
                    self.put(Left {
                        version: stepped.version,
                        seq: stepped.seq,
                        control: stepped.control.clone(),
                        seal: None,
                        ..left
                    });
                }
            }
            _ => {}
        }
    }
}
