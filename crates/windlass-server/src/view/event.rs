//! Events.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use windlass_core::event::{self, Fact};

use super::plan::counts;
use super::task::Failure;
use crate::schema::{Any, Time};

/// A fact that happened.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Event {
    /// Unique in a store: `task:seq` or `plan:seq`.
    pub(crate) id: String,
    /// Its place among the events of its task, or of its plan if it is about the plan.
    seq: u64,
    at: Time,
    plan: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Its name, such as StageCompleted.
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// What belongs to it; `null` if nothing does.
    #[schemars(with = "Any")]
    pub(crate) data: Option<Box<RawValue>>,
}

impl From<&event::Event> for Event {
    fn from(event: &event::Event) -> Event {
        Event {
            id: event.id(),
            seq: event.seq,
            at: Time(event.at),
            plan: event.plan.to_string(),
            task: event.task.as_ref().map(ToString::to_string),
            tenant: event.tenant.as_ref().map(ToString::to_string),
            by: event.by.as_ref().map(ToString::to_string),
            reason: event.reason.as_ref().map(ToString::to_string),
            kind: event.fact.name(),
            data: data(&event.fact),
        }
    }
}

impl Event {
    /// Without what it tells of other tenants.
    pub(crate) fn bare(mut self) -> Event {
        self.data = None;
        self
    }
}

/// What belongs to a fact.
fn data(fact: &Fact) -> Option<Box<RawValue>> {
    match fact {
        Fact::PlanCompleted { tally } | Fact::PlanFailed { tally } | Fact::PlanCancelled { tally } => {
            to_raw_value(&serde_json::json!({ "tally": counts(tally) })).ok()
        }
        Fact::StageFailed { at, failure } => to_raw_value(&Failed { at: Some(at), failure: failure.into() }).ok(),
        Fact::TaskFailed { failure } | Fact::TaskRollbackFailed { failure } => {
            to_raw_value(&Failed { at: None, failure: failure.into() }).ok()
        }
        _ => {
            // `{"Name":{…}}`, or only the name.
            let text = serde_json::to_string(fact).ok()?;
            let inner = text.strip_prefix("{\"")?.split_once("\":")?.1.strip_suffix('}')?;
            RawValue::from_string(inner.to_owned()).ok()
        }
    }
}

#[derive(Serialize)]
struct Failed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a event::At>,
    failure: Failure,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_fact_comes_without_its_name() {
        let text = |fact: &Fact| data(fact).map(|raw| raw.get().to_owned());
        assert_eq!(text(&Fact::PlanPaused), None);
        let started = Fact::StageStarted(event::At { index: 1, stage: "switch".parse().unwrap() });
        assert_eq!(text(&started).unwrap(), r#"{"index":1,"stage":"switch"}"#);
        let tally = windlass_core::plan::Tally::default();
        assert!(text(&Fact::PlanCompleted { tally }).unwrap().contains(r#""COMPLETED":0"#));
    }
}
