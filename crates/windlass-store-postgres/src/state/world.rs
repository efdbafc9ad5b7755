//! What a batch of steps sees and changes, in memory: the rows that were locked for it. Each step is
//! judged against it and then written into it; what changed is written to the database in the end.

use std::collections::{BTreeMap, HashMap, HashSet};

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::Event;
use windlass_core::id::{InstanceId, OpId, PlanId, TaskId, TenantId};
use windlass_core::plan::spec::{PlanSpec, TaskSpec};
use windlass_core::port::state::{OpRow, PlanRow, TaskRow, TenantRow};
use windlass_core::time::Ms;

/// Everything that the steps of a batch are about.
pub(super) struct World {
    pub(super) now: Ms,
    pub(super) plans: BTreeMap<PlanId, PlanEntry>,
    pub(super) tasks: BTreeMap<TaskId, TaskEntry>,
    pub(super) tenants: BTreeMap<TenantId, TenantEntry>,
    pub(super) ops: HashMap<OpId, OpEntry>,
    /// Until when the leases of the tasks' owners run.
    pub(super) leases: HashMap<InstanceId, Ms>,
    /// Plans whose tasks are still to go.
    pub(super) gone: HashSet<PlanId>,
    /// Somebody may be waiting for what was written.
    pub(super) wakes: bool,
}

pub(super) struct PlanEntry {
    pub(super) row: PlanRow,
    pub(super) is_new: bool,
    pub(super) changed: bool,
    pub(super) spec: Option<PlanSpec>,
    pub(super) events: Vec<Event>,
    /// It has tasks that it had not before.
    pub(super) grew: bool,
}

pub(super) struct TaskEntry {
    pub(super) row: TaskRow,
    pub(super) is_new: bool,
    pub(super) changed: bool,
    pub(super) spec: Option<TaskSpec>,
    pub(super) checkpoint: Saved,
    pub(super) events: Vec<Event>,
}

/// What becomes of a checkpoint's row.
pub(super) enum Saved {
    Keep,
    Put(Box<Checkpoint>),
    Remove,
}

#[derive(Default)]
pub(super) struct TenantEntry {
    pub(super) row: TenantRow,
    pub(super) changed: bool,
}

pub(super) struct OpEntry {
    pub(super) row: OpRow,
    pub(super) is_new: bool,
}

impl PlanEntry {
    pub(super) fn stored(row: PlanRow) -> PlanEntry {
        PlanEntry { row, is_new: false, changed: false, spec: None, events: Vec::new(), grew: false }
    }

    pub(super) fn new(row: PlanRow) -> PlanEntry {
        PlanEntry { is_new: true, changed: true, ..PlanEntry::stored(row) }
    }
}

impl TaskEntry {
    pub(super) fn stored(row: TaskRow) -> TaskEntry {
        TaskEntry { row, is_new: false, changed: false, spec: None, checkpoint: Saved::Keep, events: Vec::new() }
    }

    pub(super) fn new(row: TaskRow) -> TaskEntry {
        TaskEntry { is_new: true, changed: true, ..TaskEntry::stored(row) }
    }
}

impl World {
    /// Until when an instance's lease runs; never for one that is not known.
    pub(super) fn lease(&self, instance: &InstanceId) -> Ms {
        self.leases.get(instance).copied().unwrap_or(Ms::ZERO)
    }

    pub(super) fn is_live(&self, instance: &InstanceId) -> bool {
        self.lease(instance) > self.now
    }
}
