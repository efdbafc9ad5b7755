//! A trigger as it is stored. What people say of it stays in bytes until somebody asks for it, so that settling parses
//! nothing; it stands in a record of its own if it is large, so that it is not written again with every occurrence.

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, TenantId, TriggerId};
use windlass_core::job::Asker;
use windlass_core::port::trigger::TriggerFilter;
use windlass_core::time::Ms;
use windlass_core::trigger::{Made, Run, Trigger, TriggerStatus};

use super::bytes::{In, Out, damaged};
use super::spec;
use crate::key;
use crate::kv::{KvError, Read, Value};

/// Beside its trigger, at most.
const BESIDE_BYTES_MAX: usize = 2 * 1024;

/// What people say.
#[derive(Clone)]
pub(super) enum Spec {
    Beside(Box<[u8]>),
    Apart,
}

#[derive(Clone)]
pub(super) struct Kept {
    pub(super) id: TriggerId,
    pub(super) parent: Option<TriggerId>,
    pub(super) tenant: Option<TenantId>,
    pub(super) saved_at: Ms,
    pub(super) paused: Option<Asker>,
    pub(super) run: Run,
    pub(super) version: u64,
    /// How many there were.
    pub(super) notes: u64,
    pub(super) spec: Spec,
}

impl Kept {
    /// How a trigger is kept, and the record of what people say if it is to stand apart.
    pub(super) fn of(trigger: Trigger, notes: u64) -> Result<(Kept, Option<Value>), KvError> {
        let bytes = spec::encode(&trigger.spec)?;
        let Trigger { id, parent, spec, saved_at, paused, run, version } = trigger;
        let (kept, apart) = match bytes.len() > BESIDE_BYTES_MAX {
            false => (Spec::Beside(bytes.into()), None),
            true => {
                let mut out = Out::new();
                out.rest(&bytes);
                (Spec::Apart, Some(out.sealed()))
            }
        };
        let kept = Kept { id, parent, tenant: spec.tenant, saved_at, paused, run, version, notes, spec: kept };
        Ok((kept, apart))
    }

    /// With what people say.
    pub(super) fn whole(&self, read: &(impl Read + ?Sized)) -> Result<Trigger, KvError> {
        let spec = match &self.spec {
            Spec::Beside(bytes) => spec::decode(bytes, self.tenant.clone())?,
            Spec::Apart => {
                let record = read.get(&key::trigger_spec(&self.id))?.ok_or_else(damaged)?;
                spec::decode(In::open(&record)?.rest(), self.tenant.clone())?
            }
        };
        Ok(Trigger {
            id: self.id.clone(),
            parent: self.parent.clone(),
            spec,
            saved_at: self.saved_at,
            paused: self.paused.clone(),
            run: self.run.clone(),
            version: self.version,
        })
    }

    /// When it is to be looked at, as [`Trigger::wake_at`] says.
    pub(super) fn wake_at(&self) -> Option<Ms> {
        self.run.wake_at(self.paused.is_some())
    }

    pub(super) fn head(&self) -> Head {
        let Run { status, held, .. } = self.run;
        Head { status, held, tenant: self.tenant.clone(), wake_at: self.wake_at() }
    }

    pub(super) fn waits_for_a_person(&self) -> bool {
        self.run.held || self.run.status == TriggerStatus::Dead
    }

    /// When retention may count from: DEAD ones wait for a person.
    pub(super) fn ended_at(&self) -> Option<Ms> {
        self.run.ended_at.filter(|_| self.run.status == TriggerStatus::Completed)
    }

    /// Under its time.
    pub(super) fn encode_due(&self) -> Result<Value, KvError> {
        let mut out = Out::new();
        self.encode(&mut out)?;
        Ok(out.sealed())
    }

    /// Under its id: where it is, or all of it.
    pub(super) fn encode_named(&self) -> Result<Value, KvError> {
        let mut out = Out::new();
        let head = self.head();
        out.byte(status_byte(head.status) | if head.held { HELD } else { 0 });
        out.name(head.tenant.as_ref().map(TenantId::as_str));
        out.option(head.wake_at.map(Ms::get));
        if head.wake_at.is_none() {
            self.encode(&mut out)?;
        }
        Ok(out.sealed())
    }

    fn encode(&self, out: &mut Out) -> Result<(), KvError> {
        let Run { status, held, asked, .. } = self.run;
        let apart = matches!(self.spec, Spec::Apart);
        let flags = [(held, HELD), (asked, ASKED), (apart, APART)];
        out.byte(flags.iter().filter(|(is, _)| *is).fold(status_byte(status), |byte, (_, flag)| byte | flag));
        out.number(self.version);
        out.number(self.notes);
        out.at(self.saved_at);
        out.name(self.parent.as_ref().map(TriggerId::as_str));
        out.name(self.tenant.as_ref().map(TenantId::as_str));
        match &self.paused {
            None => out.text(""),
            Some(asker) => out.text(&serde_json::to_string(asker).map_err(|why| KvError::Corrupt(why.to_string()))?),
        }
        run(out, &self.run);
        if let Spec::Beside(bytes) = &self.spec {
            out.rest(bytes);
        }
        Ok(())
    }

