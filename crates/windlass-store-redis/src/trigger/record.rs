//! A trigger as a hash. What has its usual value has no field, so that a plain trigger is small and quickly read.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::fence::Fence;
use windlass_core::id::TenantId;
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::known::Known;
use windlass_core::port::PortError;
use windlass_core::time::Ms;
use windlass_core::trigger::schedule::{self, Misfire, Schedule};
use windlass_core::trigger::target::Target;
use windlass_core::trigger::{Overlap, Recovery, Run, Trigger, TriggerSpec, TriggerStatus};

use crate::error::corrupt;
use crate::state::step::json;

type Pairs = Vec<(&'static str, String)>;

/// What people say of a trigger besides when: one document, because it is read and written as a whole.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Said<'t> {
    target: Cow<'t, Target>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    payload: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<TenantId>,
    #[serde(default, skip_serializing_if = "is_usual")]
    misfire: Misfire,
    #[serde(default, skip_serializing_if = "is_usual")]
    recovery: Recovery,
    #[serde(default, skip_serializing_if = "is_usual")]
    overlap: Overlap,
    max_retries: u32,
    #[serde(default, skip_serializing_if = "is_usual")]
    backoff: Backoff,
}

/// A trigger is read again whenever it fires.
static SAID: Known<Said<'static>> = Known::new();

fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A `null` that was given is a value, only an absent key is none.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// All of it but its version.
pub(super) fn fields(trigger: &Trigger) -> Result<Pairs, PortError> {
    let spec = &trigger.spec;
    let said = Said {
        target: Cow::Borrowed(&spec.target),
        payload: spec.payload.clone(),
        tenant: spec.tenant.clone(),
        misfire: spec.misfire,
        recovery: spec.recovery,
        overlap: spec.overlap,
        max_retries: spec.max_retries,
        backoff: spec.backoff,
    };
    let mut fields = vec![
        ("id", trigger.id.to_string()),
        ("schedule", json(&spec.schedule)?),
        ("spec", json(&said)?),
        ("savedAt", trigger.saved_at.get().to_string()),
    ];
    fields.extend(trigger.parent.as_ref().map(|parent| ("parentId", parent.to_string())));
    fields.extend(trigger.paused.as_ref().map(json).transpose()?.map(|paused| ("paused", paused)));
    fields.extend(run_fields(&trigger.run)?);
    Ok(fields)
}

/// Where it stands.
pub(super) fn run_fields(run: &Run) -> Result<Pairs, PortError> {
    let mut fields = vec![("status", run.status.name().to_owned()), ("triggerAt", run.trigger_at.get().to_string())];
    let mut put = |name: &'static str, text: String, usual: bool| {
        if !usual {
            fields.push((name, text));
        }
    };
    put("tryAt", run.try_at.get().to_string(), run.try_at == run.trigger_at);
    put("retryCount", run.retry_count.to_string(), run.retry_count == 0);
    put("held", "true".to_owned(), !run.held);
    put("asked", "true".to_owned(), !run.asked);
    put("owner", run.owner.as_ref().map_or_else(String::new, ToString::to_string), run.owner.is_none());
    put("leaseUntil", run.lease_until.get().to_string(), run.lease_until == Ms::ZERO);
    put("fence", run.fence.0.to_string(), run.fence == Fence::NONE);
    put("error", run.error.clone().unwrap_or_default(), run.error.is_none());
    put("made", run.made.as_ref().map(json).transpose()?.unwrap_or_default(), run.made.is_none());
    put("endedAt", run.ended_at.map_or_else(String::new, |at| at.get().to_string()), run.ended_at.is_none());
    Ok(fields)
}

/// Reads a hash, name and value in turn; `None` for one that is not there.
pub(super) fn trigger<'t>(
    mut texts: impl Iterator<Item = Result<&'t [u8], PortError>>,
) -> Result<Option<Trigger>, PortError> {
    let mut read = Read::default();
    let mut any = false;
    while let Some(name) = texts.next() {
        let value = texts.next().unwrap_or_else(|| Err(corrupt("a trigger", "a field has no value")))?;
        read.field(name?, std::str::from_utf8(value).map_err(|error| corrupt("a text", error))?)?;
        any = true;
    }
    if any { read.whole().map(Some) } else { Ok(None) }
}

