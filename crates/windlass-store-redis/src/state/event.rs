//! Events as lists keep them. Nearly all are about a task in whose list they stand, and leave out what its row says: which
//! task, of which plan, of which tenant.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use windlass_core::by::{By, Reason};
use windlass_core::event::{Event, Fact};
use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::port::PortError;
use windlass_core::task::Task;
use windlass_core::time::Ms;

use super::step::json;
use crate::error::corrupt;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Line<'e> {
    seq: u64,
    at: Ms,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plan: Option<Cow<'e, PlanId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Cow<'e, TaskId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<Cow<'e, TenantId>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<Cow<'e, By>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Cow<'e, Reason>>,
    fact: Cow<'e, Fact>,
}

/// The store counts: what follows the number is sent. `task` is as the store has it, or will have.
pub(super) fn tail(event: &Event, task: Option<&Task>) -> Result<String, PortError> {
    let Event { at, plan, task: of, tenant, by, reason, fact, .. } = event;
    let known = task.is_some_and(|task| {
        *plan == task.plan && of.as_ref() == Some(&task.id) && tenant.as_ref() == Some(&task.tenant)
    });
    let text = json(&Line {
        seq: 0,
        at: *at,
        plan: (!known).then_some(Cow::Borrowed(plan)),
        task: of.as_ref().filter(|_| !known).map(Cow::Borrowed),
        tenant: tenant.as_ref().filter(|_| !known).map(Cow::Borrowed),
        by: by.as_ref().map(Cow::Borrowed),
        reason: reason.as_ref().map(Cow::Borrowed),
        fact: Cow::Borrowed(fact),
    })?;
    text.strip_prefix(r#"{"seq":0"#).map(str::to_owned).ok_or_else(|| corrupt("an event", "it begins otherwise"))
}

/// A line of a list. `of` is the task whose list it is, with its plan and tenant.
pub(super) fn event(text: &str, of: Option<&(TaskId, PlanId, TenantId)>) -> Result<Event, PortError> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| corrupt("an event", error))?;
    let (plan, task, tenant) = match (line.plan, of) {
        (Some(plan), _) => (plan.into_owned(), line.task.map(Cow::into_owned), line.tenant.map(Cow::into_owned)),
        (None, Some((task, plan, tenant))) => (plan.clone(), Some(task.clone()), Some(tenant.clone())),
        (None, None) => return Err(corrupt("an event", "it names no plan")),
    };
    let (by, reason) = (line.by.map(Cow::into_owned), line.reason.map(Cow::into_owned));
    Ok(Event { seq: line.seq, at: line.at, plan, task, tenant, by, reason, fact: line.fact.into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"seq":7,"at":1,"plan":"p-1","task":"p-1-0","tenant":"acme","reason":"why","fact":{"TaskPaused":{"cause":"PERSON"}}}"#;

    fn of(task: &str) -> (TaskId, PlanId, TenantId) {
        (task.parse().unwrap(), "p-1".parse().unwrap(), "acme".parse().unwrap())
    }

    fn task() -> Task {
        let task = r#"{"taskId":"p-1-0","tenantId":"acme","planId":"p-1","position":0,"status":"PAUSED","stages":1,
            "completed":0,"pass":1,"retries":0,"takenBack":false,"fence":1,"readyAt":0,"createdAt":1,"updatedAt":1}"#;
        serde_json::from_str(task).unwrap()
    }

    #[test]
    fn what_the_row_says_otherwise_is_not_left_out() {
        let whole = event(WHOLE, None).unwrap();
        let others = [
            Event { plan: "p-2".parse().unwrap(), ..whole.clone() },
            Event { task: Some("p-1-1".parse().unwrap()), ..whole.clone() },
            Event { tenant: Some("oak".parse().unwrap()), ..whole.clone() },
            Event { tenant: None, ..whole },
        ];
        for other in others {
            let line = format!(r#"{{"seq":7{}"#, tail(&other, Some(&task())).unwrap());
            assert_eq!(event(&line, Some(&of("p-1-0"))).unwrap(), other);
        }
    }

    #[test]
    fn what_the_row_says_is_left_out_and_found_again() {
        let whole = event(WHOLE, None).unwrap();
        let short = r#"{"seq":7,"at":1,"reason":"why","fact":{"TaskPaused":{"cause":"PERSON"}}}"#;
        assert_eq!(tail(&whole, Some(&task())).unwrap(), short.strip_prefix(r#"{"seq":7"#).unwrap());
        assert_eq!(event(short, Some(&of("p-1-0"))).unwrap(), whole);
        assert!(event(short, None).is_err(), "of nobody knows which");
    }

    #[test]
    fn a_line_that_says_all_is_believed() {
        // As versions before this one have written all of them.
        assert_eq!(event(WHOLE, Some(&of("p-1-9"))).unwrap().task, Some("p-1-0".parse().unwrap()));
        let alone = r#"{"seq":7,"at":1,"plan":"p-1","fact":{"TaskPaused":{"cause":"PERSON"}}}"#;
        let read = event(alone, Some(&of("p-1-0"))).unwrap();
        assert_eq!((&read.task, &read.tenant), (&None, &None));
        assert_eq!(tail(&read, None).unwrap(), alone.strip_prefix(r#"{"seq":7"#).unwrap());
    }
}