    pub(super) fn decode_due(id: &str, record: &[u8]) -> Result<Kept, KvError> {
        Kept::decode(id.parse().map_err(|_| damaged())?, In::open(record)?)
    }

    pub(super) fn decode(id: TriggerId, mut from: In<'_>) -> Result<Kept, KvError> {
        let flags = from.byte()?;
        let (version, notes, saved_at) = (from.number()?, from.number()?, from.at()?);
        let (parent, tenant) = (from.name()?, from.name()?);
        let paused = match from.text()? {
            "" => None,
            json => Some(serde_json::from_str(json).map_err(|_| damaged())?),
        };
        let run = run_in(&mut from, flags)?;
        let spec = match flags & APART != 0 {
            true => Spec::Apart,
            false => Spec::Beside(from.rest().into()),
        };
        Ok(Kept { id, parent, tenant, saved_at, paused, run, version, notes, spec })
    }
}

const HELD: u8 = 8;
const APART: u8 = 16;
const ASKED: u8 = 32;

fn status_byte(status: TriggerStatus) -> u8 {
    match status {
        TriggerStatus::Pending => 0,
        TriggerStatus::Processing => 1,
        TriggerStatus::Completed => 2,
        TriggerStatus::Dead => 3,
    }
}

fn status_in(flags: u8) -> Result<TriggerStatus, KvError> {
    match flags & 7 {
        0 => Ok(TriggerStatus::Pending),
        1 => Ok(TriggerStatus::Processing),
        2 => Ok(TriggerStatus::Completed),
        3 => Ok(TriggerStatus::Dead),
        _ => Err(damaged()),
    }
}

/// Without what stands in the flags.
fn run(out: &mut Out, run: &Run) {
    out.at(run.trigger_at);
    out.at(run.try_at);
    out.number(u64::from(run.retry_count));
    out.name(run.owner.as_ref().map(|owner| owner.as_str()));
    out.at(run.lease_until);
    out.number(run.fence.0);
    match &run.error {
        None => out.byte(0),
        Some(error) => {
            out.byte(1);
            out.text(error);
        }
    }
    made(out, run.made.as_ref());
    out.option(run.ended_at.map(Ms::get));
}

fn run_in(from: &mut In<'_>, flags: u8) -> Result<Run, KvError> {
    Ok(Run {
        status: status_in(flags)?,
        held: flags & HELD != 0,
        asked: flags & ASKED != 0,
        trigger_at: from.at()?,
        try_at: from.at()?,
        retry_count: from.small()?,
        owner: from.name()?,
        lease_until: from.at()?,
        fence: Fence(from.number()?),
        error: match from.byte()? {
            0 => None,
            _ => Some(from.text()?.to_owned()),
        },
        made: made_in(from)?,
        ended_at: from.option()?.map(Ms::new),
    })
}

fn made(out: &mut Out, made: Option<&Made>) {
    match made {
        None => out.byte(0),
        Some(Made::Job(job)) => {
            out.byte(1);
            out.rest(job.bytes());
        }
        Some(Made::Plan(plan)) => {
            out.byte(2);
            out.text(plan.as_str());
        }
        Some(Made::Operation(said)) => {
            out.byte(3);
            out.text(said);
        }
        Some(Made::Called(status)) => {
            out.byte(4);
            out.number(u64::from(*status));
        }
    }
}

fn made_in(from: &mut In<'_>) -> Result<Option<Made>, KvError> {
    Ok(Some(match from.byte()? {
        0 => return Ok(None),
        1 => {
            let mut bytes = [0; 16];
            for byte in &mut bytes {
                *byte = from.byte()?;
            }
            Made::Job(JobId::of_bytes(bytes).ok_or_else(damaged)?)
        }
        2 => Made::Plan(from.parse()?),
        3 => Made::Operation(from.text()?.to_owned()),
        4 => Made::Called(u16::try_from(from.number()?).map_err(|_| damaged())?),
        _ => return Err(damaged()),
    }))
}

/// What a list asks of a trigger, without reading all of it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: TriggerStatus,
    pub(super) held: bool,
    pub(super) tenant: Option<TenantId>,
    pub(super) wake_at: Option<Ms>,
}

impl Head {
    /// And the rest of the record: all of the trigger if it has no time.
    pub(super) fn decode(record: &[u8]) -> Result<(Head, In<'_>), KvError> {
        let mut from = In::open(record)?;
        let flags = from.byte()?;
        let (status, held) = (status_in(flags)?, flags & HELD != 0);
        let head = Head { status, held, tenant: from.name()?, wake_at: from.option()?.map(Ms::new) };
        Ok((head, from))
    }

    pub(super) fn fits(&self, filter: &TriggerFilter) -> bool {
        (filter.tenant.is_none() || filter.tenant == self.tenant)
            && (filter.statuses.is_empty() || filter.statuses.contains(&self.status))
            && (!filter.waiting || self.held || self.status == TriggerStatus::Dead)
    }
}

#[cfg(test)]
mod tests;
