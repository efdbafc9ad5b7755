//! Submissions: what is known before the store has taken them is made here.

use windlass_core::id::TenantId;
use windlass_core::job::{Backoff, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::job::Submitted;
use windlass_core::port::{Each, PortError, Refusal};

use crate::Inner;
use crate::error::corrupt;
use crate::reply::{array, number, text};
use crate::script::{self, Call};
use crate::state::step::json;

pub(super) async fn submit(inner: &Inner, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
    let checked: Vec<Result<(), Refusal>> =
        groups.iter().map(|group| group.iter().try_for_each(NewJob::check)).collect();
    let sound = || groups.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(group, _)| group);
    let mut call = inner.script(&script::SUBMIT).arg(sound().count());
    for group in sound() {
        call.push(group.chunk_by(alike).count());
        for run in group.chunk_by(alike) {
            push(&mut call, run)?;
        }
    }
    let mut answers = match sound().next() {
        Some(_) => array(inner.call(&call).await?)?,
        None => Vec::new(),
    }
    .into_iter();
    let each = groups.iter().zip(checked).map(|(group, checked)| match checked {
        Err(refusal) => Ok(Err(refusal)),
        Ok(()) => answered(group, answers.next().unwrap_or(redis::Value::Nil)),
    });
    each.collect()
}

/// Whether what they have in common can be said once.
fn alike(one: &NewJob, other: &NewJob) -> bool {
    let shared = |new: &NewJob| (new.priority, new.when, new.key.is_some());
    one.queue == other.queue && one.tenant == other.tenant && shared(one) == shared(other)
}

/// Jobs that are alike.
fn push(call: &mut Call, run: &[NewJob]) -> Result<(), PortError> {
    let Some(first) = run.first() else { return Ok(()) };
    let (when, ms) = match first.when {
        When::Now => ("now", 0),
        When::In(ms) => ("in", ms),
        When::At(at) => ("at", at.get()),
    };
    let width = if first.key.is_some() { 4 } else { 3 };
    call.push((first.queue.as_str(), first.tenant.as_ref().map_or("", TenantId::as_str), first.priority));
    call.push((when, ms, width, run.len()));
    for new in run {
        let Backoff { first_ms, max_ms } = new.backoff;
        let (attempts, timeout, digest) = (new.max_attempts, new.timeout_ms.unwrap_or(0), new.digest());
        let mut rest = format!(",{attempts},{first_ms},{max_ms},{timeout},{digest}");
        // As JSON writes it: so it stands in the record, and so it is part of a key.
        let key = new.key.as_ref().map(json).transpose()?;
        if let Some(key) = &key {
            rest += &format!(r#",{{"key":{key}}}"#);
        }
        call.push((new.id.to_string(), rest, new.payload.as_ref().map_or("", Json::as_str)));
        if let Some(key) = &key {
            call.push(key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or_default());
        }
    }
    Ok(())
}

fn answered(group: &[NewJob], answer: redis::Value) -> Result<Result<Vec<Submitted>, Refusal>, PortError> {
    let all = array(answer)?;
    if all.first() != Some(&redis::Value::BulkString(b"ok".to_vec())) {
        let Some(first) = group.first() else { return Ok(Ok(Vec::new())) };
        return super::refusal(first.id, redis::Value::Array(all), "").map(Err);
    }
    // All are new but those that are named, each by its place and who was there.
    let mut submitted: Vec<_> = group.iter().map(|new| Submitted { id: new.id, existing: false }).collect();
    let old = &mut all.into_iter().skip(1);
    while let (Some(place), Some(id)) = (old.next(), old.next()) {
        let place: usize = number(place)?;
        let id = text(id)?.parse().map_err(|error| corrupt("a job's id", error))?;
        let there = place.checked_sub(1).and_then(|at| submitted.get_mut(at));
        *there.ok_or_else(|| corrupt("a place", place))? = Submitted { id, existing: true };
    }
    Ok(Ok(submitted))
}
