//! What a batch of steps sees and changes, in memory: the rows that were locked for it. Each step is
//! judged against it and then written into it; what changed is written to the database in the end.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::checkpoint::Checkpoint;
use crate::event::Event;
use crate::id::{InstanceId, OpId, PlanId, TaskId, TenantId};
use crate::plan::spec::{PlanSpec, TaskSpec};
use crate::port::state::{OpRow, PlanRow, TaskRow, TenantRow};
use crate::time::Ms;

/// Everything that the steps of a batch are about.
#[derive(Debug, Default)]
pub struct World {
    /// The store's clock.
    pub now: Ms,
    /// Plans, as stored or written.
    pub plans: BTreeMap<PlanId, PlanEntry>,
    /// Tasks, likewise.
    pub tasks: BTreeMap<TaskId, TaskEntry>,
    /// Tenants, likewise.
    pub tenants: BTreeMap<TenantId, TenantEntry>,
    /// Operations of people.
    pub ops: HashMap<OpId, OpEntry>,
    /// Until when the leases of the tasks' owners run.
    pub leases: HashMap<InstanceId, Ms>,
    /// Plans whose tasks are still to go.
    pub gone: HashSet<PlanId>,
    /// Somebody may be waiting for what was written.
    pub wakes: bool,
    /// Plans of which a task's owner has given up its slot: somebody may be waiting for that too, if the plan has more tasks
    /// than slots.
    pub freed: BTreeSet<PlanId>,
    /// Tasks that were their tenant's last to start, until another wrote under a higher fence: what their owners still write is
    /// refused.
    pub overtaken: BTreeSet<TaskId>,
}

/// A plan.
#[derive(Debug)]
pub struct PlanEntry {
    /// Its record.
    pub row: PlanRow,
    /// It is not stored yet.
    pub is_new: bool,
    /// Its record is to be written.
    pub changed: bool,
    /// What it asks for, if that is to be written.
    pub spec: Option<PlanSpec>,
    /// Events that are to be added.
    pub events: Vec<Event>,
    /// It has tasks that it had not before.
    pub grew: bool,
}

/// A task.
#[derive(Debug)]
pub struct TaskEntry {
    /// Its record.
    pub row: TaskRow,
    /// It is not stored yet.
    pub is_new: bool,
    /// Its record is to be written.
    pub changed: bool,
    /// What is particular to it, if that is to be written.
    pub spec: Option<TaskSpec>,
    /// What becomes of its checkpoint.
    pub checkpoint: Saved,
    /// Events that are to be added.
    pub events: Vec<Event>,
}

/// What becomes of a checkpoint's row.
#[derive(Debug)]
pub enum Saved {
    /// Nothing.
    Keep,
    /// It is written.
    Put(Box<Checkpoint>),
    /// It is removed.
    Remove,
}

/// A tenant.
#[derive(Debug, Default)]
pub struct TenantEntry {
    /// Its record.
    pub row: TenantRow,
    /// Its record is to be written.
    pub changed: bool,
}

/// An operation.
#[derive(Debug)]
pub struct OpEntry {
    /// Its record.
    pub row: OpRow,
    /// It is to be written.
    pub is_new: bool,
}

impl PlanEntry {
    /// One that is stored.
    #[must_use]
    pub fn stored(row: PlanRow) -> PlanEntry {
        PlanEntry { row, is_new: false, changed: false, spec: None, events: Vec::new(), grew: false }
    }

    pub(super) fn new(row: PlanRow) -> PlanEntry {
        PlanEntry { is_new: true, changed: true, ..PlanEntry::stored(row) }
    }
}

impl TaskEntry {
    /// One that is stored.
    #[must_use]
    pub fn stored(row: TaskRow) -> TaskEntry {
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
