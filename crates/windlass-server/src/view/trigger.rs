//! Triggers.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::trigger::schedule::{Misfire, Schedule};
use windlass_core::trigger::target::Target;
use windlass_core::trigger::{self, Made, Noted, Overlap, Recovery};

use super::job::Asker;
use crate::schema::{Any, Object, Time};

/// A trigger.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trigger<'a> {
    id: &'a str,
    /// The trigger whose occurrence this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[schemars(with = "Object")]
    schedule: &'a Schedule,
    #[schemars(with = "Object")]
    target: &'a Target,
    #[schemars(with = "Any")]
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[schemars(with = "Any")]
    misfire: Misfire,
    #[schemars(with = "String")]
    recovery: Recovery,
    #[schemars(with = "String")]
    overlap: Overlap,
    max_retries: u32,
    #[schemars(with = "Object")]
    backoff: Backoff,
    saved_at: Time,
    /// Nothing of it fires since.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Asker<'a>>,
    /// PENDING, PROCESSING, COMPLETED or DEAD.
    status: &'static str,
    /// The occurrence that comes, or that is carried out.
    trigger_at: Time,
    /// When it is tried, which is later than its time after a failure.
    try_at: Time,
    retry_count: u32,
    /// It fell due while no scheduler lived, and waits for a person.
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_until: Option<Time>,
    fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// What its last occurrence made.
    #[schemars(with = "Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<&'a Made>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Time>,
    version: u64,
}

impl<'a> From<&'a trigger::Trigger> for Trigger<'a> {
    fn from(trigger: &'a trigger::Trigger) -> Trigger<'a> {
        let (spec, run) = (&trigger.spec, &trigger.run);
        let owned = run.owner.is_some();
        Trigger {
            id: trigger.id.as_str(),
            parent: trigger.parent.as_ref().map(|id| id.as_str()),
            schedule: &spec.schedule,
            target: &spec.target,
            payload: spec.payload.as_ref(),
            tenant: spec.tenant.as_ref().map(|id| id.as_str()),
            misfire: spec.misfire,
            recovery: spec.recovery,
            overlap: spec.overlap,
            max_retries: spec.max_retries,
            backoff: spec.backoff,
            saved_at: Time(trigger.saved_at),
            paused: trigger.paused.as_ref().map(Asker::from),
            status: run.status.name(),
            trigger_at: Time(run.trigger_at),
            try_at: Time(run.try_at),
            retry_count: run.retry_count,
            held: run.held,
            owner: run.owner.as_ref().map(|id| id.as_str()),
            lease_until: owned.then_some(Time(run.lease_until)),
            fence: run.fence.0,
            error: run.error.as_deref(),
            made: run.made.as_ref(),
            ended_at: run.ended_at.map(Time),
            version: trigger.version,
        }
    }
}

/// Something that happened to a trigger.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Note<'a> {
    at: Time,
    /// To which occurrence.
    occurrence: Time,
    /// fired, missed, skipped, failed, died, held or added.
    what: &'static str,
    /// What an occurrence that fired made.
    #[schemars(with = "Object")]
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<&'a Made>,
    /// How many were missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The newest of those that were missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Time>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'a str>,
    /// Who added it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<Asker<'a>>,
}

impl<'a> From<&'a trigger::Note> for Note<'a> {
    fn from(note: &'a trigger::Note) -> Note<'a> {
        let (at, occurrence) = (Time(note.at), Time(note.occurrence));
        let plain = |what| Note { at, occurrence, what, made: None, count: None, last: None, why: None, by: None };
        let why = |what, why: &'a String| Note { why: Some(why), ..plain(what) };
        match &note.what {
            Noted::Fired(made) => Note { made: Some(made), ..plain("fired") },
            Noted::Missed { count, last } => Note { count: Some(*count), last: Some(Time(*last)), ..plain("missed") },
            Noted::Skipped(text) => why("skipped", text),
            Noted::Failed(text) => why("failed", text),
            Noted::Died(text) => why("died", text),
            Noted::Held => plain("held"),
            Noted::Added(asker) => Note { by: Some(asker.into()), ..plain("added") },
        }
    }
}
