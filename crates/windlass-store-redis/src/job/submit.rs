//! Submissions: what is known before the store has taken them is made here.

use windlass_core::id::TenantId;
use windlass_core::job::{Backoff, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::job::Submitted;
use windlass_core::port::{Each, PortError, Refusal};

use crate::Inner;
use crate::reply::{array, parts};
use crate::script::{self, Call};
use crate::state::step::json;

pub(super) async fn submit(inner: &Inner, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
    let checked: Vec<Result<(), Refusal>> =
        groups.iter().map(|group| group.iter().try_for_each(NewJob::check)).collect();
    let sound = || groups.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(group, _)| group);
    let mut call = inner.script(&script::SUBMIT).arg(sound().count());
    for group in sound() {
        call.push(group.len());
        for new in group {
            push(&mut call, new)?;
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

fn push(call: &mut Call, new: &NewJob) -> Result<(), PortError> {
    let (when, ms) = match new.when {
        When::Now => ("now", 0),
        When::In(ms) => ("in", ms),
        When::At(at) => ("at", at.get()),
    };
    let digest = new.digest();
    let Backoff { first_ms, max_ms } = new.backoff;
    let mut rest = format!(",{},{first_ms},{max_ms},{},{digest}", new.max_attempts, new.timeout_ms.unwrap_or(0));
    // As JSON writes it: so it stands in the record, and so it is part of a key.
    let key = new.key.as_ref().map(json).transpose()?.unwrap_or_default();
    if !key.is_empty() {
        rest += &format!(r#",{{"key":{key}}}"#);
    }
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or_default();
    call.push((new.id.to_string(), new.queue.as_str(), new.tenant.as_ref().map_or("", TenantId::as_str)));
    call.push((new.priority, digest, key, when, ms, rest));
    call.push(new.payload.as_ref().map_or("", Json::as_str));
    Ok(())
}

fn answered(group: &[NewJob], answer: redis::Value) -> Result<Result<Vec<Submitted>, Refusal>, PortError> {
    let mut all = array(answer)?;
    if all.first() != Some(&redis::Value::BulkString(b"ok".to_vec())) {
        let Some(first) = group.first() else { return Ok(Ok(Vec::new())) };
        return super::refusal(first.id, redis::Value::Array(all), "").map(Err);
    }
    let submitted = array(all.pop().unwrap_or(redis::Value::Nil))?.into_iter().map(|one| {
        let one = &mut parts(one)?;
        Ok(Submitted { id: one.parse()?, existing: one.number::<u8>()? == 1 })
    });
    submitted.collect::<Result<_, PortError>>().map(Ok)
}
