//! What a world has changed, as statements: one for each kind of row, whatever the number of rows.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{Event, HISTORY_MAX};
use windlass_core::id::{OpId, TaskId};
use windlass_core::port::PortError;
use windlass_core::port::state::{OpRow, PlanRow, TaskRow};
use windlass_core::step::{Saved, World};

use super::row;
use crate::cell::{Stamp, json, params, signed, word};
use crate::pool::Call;
use crate::sql;

/// Turns rows into one array for each column.
macro_rules! columns {
    ($rows:expr, |$row:ident| $($value:expr),* $(,)?) => {
        params![$({
            let mut column = Vec::with_capacity($rows.len());
            for $row in $rows.iter() { column.push($value); }
            column
        }),*]
    };
}
pub(super) use columns;

/// The statements, in an order in which they may be sent.
pub(super) fn calls(world: &World) -> Result<Vec<Call>, PortError> {
    let mut calls = Vec::new();
    plans(world, &mut calls)?;
    tenants(world, &mut calls);
    tasks(world, &mut calls)?;
    events(world, &mut calls)?;
    ops(world, &mut calls);
    if world.wakes {
        calls.push(Call::bare(sql::STATE_CHANGED));
    }
    Ok(calls)
}

fn plans(world: &World, calls: &mut Vec<Call>) -> Result<(), PortError> {
    let changed = || world.plans.values().filter(|entry| entry.changed);
    for (is_new, sql) in [(true, sql::INSERT_PLANS), (false, sql::UPDATE_PLANS)] {
        let rows: Vec<&PlanRow> = changed().filter(|entry| entry.is_new == is_new).map(|entry| &entry.row).collect();
        if rows.is_empty() {
            continue;
        }
        let params = columns!(
            rows,
            |row| row.plan.id.to_string(),
            row.plan.name.to_string(),
            row.plan.status.name(),
            i64::from(row.plan.tasks),
            i64::from(row.plan.max_concurrency),
            word(&row.plan.on_failure)?,
            word(&row.plan.on_conflict)?,
            word(&row.plan.recovery)?,
            row.plan.conductor.as_ref().map(ToString::to_string),
            row.plan.cancelled,
            Stamp(row.plan.created_at),
            row.plan.started_at.map(Stamp),
            Stamp(row.plan.updated_at),
            row.plan.ended_at.map(Stamp),
            signed(row.version),
            signed(row.seq),
        );
        calls.push(Call::new(sql, params));
    }
    let mut specs = Vec::new();
    for entry in changed() {
        specs.extend(entry.spec.iter().map(|spec| (&entry.row.plan.id, spec)));
    }
    if !specs.is_empty() {
        let params = columns!(specs, |row| row.0.to_string(), json(row.1)?);
        calls.push(Call::new(sql::PUT_PLAN_SPECS, params));
    }
    Ok(())
}

fn tenants(world: &World, calls: &mut Vec<Call>) {
    let changed: Vec<_> = world.tenants.iter().filter(|(_, entry)| entry.changed).collect();
    if !changed.is_empty() {
        let params = columns!(
            changed,
            |row| row.0.to_string(),
            row.1.row.fence.to_string(),
            row.1.row.latest.as_ref().map(ToString::to_string),
            row.1.row.started.as_ref().map(ToString::to_string),
        );
        calls.push(Call::new(sql::PUT_TENANTS, params));
    }
}

