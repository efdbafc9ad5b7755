//! Histories: the newest events of a task or a plan. A step's events are one record, in a ring of
//! [`HISTORY_MAX`] slots, so that a history is bounded without deleting anything. What an event shares
//! with its task (plan, task, tenant) is not written again: histories are most of what is written.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::by::{By, Reason};
use windlass_core::event::{Event, Fact, HISTORY_MAX};
use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::time::Ms;

use crate::key::{self, Subject};
use crate::kv::{KvError, Read};
use crate::record;
use crate::tx::Tx;

/// A step's events: the number of the first; the others follow it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Chunk<T> {
    first: u64,
    events: T,
}

/// What is particular to one event.
#[derive(Serialize)]
pub(super) struct Brief<'a> {
    at: Ms,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: &'a Option<By>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: &'a Option<Reason>,
    fact: &'a Fact,
}

impl<'a> From<&'a Event> for Brief<'a> {
    fn from(event: &'a Event) -> Self {
        Brief { at: event.at, by: &event.by, reason: &event.reason, fact: &event.fact }
    }
}

/// The same, read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    at: Ms,
    #[serde(default)]
    by: Option<By>,
    #[serde(default)]
    reason: Option<Reason>,
    fact: Fact,
}

/// What all events of a history share.
pub(super) struct About<'a> {
    pub(super) plan: &'a PlanId,
    pub(super) task: Option<(&'a TaskId, &'a TenantId)>,
}

impl About<'_> {
    fn subject(&self) -> Subject<'_> {
        match self.task {
            Some((task, _)) => Subject::Task(task),
            None => Subject::Plan(self.plan),
        }
    }

    fn event(&self, seq: u64, told: Told) -> Event {
        let Told { at, by, reason, fact } = told;
        let (task, tenant) = self.task.map(|(task, tenant)| (task.clone(), tenant.clone())).unzip();
        Event { seq, at, plan: self.plan.clone(), task, tenant, by, reason, fact }
    }
}

/// Adds events, the last of which is number `seq`; `text` is theirs, if it is made already. Two steps
/// meet in a slot only when at least [`HISTORY_MAX`] events lie between them, and then the older one
/// is no longer wanted.
pub(super) fn append(
    tx: &mut Tx<'_>,
    subject: Subject<'_>,
    seq: u64,
    events: &[Event],
    text: Option<&RawValue>,
) -> Result<(), KvError> {
    if events.is_empty() {
        return Ok(());
    }
    let newest = &events[events.len().saturating_sub(HISTORY_MAX)..];
    let key = key::history(subject, (seq % HISTORY_MAX as u64) as u32);
    let first = seq + 1 - newest.len() as u64;
    match text.filter(|_| newest.len() == events.len()) {
        Some(events) => tx.put_record(key, &Chunk { first, events }),
        None => tx.put_record(key, &Chunk { first, events: newest.iter().map(Brief::from).collect::<Vec<_>>() }),
    }
}

/// The newest events up to number `seq`, in order.
pub(super) fn newest(read: &(impl Read + ?Sized), about: &About<'_>, seq: u64) -> Result<Vec<Event>, KvError> {
    let (from, to) = key::histories(about.subject());
    let mut events: Vec<Event> = Vec::new();
    read.scan(&from, &to, &mut |_, value| {
        let chunk: Chunk<Vec<Told>> = record::decode(value)?;
        events.extend((chunk.first..).zip(chunk.events).map(|(seq, told)| about.event(seq, told)));
        Ok(true)
    })?;
    events.retain(|event| event.seq + HISTORY_MAX as u64 > seq);
    events.sort_unstable_by_key(|event| event.seq);
    Ok(events)
}
