//! Triggers as rows: what people query by has a column of its own, and nothing is stored twice but what indexes need.

use std::fmt::Display;
use std::str::FromStr;

use mysql_async::Row;
use windlass_core::fence::Fence;
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::time::Ms;
use windlass_core::trigger::world::{Kept, World};
use windlass_core::trigger::{Note, Run, Trigger, TriggerSpec, TriggerStatus, schedule, target};

use crate::cell::{Cells, json};
use crate::error::corrupt;
use crate::text::{Script, literal, row};
use crate::wake::{self, Port};

/// What [`trigger`] reads, of a table `t`. What is as it mostly is, is not sent, and numbers come together: each column costs
/// both sides as much as what stands in it.
pub(super) const TRIGGER: &str = "t.id, t.parent_id, t.tenant_id, t.status, t.trigger_at, NULLIF(t.try_at, t.trigger_at), t.owner, \
     t.lease_until, CONCAT_WS(' ', t.version, t.fence, t.notes, t.retry_count, t.held, t.asked, t.max_retries, t.backoff_first_ms, \
     t.backoff_max_ms), t.paused, t.schedule, t.target, t.payload, \
     NULLIF(CONCAT('[', t.misfire, ',', t.recovery, ',', t.overlap, ']'), '[\"once\",\"auto\",\"allow\"]'), t.error, t.made, t.saved_at, \
     t.ended_at";
const COLUMNS: &str = "INSERT INTO triggers (id, parent_id, tenant_id, status, trigger_at, try_at, wake_at, owner, lease_until, fence, \
     retry_count, held, paused, schedule, target, payload, misfire, recovery, overlap, max_retries, backoff_first_ms, backoff_max_ms, \
     error, made, saved_at, ended_at, version, notes, asked, waits, completed_at) VALUES ";
/// Of rows that were locked before: they are there.
const AGAIN: &str = "ON DUPLICATE KEY UPDATE parent_id = VALUES(parent_id), tenant_id = VALUES(tenant_id), status = VALUES(status), \
     trigger_at = VALUES(trigger_at), try_at = VALUES(try_at), wake_at = VALUES(wake_at), owner = VALUES(owner), \
     lease_until = VALUES(lease_until), fence = VALUES(fence), retry_count = VALUES(retry_count), held = VALUES(held), \
     paused = VALUES(paused), schedule = VALUES(schedule), target = VALUES(target), payload = VALUES(payload), \
     misfire = VALUES(misfire), recovery = VALUES(recovery), overlap = VALUES(overlap), max_retries = VALUES(max_retries), \
     backoff_first_ms = VALUES(backoff_first_ms), backoff_max_ms = VALUES(backoff_max_ms), error = VALUES(error), \
     made = VALUES(made), saved_at = VALUES(saved_at), ended_at = VALUES(ended_at), version = VALUES(version), notes = VALUES(notes), \
     asked = VALUES(asked), waits = VALUES(waits), completed_at = VALUES(completed_at)";

pub(super) fn trigger(cells: &mut Cells<'_>) -> Result<Kept, PortError> {
    let (id, parent, tenant) = (cells.parse()?, cells.parse_or_none()?, cells.parse_or_none()?);
    let status = status(cells.text()?)?;
    let trigger_at = cells.at()?;
    let try_at = cells.at_or_none()?.unwrap_or(trigger_at);
    let (owner, lease_until) = (cells.parse_or_none()?, cells.at_or_none()?.unwrap_or(Ms::ZERO));
    let mut numbers = cells.text()?.split(' ');
    let (version, fence, notes) = (number(&mut numbers)?, Fence(number(&mut numbers)?), number(&mut numbers)?);
    let retry_count = number(&mut numbers)?;
    let (held, asked) = (number::<u8>(&mut numbers)? != 0, number::<u8>(&mut numbers)? != 0);
    let max_retries = number(&mut numbers)?;
    let backoff = Backoff { first_ms: number(&mut numbers)?, max_ms: number(&mut numbers)? };
    let paused = cells.json_or_none()?;
    let schedule = schedule::read(cells.text()?).map_err(|why| corrupt("schedule", why))?;
    let target = target::read(cells.text()?).map_err(|why| corrupt("target", why))?;
    let payload = cells.text_or_none()?.map(Json::parse).transpose().map_err(|why| corrupt("payload", why))?;
    let (misfire, recovery, overlap) = cells.json_or_none()?.unwrap_or_default();
    let spec = TriggerSpec { schedule, target, payload, tenant, misfire, recovery, overlap, max_retries, backoff };
    let (error, made) = (cells.text_or_none()?.map(str::to_owned), cells.json_or_none()?);
    let (saved_at, ended_at) = (cells.at()?, cells.at_or_none()?);
    let run =
        Run { status, trigger_at, try_at, retry_count, held, asked, owner, lease_until, fence, error, made, ended_at };
    Ok(Kept { trigger: Trigger { id, parent, spec, saved_at, paused, run, version }, notes })
}

