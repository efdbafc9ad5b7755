//! What people ask of many tasks at once, a pause of their plan say, as one statement: while it is written the owners of
//! those tasks wait, so that it must not take a trip between. What it leaves alone goes through [`super::commit`].

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use windlass_core::event::Event;
use windlass_core::id::TaskId;
use windlass_core::port::PortError;
use windlass_core::port::state::{Ask, CheckpointPut, Step, Stepped, Writer};
use windlass_core::task::{Control, Request};

use super::boundary::standings;
use super::write::columns;
use crate::cell::{Cells, Stamp, json, params};
use crate::pool::{Call, Pool};
use crate::sql;

/// Steps in one statement, at most.
const STEPS_MAX: usize = 256;
/// How often tasks are looked for that were being written; the rest waits for them.
const ROUNDS_MAX: u32 = 10;
/// Between two looks: less than a boundary takes under load.
const AGAIN: Duration = Duration::from_millis(5);

/// The request and the event of a step that the statement can write.
fn parts(step: &Step) -> Option<(&Ask, &Event)> {
    let (Writer::Person(_), Some(ask), [event]) = (&step.by, &step.ask, &step.events[..]) else { return None };
    let plain = step.plan.is_none()
        && step.tasks.is_empty()
        && step.checkpoint == CheckpointPut::Keep
        && step.answer.is_none()
        && matches!(ask.request, Request::Pause(_) | Request::Cancel(_) | Request::Skip(_))
        && event.task.as_ref() == Some(&ask.task)
        && step.check().is_ok();
    plain.then_some((ask, event))
}

/// How many of the first steps go into one statement: each asks something of another task.
pub(super) fn run_of(steps: &[Step]) -> usize {
    let mut tasks = HashSet::new();
    steps.iter().take(STEPS_MAX).take_while(|step| parts(step).is_some_and(|(ask, _)| tasks.insert(&ask.task))).count()
}

/// A request and what goes with it.
struct Given<'s> {
    nth: usize,
    step: &'s Step,
    ask: &'s Ask,
    event: &'s Event,
    control: Control,
}

/// Answers of the steps that were written, by their place. What its owner is just writing is tried again.
pub(super) async fn commit(pool: &Pool, steps: &[&Step], ahead_ms: i64) -> Result<HashMap<usize, Stepped>, PortError> {
    let mut left: Vec<Given<'_>> = Vec::with_capacity(steps.len());
    for (nth, step) in steps.iter().enumerate() {
        let Some((ask, event)) = parts(step) else { continue };
        let mut control = Control::default();
        control.ask(ask.request.clone());
        left.push(Given { nth, step, ask, event, control });
    }
    let mut written = HashMap::with_capacity(left.len());
    for round in 0..ROUNDS_MAX {
        if round > 0 {
            tokio::time::sleep(AGAIN).await;
        }
        let seen = once(pool, &left, ahead_ms, &mut written).await?;
        left.retain(|given| !seen.contains(&given.ask.task));
        if left.is_empty() {
            break;
        }
    }
    Ok(written)
}

/// One statement. Answers which tasks were free, written or not.
async fn once(
    pool: &Pool,
    rows: &[Given<'_>],
    ahead_ms: i64,
    written: &mut HashMap<usize, Stepped>,
) -> Result<HashSet<TaskId>, PortError> {
    let mut params = params![ahead_ms];
    params.extend(columns!(
        rows,
        |row| row.ask.task.to_string(),
        standings(row.ask.from),
        row.step.op.id.to_string(),
        json(&row.control)?,
        row.control.pause.is_some(),
        row.step.op.digest.cast_signed(),
        Stamp(row.event.at),
        row.event.plan.to_string(),
        row.event.tenant.as_ref().map(ToString::to_string),
        row.event.by.as_ref().map(ToString::to_string),
        row.event.reason.as_ref().map(ToString::to_string),
        row.event.fact.name(),
        json(&row.event.fact)?,
    ));
    let mut seen = HashSet::with_capacity(rows.len());
    for answer in &pool.query(&Call::new(sql::ASK, params)).await? {
        let cells = &mut Cells::of(answer);
        seen.insert(cells.parse()?);
        let Some(nth) = cells.get::<Option<i64>>()? else { continue };
        let (version, seq, at) = (cells.count()?, cells.count()?, cells.at()?);
        if let Some(given) = usize::try_from(nth - 1).ok().and_then(|nth| rows.get(nth)) {
            written.insert(given.nth, Stepped { version, seq, control: given.control.clone(), at, answer: None });
        }
    }
    Ok(seen)
}