/// What was read so far.
#[derive(Default)]
struct Read<'t> {
    id: &'t str,
    parent: Option<&'t str>,
    schedule: Option<Schedule>,
    said: Option<Said<'static>>,
    saved_at: Ms,
    paused: Option<windlass_core::job::Asker>,
    status: Option<TriggerStatus>,
    trigger_at: Ms,
    try_at: Option<Ms>,
    retry_count: u32,
    held: bool,
    asked: bool,
    owner: Option<&'t str>,
    lease_until: Ms,
    fence: Fence,
    error: Option<&'t str>,
    made: Option<windlass_core::trigger::Made>,
    ended_at: Option<Ms>,
    version: u64,
}

impl<'t> Read<'t> {
    fn field(&mut self, name: &[u8], value: &'t str) -> Result<(), PortError> {
        let bad = |error: serde_json::Error| corrupt("a field of a trigger", error);
        match name {
            b"id" => self.id = value,
            b"parentId" => self.parent = Some(value),
            b"schedule" => self.schedule = Some(schedule::read(value).map_err(bad)?),
            b"spec" => self.said = Some(SAID.read(value).map_err(bad)?),
            b"savedAt" => self.saved_at = at(value)?,
            b"paused" => self.paused = Some(decoded(value)?),
            b"status" => self.status = Some(status(value)?),
            b"triggerAt" => self.trigger_at = at(value)?,
            b"tryAt" => self.try_at = Some(at(value)?),
            b"retryCount" => self.retry_count = parsed(value)?,
            b"held" => self.held = true,
            b"asked" => self.asked = true,
            b"owner" => self.owner = Some(value),
            b"leaseUntil" => self.lease_until = at(value)?,
            b"fence" => self.fence = Fence(parsed(value)?),
            b"error" => self.error = Some(value),
            b"made" => self.made = Some(decoded(value)?),
            b"endedAt" => self.ended_at = Some(at(value)?),
            b"version" => self.version = parsed(value)?,
            name => return Err(corrupt("a trigger", format!("field {:?}", String::from_utf8_lossy(name)))),
        }
        Ok(())
    }

    fn whole(self) -> Result<Trigger, PortError> {
        let missing = |what: &str| corrupt("a trigger", format!("it has no {what}"));
        let said = self.said.ok_or_else(|| missing("spec"))?;
        let spec = TriggerSpec {
            schedule: self.schedule.ok_or_else(|| missing("schedule"))?,
            target: said.target.into_owned(),
            payload: said.payload,
            tenant: said.tenant,
            misfire: said.misfire,
            recovery: said.recovery,
            overlap: said.overlap,
            max_retries: said.max_retries,
            backoff: said.backoff,
        };
        let run = Run {
            status: self.status.ok_or_else(|| missing("status"))?,
            trigger_at: self.trigger_at,
            try_at: self.try_at.unwrap_or(self.trigger_at),
            retry_count: self.retry_count,
            held: self.held,
            asked: self.asked,
            owner: self.owner.map(parsed).transpose()?,
            lease_until: self.lease_until,
            fence: self.fence,
            error: self.error.map(str::to_owned),
            made: self.made,
            ended_at: self.ended_at,
        };
        Ok(Trigger {
            id: parsed(self.id)?,
            parent: self.parent.map(parsed).transpose()?,
            spec,
            saved_at: self.saved_at,
            paused: self.paused,
            run,
            version: self.version,
        })
    }
}

fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, PortError>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| corrupt("a field of a trigger", error))
}

fn at(text: &str) -> Result<Ms, PortError> {
    parsed(text).map(Ms::new)
}

fn decoded<T: DeserializeOwned>(text: &str) -> Result<T, PortError> {
    serde_json::from_str(text).map_err(|error| corrupt("a field of a trigger", error))
}

pub(super) fn status(text: &str) -> Result<TriggerStatus, PortError> {
    let found = TriggerStatus::ALL.into_iter().find(|status| status.name() == text);
    found.ok_or_else(|| corrupt("a status", text))
}
