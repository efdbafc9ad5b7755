//! Reading by key: one statement for each kind of key, all of them at one moment and in one trip.

use std::collections::HashMap;

use windlass_core::id::PlanId;
use windlass_core::plan::Tally;
use windlass_core::port::PortError;
use windlass_core::port::state::{Key, Row};

use super::row;
use crate::cell::Cells;
use crate::pool::Pool;
use crate::text::{Script, list};

const KINDS: usize = 11;

fn kind(key: &Key) -> (usize, &str) {
    match key {
        Key::Plan(id) => (0, id.as_str()),
        Key::PlanSpec(id) => (1, id.as_str()),
        Key::Tally(id) => (2, id.as_str()),
        Key::PlanHistory(id) => (3, id.as_str()),
        Key::Task(id) => (4, id.as_str()),
        Key::TaskSpec(id) => (5, id.as_str()),
        Key::TaskHistory(id) => (6, id.as_str()),
        Key::Checkpoint(id) => (7, id.as_str()),
        Key::Tenant(id) => (8, id.as_str()),
        Key::Op(id) => (9, id.as_str()),
        Key::Instance(id) => (10, id.as_str()),
    }
}

/// Rows of one kind, each with its id.
fn statement(kind: usize, ids: &[&str]) -> String {
    let ids = list(ids);
    match kind {
        0 => format!("SELECT {} FROM plan_state_projection p WHERE p.plan_id IN ({ids})", row::PLAN),
        1 => format!("SELECT plan_id, spec FROM plan_spec WHERE plan_id IN ({ids})"),
        2 => format!(
            "SELECT p.plan_id, t.status, COUNT(t.task_id) FROM plan_state_projection p LEFT JOIN task_state_projection t \
             ON t.plan_id = p.plan_id WHERE p.plan_id IN ({ids}) GROUP BY p.plan_id, t.status"
        ),
        3 => format!(
            "SELECT p.plan_id, e.seq, e.at, e.plan_id, NULL, e.tenant_id, e.`by`, e.reason, e.fact FROM plan_state_projection p \
             LEFT JOIN plan_event e ON e.plan_id = p.plan_id WHERE p.plan_id IN ({ids}) ORDER BY p.plan_id, e.seq"
        ),
        4 => format!("SELECT {} FROM task_state_projection t WHERE t.task_id IN ({ids})", row::TASK),
        5 => format!("SELECT task_id, spec FROM task_spec WHERE task_id IN ({ids})"),
        6 => format!(
            "SELECT t.task_id, e.seq, e.at, t.plan_id, t.task_id, t.tenant_id, e.`by`, e.reason, e.fact FROM task_state_projection t \
             LEFT JOIN task_event e ON e.task_id = t.task_id WHERE t.task_id IN ({ids}) ORDER BY t.task_id, e.seq"
        ),
        7 => format!("SELECT task_id, checkpoint FROM task_checkpoint WHERE task_id IN ({ids})"),
        8 => format!(
            "SELECT tenant_id, fence, latest_task_id, started_task_id FROM tenant_state WHERE tenant_id IN ({ids})"
        ),
        9 => format!("SELECT {} FROM operation WHERE op_id IN ({ids})", row::OP),
        _ => format!("SELECT instance_id, up_since, lease_until FROM instance WHERE instance_id IN ({ids})"),
    }
}

pub(super) async fn load(pool: &Pool, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
    let mut ids: [Vec<&str>; KINDS] = Default::default();
    for (kind, id) in keys.iter().map(kind) {
        ids[kind].push(id);
    }
    let kinds: Vec<usize> = (0..KINDS).filter(|kind| !ids[*kind].is_empty()).collect();
    let mut script = Script::default();
    // One statement sees one moment by itself.
    let several = kinds.len() > 1;
    if several {
        script.say("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
        script.say("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    }
    kinds.iter().for_each(|kind| script.ask(&statement(*kind, &ids[*kind])));
    if several {
        script.say("COMMIT");
    }
    let mut answers = pool.run(&script).await?;
    let mut found = HashMap::with_capacity(keys.len());
    for kind in kinds {
        for row in &answers.next()? {
            read(kind, &mut Cells::of(row), &mut found)?;
        }
    }
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

fn read(kind: usize, cells: &mut Cells<'_>, found: &mut HashMap<Key, Row>) -> Result<(), PortError> {
    let (key, row) = match kind {
        0 => {
            let plan = row::plan(cells)?;
            (Key::Plan(plan.plan.id.clone()), Row::Plan(plan))
        }
        4 => {
            let task = row::task(cells)?;
            (Key::Task(task.task.id.clone()), Row::Task(Box::new(task)))
        }
        10 => {
            let instance = row::instance(cells)?;
            (Key::Instance(instance.id.clone()), Row::Instance(instance))
        }
        2 => return tally(cells, found),
        3 => return event(Key::PlanHistory(cells.parse()?), cells, found),
        6 => return event(Key::TaskHistory(cells.parse()?), cells, found),
        1 => (Key::PlanSpec(cells.parse()?), Row::PlanSpec(cells.json()?)),
        5 => (Key::TaskSpec(cells.parse()?), Row::TaskSpec(cells.json()?)),
        7 => (Key::Checkpoint(cells.parse()?), Row::Checkpoint(cells.json()?)),
        8 => (Key::Tenant(cells.parse()?), Row::Tenant(row::tenant(cells)?)),
        _ => (Key::Op(cells.parse()?), Row::Op(row::op(cells)?)),
    };
    found.insert(key, row);
    Ok(())
}

/// A plan's tally comes as a row for each status; a plan without tasks as one without a status.
fn tally(cells: &mut Cells<'_>, found: &mut HashMap<Key, Row>) -> Result<(), PortError> {
    let plan: PlanId = cells.parse()?;
    let empty = || Row::Tally(Tally::default());
    let Row::Tally(tally) = found.entry(Key::Tally(plan)).or_insert_with(empty) else { return Ok(()) };
    if let Some(status) = cells.text_or_none()? {
        let status = serde_json::from_value(serde_json::Value::String(status.to_owned()));
        tally.add(status.map_err(|why| crate::error::corrupt("a status", why))?, cells.parse()?);
    }
    Ok(())
}

/// A history comes as a row for each event; an empty one as a row without an event.
fn event(key: Key, cells: &mut Cells<'_>, found: &mut HashMap<Key, Row>) -> Result<(), PortError> {
    let Row::History(events) = found.entry(key).or_insert_with(|| Row::History(Vec::new())) else { return Ok(()) };
    events.extend(row::event(cells)?);
    Ok(())
}
