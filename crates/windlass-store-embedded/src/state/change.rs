//! A task or a plan that changes, with every index entry that follows from it. Entries are a
//! function of the row, so that no write can forget one.

use serde::Serialize;
use serde_json::value::RawValue;
use windlass_core::event::Event;
use windlass_core::json::Json;
use windlass_core::port::state::{LastOp, PlanRow, TaskRow};
use windlass_core::task::{Control, Task};

use super::history;
use super::prepared::Saved;
use crate::kv::KvError;
use crate::tx::{Kept, Records as _, Tx};
use crate::{key, record};

/// A task before and after.
pub(super) struct TaskChange {
    pub(super) old: Option<TaskRow>,
    pub(super) new: TaskRow,
    pub(super) events: Vec<Event>,
    /// The text of the new task and of its events, where the caller has made it.
    pub(super) task_text: Option<Box<RawValue>>,
    pub(super) events_text: Option<Box<RawValue>>,
    pub(super) checkpoint: CheckpointChange,
}

/// What becomes of the stored checkpoint.
#[derive(Default)]
pub(super) enum CheckpointChange {
    #[default]
    Keep,
    Remove,
    Put(Saved),
}

/// [`Kept`] whose task is text already: the same record, by the same names.
#[derive(Serialize)]
struct KeptText<'a> {
    row: RowText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: &'a Option<Json>,
}

#[derive(Serialize)]
struct RowText<'a> {
    task: &'a RawValue,
    #[serde(skip_serializing_if = "Control::is_empty")]
    control: &'a Control,
    checkpoint: u64,
    version: u64,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    op: &'a Option<LastOp>,
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
        let task = old.task.clone();
        TaskChange::to(old, task)
    }

    /// Of a stored row, with another task in it.
    pub(super) fn to(old: TaskRow, task: Task) -> TaskChange {
        let (control, op) = (old.control.clone(), old.op.clone());
        let new = TaskRow { task, control, checkpoint: old.checkpoint, version: old.version + 1, seq: old.seq, op };
        TaskChange { old: Some(old), ..TaskChange::new(new) }
    }

    /// Of a task that was not there.
    pub(super) fn new(new: TaskRow) -> TaskChange {
        TaskChange {
            old: None,
            new,
            events: Vec::new(),
            task_text: None,
            events_text: None,
            checkpoint: CheckpointChange::Keep,
        }
    }

    pub(super) fn add(&mut self, event: Event) {
        self.new.seq += 1;
        self.events.push(event);
    }

    pub(super) fn write(self, tx: &mut Tx<'_>) -> Result<(), KvError> {
        let TaskChange { old, new, events, task_text, events_text, checkpoint } = self;
        let saved = save(tx, &new, old.as_ref().map_or(0, |old| old.checkpoint), checkpoint)?;
        tx.state_changed |= wakes(tx, old.as_ref(), &new)?;
        if !old.as_ref().is_some_and(|old| same_entries(old, &new)) {
            let entries = old.as_ref().map(Entries::of).unwrap_or_default();
            let now = Entries::of(&new);
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
        history::append(tx, key::Subject::Task(&new.task.id), new.seq, &events, events_text.as_deref())?;
        let kept = Kept { row: new, saved };
        let encoded = match &task_text {
            None => record::encode(&kept)?,
            Some(task) => {
                let TaskRow { control, checkpoint, version, seq, op, .. } = &kept.row;
                let (checkpoint, version, seq) = (*checkpoint, *version, *seq);
                let row = RowText { task, control, checkpoint, version, seq, op };
                record::encode(&KeptText { row, saved: &kept.saved })?
            }
        };
        tx.put_task(kept, encoded);
        Ok(())
    }
}

/// Puts the checkpoint where it belongs: answers what is stored beside the task. `before` is the
/// version there was.
fn save(tx: &mut Tx<'_>, new: &TaskRow, before: u64, change: CheckpointChange) -> Result<Option<Json>, KvError> {
    let beside = match before {
        0 => None,
        _ => tx.saved(&new.task.id)?,
    };
    let apart = before > 0 && beside.is_none();
    let saved = match change {
        CheckpointChange::Keep => return Ok(beside),
        CheckpointChange::Put(Saved::Apart(record)) => {
            tx.put(key::checkpoint(&new.task.id), record);
            return Ok(None);
        }
        CheckpointChange::Put(Saved::Beside(json)) => Some(json),
        CheckpointChange::Remove => None,
    };
    if apart {
        tx.remove(key::checkpoint(&new.task.id));
    }
    Ok(saved)
}

/// Whether two rows of one task have the same [`Entries`], told from what those are made of: a plain
/// boundary changes none of it.
fn same_entries(old: &TaskRow, new: &TaskRow) -> bool {
    let of =
        |row: &TaskRow| (row.task.status, row.task.ready_at, row.control.start.is_some(), row.control.wants_owner());
    of(old) == of(new) && old.task.owner == new.task.owner
}

/// The index entries of a task.
#[derive(Default)]
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
            ready: task.readiness(&row.control).map(|readiness| key::ready(task, readiness)),
            slot: task.takes_slot().then(|| key::slot(task)),
            asked: asked.map(|owner| key::asked(owner, &task.id)),
        }
    }

    pub(super) fn all(&self) -> [Option<&Vec<u8>>; 5] {
        [&self.status, &self.tenant, &self.ready, &self.slot, &self.asked].map(Option::as_ref)
    }
}

/// Whether somebody may be waiting for this: work became ready, or a slot is free in a plan that has more tasks than slots.
/// (What is asked always wakes, even if it was asked before.)
fn wakes(tx: &Tx<'_>, old: Option<&TaskRow>, new: &TaskRow) -> Result<bool, KvError> {
    let Some(old) = old else { return Ok(true) };
    let ready = new.task.readiness(&new.control).is_some();
    if !old.task.takes_slot() || new.task.takes_slot() {
        return Ok(ready && old.task.readiness(&old.control).is_none());
    }
    let plan: Option<PlanRow> = if ready { None } else { tx.record(&key::plan(&new.task.plan))? };
    Ok(plan.is_none_or(|row| row.plan.is_short_of_slots()))
}

impl PlanChange {
    /// Of a stored row, one version on.
    pub(super) fn of(old: PlanRow) -> PlanChange {
        let mut new = old.clone();
        new.version += 1;
        PlanChange { old: Some(old), new, events: Vec::new() }
    }

    pub(super) fn add(&mut self, event: Event) {
        self.new.seq += 1;
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
        // Nobody waits for the end of a plan: nothing more is handed out from it.
        tx.state_changed |= !new.plan.status.is_final();
        history::append(tx, key::Subject::Plan(&new.plan.id), new.seq, &events, None)?;
        tx.put_record(key::plan(&new.plan.id), &new)
    }
}