/// The next of some numbers.
fn number<T: FromStr<Err: Display>>(numbers: &mut std::str::Split<'_, char>) -> Result<T, PortError> {
    let text = numbers.next().ok_or_else(|| corrupt("a trigger", "a number is missing"))?;
    text.parse().map_err(|why| corrupt("a number of a trigger", why))
}

/// A row of nothing else.
pub(super) fn alone(row: &Row) -> Result<Trigger, PortError> {
    Ok(trigger(&mut Cells::of(row))?.trigger)
}

pub(super) fn triggers(rows: &[Row]) -> Result<Vec<Trigger>, PortError> {
    rows.iter().map(alone).collect()
}

fn status(text: &str) -> Result<TriggerStatus, PortError> {
    let known = TriggerStatus::ALL.into_iter().find(|status| status.name() == text);
    known.ok_or_else(|| corrupt("status", format!("{text:?} is none")))
}

fn values(kept: &Kept) -> Result<String, PortError> {
    let Kept { trigger, notes } = kept;
    let (run, spec) = (&trigger.run, &trigger.spec);
    let completed = run.ended_at.filter(|_| run.status == TriggerStatus::Completed);
    Ok(row![
        trigger.id.as_str(),
        trigger.parent.as_ref().map(|id| id.as_str()),
        spec.tenant.as_ref().map(|id| id.as_str()),
        run.status.name(),
        run.trigger_at,
        run.try_at,
        trigger.wake_at(),
        run.owner.as_ref().map(|id| id.as_str()),
        Some(run.lease_until).filter(|until| *until != Ms::ZERO),
        run.fence,
        run.retry_count,
        run.held,
        trigger.paused.as_ref().map(json).transpose()?,
        json(&spec.schedule)?,
        json(&spec.target)?,
        spec.payload.as_ref().map(Json::as_str),
        json(&spec.misfire)?,
        json(&spec.recovery)?,
        json(&spec.overlap)?,
        spec.max_retries,
        spec.backoff.first_ms,
        spec.backoff.max_ms,
        run.error.as_deref(),
        run.made.as_ref().map(json).transpose()?,
        trigger.saved_at,
        run.ended_at,
        trigger.version,
        *notes,
        run.asked,
        (run.held || run.status == TriggerStatus::Dead).then_some(true),
        completed,
    ])
}

/// What a world has changed.
pub(super) fn write(script: &mut Script, world: &World) -> Result<(), PortError> {
    for (new, tail) in [(true, ""), (false, AGAIN)] {
        let rows = world.changed(new).into_iter().map(values).collect::<Result<Vec<_>, _>>()?;
        script.rows(COLUMNS, rows, tail);
    }
    let notes = world
        .notes()
        .iter()
        .map(|(id, seq, note)| Ok(row![id.as_str(), *seq, note.at, note.occurrence, json(&note.what)?]));
    let notes = notes.collect::<Result<Vec<_>, PortError>>()?;
    script.rows("INSERT INTO trigger_note (trigger_id, seq, at, occurrence, what) VALUES ", notes, "");
    for some in world.full().chunks(200) {
        let old = some.iter().map(|(id, first)| format!("(trigger_id = {} AND seq < {first})", literal(id.as_str())));
        script.say(&format!("DELETE FROM trigger_note WHERE {}", old.collect::<Vec<_>>().join(" OR ")));
    }
    if world.wakes {
        wake::count(script, Port::Triggers);
    }
    Ok(())
}

pub(super) fn note(row: &Row) -> Result<Note, PortError> {
    let cells = &mut Cells::of(row);
    Ok(Note { at: cells.at()?, occurrence: cells.at()?, what: cells.json()? })
}
