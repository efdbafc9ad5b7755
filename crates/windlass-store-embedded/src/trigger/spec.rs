//! What people say of a trigger, in bytes: a claim returns it, so that a thousand of them are read in two milliseconds.
//! Targets other than jobs stay JSON.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use windlass_core::id::TenantId;
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::trigger::schedule::{Cron, Misfire, Schedule};
use windlass_core::trigger::target::{JobTarget, Target};
use windlass_core::trigger::{Overlap, Recovery, TriggerSpec};

use super::bytes::{In, Out, damaged};
use crate::kv::KvError;

const HELD: u8 = 1;
const SKIP: u8 = 2;
const PAYLOAD: u8 = 4;
/// The target is a job, in bytes.
const JOB: u8 = 8;

/// Everything but the tenant, which stands beside it.
pub(super) fn encode(spec: &TriggerSpec) -> Result<Vec<u8>, KvError> {
    let TriggerSpec { schedule, target, payload, tenant: _, misfire, recovery, overlap, max_retries, backoff } = spec;
    let mut out = Out::new();
    let flag = |flag: u8, set: bool| if set { flag } else { 0 };
    out.byte(
        flag(HELD, *recovery == Recovery::Held)
            | flag(SKIP, *overlap == Overlap::Skip)
            | flag(PAYLOAD, payload.is_some())
            | flag(JOB, matches!(target, Target::Job(_))),
    );
    out.number(match misfire {
        Misfire::Once => 0,
        Misfire::Skip => 1,
        Misfire::CatchUp { max } => 2 + u64::from(*max),
    });
    out.number(u64::from(*max_retries));
    pauses(&mut out, *backoff);
    when(&mut out, schedule);
    match target {
        Target::Job(job) => job_target(&mut out, job),
        other => out.text(&serde_json::to_string(other).map_err(|error| KvError::Corrupt(error.to_string()))?),
    }
    if let Some(payload) = payload {
        out.rest(payload.as_str().as_bytes());
    }
    Ok(out.part())
}

pub(super) fn decode(bytes: &[u8], tenant: Option<TenantId>) -> Result<TriggerSpec, KvError> {
    let mut from = In::part(bytes);
    let flags = from.byte()?;
    let misfire = match from.small()? {
        0 => Misfire::Once,
        1 => Misfire::Skip,
        max => Misfire::CatchUp { max: max - 2 },
    };
    let max_retries = from.small()?;
    let backoff = pauses_in(&mut from)?;
    let schedule = when_in(&mut from)?;
    let target = match flags & JOB != 0 {
        true => Target::Job(job_target_in(&mut from)?),
        false => serde_json::from_str(from.text()?).map_err(|_| damaged())?,
    };
    let payload = match flags & PAYLOAD != 0 {
        false => None,
        true => {
            let text = std::str::from_utf8(from.rest()).map_err(|_| damaged())?;
            Some(Json::parse(text).map_err(|_| damaged())?)
        }
    };
    let recovery = if flags & HELD != 0 { Recovery::Held } else { Recovery::Auto };
    let overlap = if flags & SKIP != 0 { Overlap::Skip } else { Overlap::Allow };
    Ok(TriggerSpec { schedule, target, payload, tenant, misfire, recovery, overlap, max_retries, backoff })
}

fn pauses(out: &mut Out, backoff: Backoff) {
    out.number(backoff.first_ms);
    out.number(backoff.max_ms);
}

fn pauses_in(from: &mut In<'_>) -> Result<Backoff, KvError> {
    Ok(Backoff { first_ms: from.number()?, max_ms: from.number()? })
}

fn when(out: &mut Out, schedule: &Schedule) {
    match schedule {
        Schedule::At(at) => {
            out.byte(0);
            out.at(*at);
        }
        Schedule::After(wait_ms) => {
            out.byte(1);
            out.number(*wait_ms);
        }
        Schedule::Every { every_ms, from } => {
            out.byte(2);
            out.number(*every_ms);
            out.option(from.map(|from| from.get()));
        }
        Schedule::Cron(cron) => {
            out.byte(3);
            out.text(&format!("{}{BETWEEN}{}", cron.text(), cron.zone()));
        }
    }
}

fn when_in(from: &mut In<'_>) -> Result<Schedule, KvError> {
    Ok(match from.byte()? {
        0 => Schedule::At(from.at()?),
        1 => Schedule::After(from.number()?),
        2 => Schedule::Every { every_ms: from.number()?, from: from.option()?.map(windlass_core::time::Ms::new) },
        3 => Schedule::Cron(cron(from.text()?)?),
        _ => return Err(damaged()),
    })
}

fn job_target(out: &mut Out, job: &JobTarget) {
    out.text(job.queue.as_str());
    out.byte(job.priority.cast_unsigned());
    out.number(u64::from(job.max_attempts));
    pauses(out, job.backoff);
    out.option(job.timeout_ms);
}

fn job_target_in(from: &mut In<'_>) -> Result<JobTarget, KvError> {
    Ok(JobTarget {
        queue: from.parse()?,
        priority: from.byte()?.cast_signed(),
        max_attempts: from.small()?,
        backoff: pauses_in(from)?,
        timeout_ms: from.option()?,
    })
}

/// Between an expression and its zone.
const BETWEEN: char = '\n';
/// Expressions that are remembered.
const CRONS_MAX: usize = 4_096;

/// Reading an expression and finding its zone takes longer than reading all the rest of a trigger, and many triggers
/// share few of them.
static CRONS: LazyLock<Mutex<HashMap<String, Cron>>> = LazyLock::new(Mutex::default);

fn cron(text: &str) -> Result<Cron, KvError> {
    let known = CRONS.lock().unwrap_or_else(PoisonError::into_inner).get(text).cloned();
    if let Some(cron) = known {
        return Ok(cron);
    }
    let (expression, zone) = text.split_once(BETWEEN).ok_or_else(damaged)?;
    let cron = Cron::parse(expression, zone).map_err(|_| damaged())?;
    let mut crons = CRONS.lock().unwrap_or_else(PoisonError::into_inner);
    if crons.len() >= CRONS_MAX {
        crons.clear();
    }
    crons.insert(text.to_owned(), cron.clone());
    Ok(cron)
}
