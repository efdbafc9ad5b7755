//! Reading by key: one statement for each kind of key, all of them at one moment.

use std::collections::HashMap;

use windlass_core::id::PlanId;
use windlass_core::plan::Tally;
use windlass_core::port::PortError;
use windlass_core::port::state::{Key, Row};

use super::row;
use crate::cell::{Cells, params};
use crate::pool::{Call, Pool};
use crate::sql;

/// Each kind with its statement, in the order of [`kind`].
const STATEMENTS: [&str; 11] = [
    sql::LOAD_PLANS,
    sql::LOAD_PLAN_SPECS,
    sql::LOAD_TALLIES,
    sql::LOAD_PLAN_EVENTS,
    sql::LOAD_TASKS,
    sql::LOAD_TASK_SPECS,
    sql::LOAD_TASK_EVENTS,
    sql::LOAD_CHECKPOINTS,
    sql::LOAD_TENANTS,
    sql::OPS,
    sql::LOAD_INSTANCES,
];

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

pub(super) async fn load(pool: &Pool, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
    let mut ids: [Vec<String>; STATEMENTS.len()] = Default::default();
    for (kind, id) in keys.iter().map(kind) {
        ids[kind].push(id.to_owned());
    }
    let wanted = ids.into_iter().enumerate().filter(|(_, ids)| !ids.is_empty());
    let (kinds, mut calls): (Vec<usize>, Vec<Call>) =
        wanted.map(|(kind, ids)| (kind, Call::new(STATEMENTS[kind], params![ids]))).unzip();
    let answers = match &calls[..] {
        [] => Vec::new(),
        // One statement sees one moment by itself.
        [one] => vec![pool.query(one).await?],
        _ => {
            calls.push(Call::bare("COMMIT"));
            at_one_moment(pool, calls).await?
        }
    };
    let mut found = HashMap::with_capacity(keys.len());
    for (kind, rows) in kinds.into_iter().zip(&answers) {
        for row in rows {
            read(kind, row, &mut found)?;
        }
    }
    Ok(keys.iter().map(|key| found.get(key).cloned()).collect())
}

async fn at_one_moment(pool: &Pool, calls: Vec<Call>) -> Result<Vec<Vec<tokio_postgres::Row>>, PortError> {
    let tx = pool.begin().await?;
    let done = tx.open(sql::BEGIN_READ, calls).await;
    // A reader meets nobody: there is nothing to repeat.
    let mut races = usize::MAX - 1;
    let closed = || Err(PortError::Unavailable("the read was not answered".to_owned()));
    tx.settle(done, &mut races).await.unwrap_or_else(closed)
}

fn read(kind: usize, row: &tokio_postgres::Row, found: &mut HashMap<Key, Row>) -> Result<(), PortError> {
    let cells = &mut Cells::of(row);
    let (key, row) = match kind {
        0 => {
            let plan = row::plan(row)?;
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
        7 => (Key::Checkpoint(cells.parse()?), Row::Checkpoint(row::checkpoint(cells)?)),
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
    if let Some(status) = cells.get::<Option<&str>>()? {
        let status = serde_json::from_value(serde_json::Value::String(status.to_owned()));
        tally.add(status.map_err(|why| crate::error::corrupt("a status", why))?, cells.count()?);
    }
    Ok(())
}

/// A history comes as a row for each event; an empty one as a row without an event.
fn event(key: Key, cells: &mut Cells<'_>, found: &mut HashMap<Key, Row>) -> Result<(), PortError> {
    let Row::History(events) = found.entry(key).or_insert_with(|| Row::History(Vec::new())) else { return Ok(()) };
    events.extend(row::event(cells)?);
    Ok(())
}