fn tasks(world: &World, calls: &mut Vec<Call>) -> Result<(), PortError> {
    let changed = || world.tasks.values().filter(|entry| entry.changed);
    for (is_new, sql) in [(true, sql::INSERT_TASKS), (false, sql::UPDATE_TASKS)] {
        let rows: Vec<&TaskRow> = changed().filter(|entry| entry.is_new == is_new).map(|entry| &entry.row).collect();
        if !rows.is_empty() {
            calls.push(Call::new(sql, task_columns(&rows)?));
        }
    }
    let grown: Vec<String> =
        world.plans.values().filter(|plan| plan.grew).map(|plan| plan.row.plan.id.to_string()).collect();
    if !grown.is_empty() {
        calls.push(Call::new(sql::NAME_TASKS, params![grown]));
    }
    let (mut specs, mut saved, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in changed() {
        let id = &entry.row.task.id;
        specs.extend(entry.spec.iter().map(|spec| (id, spec)));
        match &entry.checkpoint {
            Saved::Keep => {}
            Saved::Put(checkpoint) => saved.push((id, &**checkpoint)),
            Saved::Remove => removed.push(id.to_string()),
        }
    }
    if !specs.is_empty() {
        let params = columns!(specs, |row| row.0.to_string(), json(row.1)?);
        calls.push(Call::new(sql::PUT_TASK_SPECS, params));
    }
    if !saved.is_empty() {
        calls.push(checkpoints(&saved)?);
    }
    if !removed.is_empty() {
        calls.push(Call::new(sql::REMOVE_CHECKPOINTS, params![removed]));
    }
    Ok(())
}

fn task_columns(rows: &[&TaskRow]) -> Result<crate::cell::Params, PortError> {
    let control = |row: &TaskRow| match row.control.is_empty() {
        true => Ok(None),
        false => json(&row.control).map(Some),
    };
    Ok(columns!(
        rows,
        |row| row.task.id.to_string(),
        row.task.tenant.to_string(),
        row.task.plan.to_string(),
        i64::from(row.task.position),
        row.task.status.name(),
        row.control.pause.is_some(),
        row.control.start.is_some(),
        row.control.wants_owner(),
        control(row)?,
        row.task.owner.as_ref().map(ToString::to_string),
        row.task.fence.to_string(),
        Stamp(row.task.ready_at),
        Stamp(row.task.created_at),
        row.task.started_at.map(Stamp),
        Stamp(row.task.updated_at),
        row.task.ended_at.map(Stamp),
        row::detail(&row.task)?,
        signed(row.checkpoint),
        signed(row.version),
        signed(row.seq),
        row.op.as_ref().map(|op| op.id.to_string()),
        row.op.as_ref().map(|op| op.digest.cast_signed()),
        row.op.as_ref().map(|op| Stamp(op.at)),
    ))
}

fn checkpoints(saved: &[(&TaskId, &Checkpoint)]) -> Result<Call, PortError> {
    let params = columns!(
        saved,
        |row| row.0.to_string(),
        signed(row.1.version),
        row.1.last_completed_stage_index,
        Stamp(row.1.saved_at),
        row.1.executor_instance.as_ref().map(ToString::to_string),
        row.1.fence.to_string(),
        json(row.1)?,
    );
    Ok(Call::new(sql::PUT_CHECKPOINTS, params))
}

/// New events, without those that are beyond the history's bound already; and what falls out of it.
fn events(world: &World, calls: &mut Vec<Call>) -> Result<(), PortError> {
    let newest = |seq: u64, events: &[Event]| -> (u64, Vec<Event>) {
        let floor = seq.saturating_sub(HISTORY_MAX as u64);
        (floor, events.iter().filter(|event| event.seq > floor).cloned().collect())
    };
    let (mut rows, mut old) = (Vec::new(), Vec::new());
    for entry in world.tasks.values().filter(|entry| !entry.events.is_empty()) {
        let (floor, newest) = newest(entry.row.seq, &entry.events);
        old.extend((floor > 0).then(|| (entry.row.task.id.to_string(), signed(floor))));
        rows.extend(newest.into_iter().map(|event| (entry.row.task.id.to_string(), event)));
    }
    if !old.is_empty() {
        calls.push(Call::new(sql::FORGET_TASK_EVENTS, columns!(old, |row| row.0.clone(), row.1)));
    }
    if !rows.is_empty() {
        let params = columns!(
            rows,
            |row| row.0.clone(),
            signed(row.1.seq),
            Stamp(row.1.at),
            row.1.plan.to_string(),
            row.1.tenant.as_ref().map(ToString::to_string),
            row.1.by.as_ref().map(ToString::to_string),
            row.1.reason.as_ref().map(ToString::to_string),
            row.1.fact.name(),
            json(&row.1.fact)?,
        );
        calls.push(Call::new(sql::ADD_TASK_EVENTS, params));
    }
    let (mut rows, mut old) = (Vec::new(), Vec::new());
    for entry in world.plans.values().filter(|entry| !entry.events.is_empty()) {
        let (floor, newest) = newest(entry.row.seq, &entry.events);
        old.extend((floor > 0).then(|| (entry.row.plan.id.to_string(), signed(floor))));
        rows.extend(newest);
    }
    if !old.is_empty() {
        calls.push(Call::new(sql::FORGET_PLAN_EVENTS, columns!(old, |row| row.0.clone(), row.1)));
    }
    if !rows.is_empty() {
        let params = columns!(
            rows,
            |event| event.plan.to_string(),
            signed(event.seq),
            Stamp(event.at),
            event.tenant.as_ref().map(ToString::to_string),
            event.by.as_ref().map(ToString::to_string),
            event.reason.as_ref().map(ToString::to_string),
            event.fact.name(),
            json(&event.fact)?,
        );
        calls.push(Call::new(sql::ADD_PLAN_EVENTS, params));
    }
    Ok(())
}

fn ops(world: &World, calls: &mut Vec<Call>) {
    let mut new: Vec<_> = world.ops.iter().filter(|(_, entry)| entry.is_new).map(|(id, op)| (id, &op.row)).collect();
    // Two batches with the same operations meet in one order.
    new.sort_by_key(|(id, _)| *id);
    if !new.is_empty() {
        calls.push(add_ops(&new));
    }
}

/// Operations that were not there. One that is, by now, makes it a race.
pub(crate) fn add_ops(new: &[(&OpId, &OpRow)]) -> Call {
    let params = columns!(
        new,
        |row| row.0.to_string(),
        row.1.digest.cast_signed(),
        signed(row.1.version),
        signed(row.1.seq),
        Stamp(row.1.at),
        row.1.answer.as_ref().map(|answer| answer.as_str().to_owned()),
    );
    Call::new(sql::ADD_OPS, params)
}
