//! Triggers as rows: what people query by has a column of its own, and nothing is stored twice but `wake_at`.

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use windlass_core::fence::Fence;
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::time::Ms;
use windlass_core::trigger::world::Kept;
use windlass_core::trigger::{Note, Run, Trigger, TriggerSpec, TriggerStatus, schedule, target};

use super::sql;
use crate::cell::{Cells, Stamp, json, params, signed};
use crate::error::corrupt;
use crate::pool::Call;

/// Reads what `trigger_columns!` selects.
pub(super) fn trigger(cells: &mut Cells<'_>) -> Result<Kept, PortError> {
    let (id, parent, tenant) = (cells.parse()?, cells.parse_or_none()?, cells.parse_or_none()?);
    let status = status(cells.get()?)?;
    let trigger_at = cells.at()?;
    let try_at = cells.at_or_none()?.unwrap_or(trigger_at);
    let (owner, lease_until) = (cells.parse_or_none()?, cells.at_or_none()?.unwrap_or(Ms::ZERO));
    let (fence, retry_count, held) = (Fence(cells.count()?), cells.count_or_zero()?, flag(cells)?);
    let paused = cells.json_or_none()?;
    let schedule = schedule::read(cells.get()?).map_err(|why| corrupt("schedule", why))?;
    let target = target::read(cells.get()?).map_err(|why| corrupt("target", why))?;
    let payload = cells.get::<Option<&str>>()?.map(Json::parse).transpose().map_err(|why| corrupt("payload", why))?;
    let (misfire, recovery, overlap) = (word(cells)?, word(cells)?, word(cells)?);
    let max_retries = cells.count()?;
    let backoff = Backoff { first_ms: cells.count()?, max_ms: cells.count()? };
    let spec = TriggerSpec { schedule, target, payload, tenant, misfire, recovery, overlap, max_retries, backoff };
    let (error, made) = (cells.get()?, cells.json_or_none()?);
    let (saved_at, ended_at) = (cells.at()?, cells.at_or_none()?);
    let (version, notes, asked) = (cells.count()?, cells.count_or_zero()?, flag(cells)?);
    let run =
        Run { status, trigger_at, try_at, retry_count, held, asked, owner, lease_until, fence, error, made, ended_at };
    Ok(Kept { trigger: Trigger { id, parent, spec, saved_at, paused, run, version }, notes })
}

/// What holds; what does not is not sent.
fn flag(cells: &mut Cells<'_>) -> Result<bool, PortError> {
    Ok(cells.get::<Option<bool>>()?.unwrap_or(false))
}

/// A policy; the default one is not sent.
fn word<T: DeserializeOwned + Default>(cells: &mut Cells<'_>) -> Result<T, PortError> {
    Ok(cells.json_or_none()?.unwrap_or_default())
}

/// A row of nothing else.
pub(super) fn alone(row: Row) -> Result<Trigger, PortError> {
    Ok(trigger(&mut Cells::of(&row))?.trigger)
}

fn status(text: &str) -> Result<TriggerStatus, PortError> {
    let known = TriggerStatus::ALL.into_iter().find(|status| status.name() == text);
    known.ok_or_else(|| corrupt("status", format!("{text:?} is none")))
}

pub(super) fn option_json<T: serde::Serialize>(value: Option<&T>) -> Result<Option<String>, PortError> {
    value.map(json).transpose()
}

pub(super) fn lease(run: &Run) -> Option<Stamp> {
    (run.lease_until != Ms::ZERO).then_some(Stamp(run.lease_until))
}

