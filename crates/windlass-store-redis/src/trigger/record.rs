//! A trigger as a hash. What has its usual value has no field, so that a plain trigger is small and quickly read.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::fence::Fence;
use windlass_core::id::{QueueName, TenantId};
use windlass_core::job::Backoff;
use windlass_core::json::Json;
use windlass_core::known::Known;
use windlass_core::port::PortError;
use windlass_core::time::Ms;
use windlass_core::trigger::schedule::{self, Misfire, Schedule};
use windlass_core::trigger::target::{self, ATTEMPTS_USUAL, JobTarget, Target};
use windlass_core::trigger::{Overlap, RETRIES_USUAL, Recovery, Run, Trigger, TriggerSpec, TriggerStatus};

use crate::error::corrupt;
use crate::state::step::json;

type Pairs = Vec<(&'static str, String)>;

/// What people say of a trigger besides when, what and for whom: one document, and none if all of it is as usual.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Said {
    // These three were part of it once.
    #[serde(skip_serializing)]
    target: Option<Target>,
    #[serde(deserialize_with = "given", skip_serializing)]
    payload: Option<Json>,
    #[serde(skip_serializing)]
    tenant: Option<TenantId>,
    #[serde(skip_serializing_if = "is_usual")]
    misfire: Misfire,
    #[serde(skip_serializing_if = "is_usual")]
    recovery: Recovery,
    #[serde(skip_serializing_if = "is_usual")]
    overlap: Overlap,
    max_retries: u32,
    #[serde(skip_serializing_if = "is_usual")]
    backoff: Backoff,
}

impl Default for Said {
    fn default() -> Said {
        Said {
            target: None,
            payload: None,
            tenant: None,
            misfire: Misfire::default(),
            recovery: Recovery::default(),
            overlap: Overlap::default(),
            max_retries: RETRIES_USUAL,
            backoff: Backoff::default(),
        }
    }
}

/// A trigger is read again whenever it fires, and few are not as usual.
static SAID: Known<Said> = Known::new();

/// A target as JSON, of a job without what is as usual: a hash with a text above 64 bytes takes the server more than twice the
/// memory, in many pieces instead of one.
fn target(target: &Target) -> Result<String, PortError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Job<'t> {
        queue: &'t QueueName,
        #[serde(skip_serializing_if = "is_usual")]
        priority: i8,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_attempts: Option<u32>,
        #[serde(skip_serializing_if = "is_usual")]
        backoff: Backoff,
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    }
    let Target::Job(JobTarget { queue, priority, max_attempts, backoff, timeout_ms }) = target else {
        return json(target);
    };
    let max_attempts = Some(*max_attempts).filter(|most| *most != ATTEMPTS_USUAL);
    let job = Job { queue, priority: *priority, max_attempts, backoff: *backoff, timeout_ms: *timeout_ms };
    json(&std::collections::BTreeMap::from([("job", job)]))
}

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
        misfire: spec.misfire,
        recovery: spec.recovery,
        overlap: spec.overlap,
        max_retries: spec.max_retries,
        backoff: spec.backoff,
        ..Said::default()
    };
    let mut fields = vec![
        ("id", trigger.id.to_string()),
        ("schedule", json(&spec.schedule)?),
        ("target", target(&spec.target)?),
        ("savedAt", trigger.saved_at.get().to_string()),
    ];
    fields.extend(spec.payload.as_ref().map(|payload| ("payload", payload.as_str().to_owned())));
    fields.extend(spec.tenant.as_ref().map(|tenant| ("tenant", tenant.to_string())));
    if !is_usual(&said) {
        fields.push(("spec", json(&said)?));
    }
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
    target: Option<Target>,
    payload: Option<Json>,
    tenant: Option<TenantId>,
    said: Said,
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
            b"target" => self.target = Some(target::read(value).map_err(bad)?),
            b"payload" => self.payload = Some(Json::parse(value).map_err(|why| corrupt("a payload", why))?),
            b"tenant" => self.tenant = Some(parsed(value)?),
            b"spec" => self.said = SAID.read(value).map_err(bad)?,
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
        let said = self.said;
        let spec = TriggerSpec {
            schedule: self.schedule.ok_or_else(|| missing("schedule"))?,
            target: self.target.or(said.target).ok_or_else(|| missing("target"))?,
            payload: self.payload.or(said.payload),
            tenant: self.tenant.or(said.tenant),
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

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::trigger::rules::create;

    const SPEC: &str = r#"{"schedule": {"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"}, "tenant": "acme",
        "payload": {"n": 7}, "target": {"job": {"queue": "reports"}}}"#;

    fn made(spec: &str) -> Trigger {
        create("report".parse().unwrap(), serde_json::from_str(spec).unwrap(), Ms::new(1)).unwrap()
    }

    fn back(fields: &[(&str, &str)]) -> Trigger {
        let texts = fields.iter().flat_map(|(name, value)| [Ok(name.as_bytes()), Ok(value.as_bytes())]);
        let read = trigger(texts).unwrap().unwrap();
        Trigger { version: 0, ..read }
    }

    #[test]
    fn a_plain_trigger_has_short_texts_only() {
        let plain = made(SPEC);
        let fields = fields(&plain).unwrap();
        assert!(fields.iter().all(|(_, text)| text.len() <= 64), "{fields:?}");
        let texts: Vec<_> = fields.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(back(&texts), plain);
    }

    #[test]
    fn what_is_not_as_usual_comes_back() {
        let specs = [
            r#"{"schedule": {"every": "5m"}, "target": {"job": {"queue": "q", "priority": -3}}, "payload": null}"#,
            r#"{"schedule": {"every": "5m"}, "target": {"job": {"queue": "q", "maxAttempts": 7, "timeoutMs": 9}},
                "maxRetries": 0, "misfire": "skip"}"#,
            r#"{"schedule": {"every": "5m"}, "target": {"job": {"queue": "q", "backoff": {"firstMs": 5, "maxMs": 6}}},
                "recovery": "held", "overlap": "skip", "backoff": {"firstMs": 1, "maxMs": 2}}"#,
            r#"{"schedule": {"every": "5m"}, "target": {"http": {"url": "https://example.com/"}}}"#,
        ];
        for spec in specs {
            let made = made(spec);
            let fields = fields(&made).unwrap();
            let texts: Vec<_> = fields.iter().map(|(name, text)| (*name, text.as_str())).collect();
            assert_eq!(back(&texts), made);
        }
    }

    #[test]
    fn a_document_of_everything_is_read_as_before() {
        let (plain, spec) = (
            made(SPEC),
            r#"{"target":{"job":{"queue":"reports","priority":0,"maxAttempts":1,
            "backoff":{"firstMs":1000,"maxMs":300000}}},"payload":{"n":7},"tenant":"acme","maxRetries":3}"#,
        );
        let fields = fields(&plain).unwrap();
        let rest = fields.iter().filter(|(name, _)| !["target", "payload", "tenant"].contains(name));
        let texts: Vec<_> = rest.map(|(name, text)| (*name, text.as_str())).chain([("spec", spec)]).collect();
        assert_eq!(back(&texts), plain);
    }
}
