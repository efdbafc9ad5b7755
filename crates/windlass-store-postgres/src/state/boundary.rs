//! The hot path: steps of owners and claimers about one task that exists, as one statement for any
//! number of them. It takes what may be taken and leaves the rest to [`super::commit`], which says why.

use std::collections::{HashMap, HashSet};

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::Event;
use windlass_core::port::PortError;
use windlass_core::port::state::{CheckpointPut, Step, Stepped, TaskPut, Writer};
use windlass_core::task::status::Statuses;

use super::row;
use super::write::columns;
use crate::cell::{Cells, Stamp, json, params, signed};
use crate::pool::{Call, Pool};
use crate::sql;

/// Steps in one statement, at most. With twice as many a thousand tasks are no faster, and a pause takes half as long
/// again: whoever is under way when it comes writes twice.
pub(super) const STEPS_MAX: usize = 64;

/// Whether the statement can write such a step at all.
pub(super) fn fits(step: &Step) -> bool {
    let [TaskPut { task, from, spec: None, .. }] = &step.tasks[..] else { return false };
    let checkpoint = match (&step.by, &step.checkpoint) {
        (Writer::Person(_), _) => false,
        (_, CheckpointPut::Keep | CheckpointPut::Remove) => true,
        (Writer::Owner { fence, .. }, CheckpointPut::Put(put)) => put.fence == *fence && put.version > 0,
        (Writer::Claimer(_), CheckpointPut::Put(_)) => false,
    };
    checkpoint
        && !from.is_empty()
        && step.plan.is_none()
        && step.ask.is_none()
        && step.events.iter().all(|event| event.task.as_ref() == Some(&task.id))
        && step.check().is_ok()
}

/// How many of the first steps go into one statement: they fit, and no two are about one task or tenant.
pub(super) fn run_of(steps: &[Step]) -> usize {
    let (mut tasks, mut tenants) = (HashSet::new(), HashSet::new());
    let mut run = 0;
    for step in steps.iter().take(STEPS_MAX) {
        if !fits(step) || !tasks.insert(&step.tasks[0].task.id) || !tenants.insert(&step.tasks[0].task.tenant) {
            break;
        }
        run += 1;
    }
    run
}

/// Answers of the steps that were written, by their place; and whether somebody may be waiting for one.
pub(super) async fn commit(
    pool: &Pool,
    steps: &[&Step],
    ahead_ms: i64,
) -> Result<(HashMap<usize, Stepped>, bool), PortError> {
    let rows = pool.query(&call(steps, ahead_ms)?).await?;
    let mut written = HashMap::with_capacity(rows.len());
    let mut wakes = false;
    for row in &rows {
        let cells = &mut Cells::of(row);
        let n: usize = cells.get::<i64>()?.unsigned_abs() as usize - 1;
        let (version, seq) = (cells.count()?, cells.count()?);
        let (control, at) = (cells.json_or_none()?.unwrap_or_default(), cells.at()?);
        let Some(step) = steps.get(n) else { continue };
        wakes |= cells.get::<bool>()?;
        written.insert(n, Stepped { version, seq, control, at, answer: step.answer.clone() });
    }
    Ok((written, wakes))
}

fn call(steps: &[&Step], ahead_ms: i64) -> Result<Call, PortError> {
    let mut params = params![ahead_ms];
    let rows: Vec<(&Step, &TaskPut)> = steps.iter().map(|step| (*step, &step.tasks[0])).collect();
    params.extend(columns!(
        rows,
        |row| row.1.task.id.to_string(),
        row.1.task.tenant.to_string(),
        row.1.task.plan.to_string(),
        i64::from(row.1.task.position),
        Stamp(row.1.task.created_at),
        standings(row.1.from),
        writer(row.0),
        fence(row.0),
        row.0.op.id.to_string(),
        row.0.op.digest.cast_signed(),
        row.1.task.status.name(),
        row.1.task.status.is_running(),
        row.1.task.owner.as_ref().map(ToString::to_string),
        row.1.task.fence.to_string(),
        Stamp(row.1.task.ready_at),
        row.1.task.started_at.map(Stamp),
        Stamp(row.1.task.updated_at),
        row.1.task.ended_at.map(Stamp),
        row::detail(&row.1.task)?,
        row.0.events.len() as i64,
        match &row.0.checkpoint {
            CheckpointPut::Keep => None,
            CheckpointPut::Remove => Some(0),
            CheckpointPut::Put(put) => Some(signed(put.version)),
        },
        saved(row.0).map(|put| put.last_completed_stage_index),
        saved(row.0).map(|put| Stamp(put.saved_at)),
        saved(row.0).and_then(|put| put.executor_instance.as_ref()).map(ToString::to_string),
        saved(row.0).map(json).transpose()?,
    ));
    let events = steps.iter().enumerate().flat_map(|(n, step)| {
        step.events.iter().enumerate().map(move |(nth, event)| (n as i64 + 1, nth as i64 + 1, event))
    });
    let events: Vec<(i64, i64, &Event)> = events.collect();
    params.extend(columns!(
        events,
        |row| row.0,
        row.1,
        Stamp(row.2.at),
        row.2.task.as_ref().map(ToString::to_string),
        row.2.plan.to_string(),
        row.2.tenant.as_ref().map(ToString::to_string),
        row.2.by.as_ref().map(ToString::to_string),
        row.2.reason.as_ref().map(ToString::to_string),
        row.2.fact.name(),
        json(&row.2.fact)?,
    ));
    Ok(Call::new(sql::BOUNDARY, params))
}

/// `,RUNNING,PAUSED,`: where the task may stand.
pub(super) fn standings(from: Statuses) -> String {
    from.iter().fold(",".to_owned(), |all, status| all + status.name() + ",")
}

fn writer(step: &Step) -> Option<String> {
    match &step.by {
        Writer::Owner { instance, .. } | Writer::Claimer(instance) => Some(instance.to_string()),
        Writer::Person(_) => None,
    }
}

fn fence(step: &Step) -> Option<String> {
    match &step.by {
        Writer::Owner { fence, .. } => Some(fence.to_string()),
        Writer::Claimer(_) | Writer::Person(_) => None,
    }
}

fn saved(step: &Step) -> Option<&Checkpoint> {
    match &step.checkpoint {
        CheckpointPut::Put(checkpoint) => Some(checkpoint),
        CheckpointPut::Keep | CheckpointPut::Remove => None,
    }
}
