//! A task or a plan that changes, with every index entry that follows from it. Entries are a
//! function of the row, so that no write can forget one.

use windlass_core::event::Event;
use windlass_core::port::state::{PlanRow, TaskRow};

use super::history;
use crate::kv::KvError;
use crate::tx::Tx;
use crate::{key, record};

/// A task before and after.
pub(super) struct TaskChange {
    pub(super) old: Option<TaskRow>,
    pub(super) new: TaskRow,
    pub(super) events: Vec<Event>,
}

/// A plan before and after.
pub(super) struct PlanChange {
    pub(super) old: Option<PlanRow>,
    pub(super) new: PlanRow,
    pub(super) events: Vec<Event>,
}

impl TaskChange {
    /// Of a stored row, one version on.
    pub(super) fn of(old: TaskRow) -> TaskChange {
        let mut new = old.clone();
        new.version += 1;
        TaskChange { old: Some(old), new, events: Vec::new() }
    }

    pub(super) fn add(&mut self, mut event: Event) {
        self.new.seq += 1;
        event.seq = self.new.seq;
        self.events.push(event);
    }

    pub(super) fn write(self, tx: &mut Tx<'_>) -> Result<(), KvError> {
        let TaskChange { old, new, events } = self;
        let entries = old.as_ref().map(Entries::of).unwrap_or_default();
        let now = Entries::of(&new);
        tx.state_changed |= wakes(old.as_ref(), &new);
        if entries != now {
            let id = record::encode(&new.task.id)?;
            for (before, after) in entries.all().into_iter().zip(now.all()) {
                match (before, after) {
                    (Some(before), Some(after)) if *before == *after => {}
                    (before, after) => {
                        before.iter().for_each(|key| tx.remove(key.to_vec()));
                        after.iter().for_each(|key| tx.put(key.to_vec(), id.clone()));
                    }
                }
            }
        }
        history::append(tx, key::Subject::Task(&new.task.id), events)?;
        tx.put_record(key::task(&new.task.id), &new)
    }
}

/// The index entries of a task.
#[derive(Default, PartialEq, Eq)]
pub(super) struct Entries {
    status: Option<Vec<u8>>,
    tenant: Option<Vec<u8>>,
    ready: Option<Vec<u8>>,
    slot: Option<Vec<u8>>,
    asked: Option<Vec<u8>>,
}

impl Entries {
    pub(super) fn of(row: &TaskRow) -> Entries {
        let task = &row.task;
        let asked = task.owner.as_ref().filter(|_| row.control.wants_owner());
        Entries {
            status: Some(key::task_status(task)),
            tenant: Some(key::task_tenant(task)),
            ready: task.is_ready(&row.control).then(|| key::ready(task, row.control.start.is_some())),
            slot: task.takes_slot().then(|| key::slot(task)),
            asked: asked.map(|owner| key::asked(owner, &task.id)),
        }
    }

    pub(super) fn all(&self) -> [Option<&Vec<u8>>; 5] {
        [&self.status, &self.tenant, &self.ready, &self.slot, &self.asked].map(Option::as_ref)
    }
}

/// Whether somebody may be waiting for this: work became ready, a slot is free. (What is asked always
/// wakes, even if it was asked before.)
fn wakes(old: Option<&TaskRow>, new: &TaskRow) -> bool {
    let Some(old) = old else { return true };
    let ready = new.task.is_ready(&new.control) && !old.task.is_ready(&old.control);
    let freed = old.task.takes_slot() && !new.task.takes_slot();
    ready || freed
}

impl PlanChange {
    /// Of a stored row, one version on.
    pub(super) fn of(old: PlanRow) -> PlanChange {
        let mut new = old.clone();
        new.version += 1;
        PlanChange { old: Some(old), new, events: Vec::new() }
    }

    pub(super) fn add(&mut self, mut event: Event) {
        self.new.seq += 1;
        event.seq = self.new.seq;
        self.events.push(event);
    }

    pub(super) fn write(self, tx: &mut Tx<'_>) -> Result<(), KvError> {
        let PlanChange { old, new, events } = self;
        if let Some(old) = &old {
            tx.remove(key::plan_status(&old.plan));
            old.plan.ended_at.iter().for_each(|at| tx.remove(key::ended(*at, &old.plan.id)));
        }
        let id = record::encode(&new.plan.id)?;
        new.plan.ended_at.iter().for_each(|at| tx.put(key::ended(*at, &new.plan.id), id.clone()));
        tx.put(key::plan_status(&new.plan), id);
        tx.state_changed = true;
        history::append(tx, key::Subject::Plan(&new.plan.id), events)?;
        tx.put_record(key::plan(&new.plan.id), &new)
    }
}