/// Writes triggers whole: `statement` is [`sql::INSERT`] or [`sql::UPDATE`].
pub(super) fn put(statement: &'static str, all: &[&Kept]) -> Result<Call, PortError> {
    let each = |text: fn(&Trigger) -> Option<String>| all.iter().map(|kept| text(&kept.trigger)).collect::<Vec<_>>();
    let texts = |value: &dyn Fn(&Trigger) -> Result<String, PortError>| {
        all.iter().map(|kept| value(&kept.trigger)).collect::<Result<Vec<String>, PortError>>()
    };
    let options = |value: &dyn Fn(&Trigger) -> Result<Option<String>, PortError>| {
        all.iter().map(|kept| value(&kept.trigger)).collect::<Result<Vec<Option<String>>, PortError>>()
    };
    let numbers = |value: fn(&Kept) -> u64| all.iter().map(|kept| signed(value(kept))).collect::<Vec<i64>>();
    let times = |value: fn(&Trigger) -> Option<Ms>| {
        all.iter().map(|kept| value(&kept.trigger).map(Stamp)).collect::<Vec<Option<Stamp>>>()
    };
    let params = params![
        each(|trigger| Some(trigger.id.to_string())),
        each(|trigger| trigger.parent.as_ref().map(ToString::to_string)),
        each(|trigger| trigger.spec.tenant.as_ref().map(ToString::to_string)),
        each(|trigger| Some(trigger.run.status.name().to_owned())),
        times(|trigger| Some(trigger.run.trigger_at)),
        times(|trigger| Some(trigger.run.try_at)),
        times(Trigger::wake_at),
        each(|trigger| trigger.run.owner.as_ref().map(ToString::to_string)),
        all.iter().map(|kept| lease(&kept.trigger.run)).collect::<Vec<_>>(),
        numbers(|kept| kept.trigger.run.fence.0),
        numbers(|kept| u64::from(kept.trigger.run.retry_count)),
        all.iter().map(|kept| kept.trigger.run.held).collect::<Vec<bool>>(),
        options(&|trigger| option_json(trigger.paused.as_ref()))?,
        texts(&|trigger| json(&trigger.spec.schedule))?,
        texts(&|trigger| json(&trigger.spec.target))?,
        each(|trigger| trigger.spec.payload.as_ref().map(ToString::to_string)),
        texts(&|trigger| json(&trigger.spec.misfire))?,
        texts(&|trigger| json(&trigger.spec.recovery))?,
        texts(&|trigger| json(&trigger.spec.overlap))?,
        numbers(|kept| u64::from(kept.trigger.spec.max_retries)),
        numbers(|kept| kept.trigger.spec.backoff.first_ms),
        numbers(|kept| kept.trigger.spec.backoff.max_ms),
        each(|trigger| trigger.run.error.clone()),
        options(&|trigger| option_json(trigger.run.made.as_ref()))?,
        times(|trigger| Some(trigger.saved_at)),
        times(|trigger| trigger.run.ended_at),
        numbers(|kept| kept.trigger.version),
        numbers(|kept| kept.notes),
        all.iter().map(|kept| kept.trigger.run.asked).collect::<Vec<bool>>(),
    ];
    Ok(Call::new(statement, params))
}

/// Notes to be added, by trigger and number.
#[derive(Default)]
pub(super) struct Notes {
    ids: Vec<String>,
    seqs: Vec<i64>,
    at: Vec<Stamp>,
    occurrences: Vec<Stamp>,
    what: Vec<String>,
}

impl Notes {
    pub(super) fn add(&mut self, id: &str, seq: u64, note: &Note) -> Result<(), PortError> {
        self.ids.push(id.to_owned());
        self.seqs.push(signed(seq));
        self.at.push(Stamp(note.at));
        self.occurrences.push(Stamp(note.occurrence));
        self.what.push(json(&note.what)?);
        Ok(())
    }

    pub(super) fn call(self) -> Option<Call> {
        let Notes { ids, seqs, at, occurrences, what } = self;
        (!ids.is_empty()).then(|| Call::new(sql::ADD_NOTES, params![ids, seqs, at, occurrences, what]))
    }
}

pub(super) fn note(row: &Row) -> Result<Note, PortError> {
    let cells = &mut Cells::of(row);
    Ok(Note { at: cells.at()?, occurrence: cells.at()?, what: cells.json()? })
}
