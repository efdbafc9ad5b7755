//! What people ask of many tasks at once, a pause of their plan say, as one statement: while it is written the owners of
//! those tasks wait, so that it must not take a trip between. What it leaves alone goes through [`super::commit`].

use std::collections::{HashMap, HashSet};

use windlass_core::event::Event;
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

/// Answers of the steps that were written, by their place.
pub(super) async fn commit(pool: &Pool, steps: &[&Step], ahead_ms: i64) -> Result<HashMap<usize, Stepped>, PortError> {
    let mut rows: Vec<(usize, &Step, &Ask, &Event, Control)> = Vec::with_capacity(steps.len());
    for (n, step) in steps.iter().enumerate() {
        let Some((ask, event)) = parts(step) else { continue };
        let mut control = Control::default();
        control.ask(ask.request.clone());
        rows.push((n, step, ask, event, control));
    }
    rows.sort_unstable_by(|a, b| a.2.task.cmp(&b.2.task));
    let mut params = params![ahead_ms];
    params.extend(columns!(
        rows,
        |row| row.2.task.to_string(),
        standings(row.2.from),
        row.1.op.id.to_string(),
        json(&row.4)?,
        row.4.pause.is_some(),
        row.1.op.digest.cast_signed(),
        Stamp(row.3.at),
        row.3.plan.to_string(),
        row.3.tenant.as_ref().map(ToString::to_string),
        row.3.by.as_ref().map(ToString::to_string),
        row.3.reason.as_ref().map(ToString::to_string),
        row.3.fact.name(),
        json(&row.3.fact)?,
    ));
    let mut written = HashMap::with_capacity(rows.len());
    for answer in &pool.query(&Call::new(sql::ASK, params)).await? {
        let cells = &mut Cells::of(answer);
        let nth: usize = cells.count::<usize>()?.saturating_sub(1);
        let (version, seq, at) = (cells.count()?, cells.count()?, cells.at()?);
        if let Some((n, _, _, _, control)) = rows.get(nth) {
            written.insert(*n, Stepped { version, seq, control: control.clone(), at, answer: None });
        }
    }
    Ok(written)
}
