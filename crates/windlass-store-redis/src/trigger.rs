//! Triggers on Redis: the port's methods. What is due stands in one sorted set by the time at which it is to be looked
//! at; each change is one script, which carries out core's rules.

mod record;

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use redis::{Pipeline, Value};
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers, check_due, check_lease};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Outcome};
use windlass_core::trigger::{Note, Trigger, TriggerStatus};

use crate::error::corrupt;
use crate::page::{check_batch, check_limit, cursor, place};
use crate::reply::{array, bytes, number, parts, text};
use crate::script::{self, Call};
use crate::state::step::json;
use crate::wake::Port;
use crate::wire::Texts;
use crate::{Inner, Redis};

/// Triggers that are read with one command after another, without waiting.
const PIECE: usize = 125;
/// Triggers that one page of a list looks at, at most, beyond those that fit.
const LOOK: usize = 2_000;

#[async_trait]
impl Triggers for Redis {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        check_batch(saves.len())?;
        let checked: Vec<Result<(), Refusal>> = saves.iter().map(|save| save.trigger.spec.check()).collect();
        let sound = || saves.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()).map(|(save, _)| save);
        let mut call = self.inner.script(&script::SAVE_TRIGGERS).arg(sound().count());
        for Save { trigger, notes } in sound() {
            call.push((trigger.id.as_str(), trigger.version));
            push_fields(&mut call, record::fields(trigger)?);
            push_notes(&mut call, notes)?;
        }
        let mut answers = array(self.inner.call(&call).await?)?.into_iter();
        let each = saves.iter().zip(checked).map(|(save, checked)| match checked {
            Err(refusal) => Ok(Err(refusal)),
            Ok(()) => answered(&save.trigger.id, answers.next().unwrap_or(Value::Nil), |parts| parts.number()),
        });
        each.collect()
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        check_batch(triggers.len())?;
        let mut call = self.inner.script(&script::REMOVE_TRIGGERS).arg(triggers.len());
        triggers.iter().for_each(|id| call.push(id.as_str()));
        Ok(array(self.inner.call(&call).await?)?.into_iter().map(|gone| gone == Value::Int(1)).collect())
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        check_lease(lease_ms, limit)?;
        let call = self.inner.script(&script::CLAIM_DUE).arg((owner.as_str(), lease_ms, limit));
        let answer = &mut parts(self.inner.call(&call).await?)?;
        let rows = answer.parts()?;
        let next = answer.some()?.map(|next| next.parse::<f64>()).transpose();
        let next = next.map_err(|error| corrupt("a time", error))?.map(|next| Ms::new(next as u64));
        let (alive_since, at) = (answer.at()?, answer.at()?);
        let fence = Fence(answer.parse()?);
        let claimed = rows.map(|row| {
            let row = array(row)?;
            let before = record::trigger(row.iter().map(bytes))?;
            let before = before.ok_or_else(|| corrupt("what is due", "it is not there"))?;
            let run = rules::claim(&before.run, owner, fence, lease_ms, at);
            Ok(Trigger { run, version: before.version + 1, ..before })
        });
        Ok(Due { claimed: claimed.collect::<Result<_, PortError>>()?, next, alive_since, at })
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        check_batch(settles.len())?;
        let mut call = self.inner.script(&script::SETTLE_TRIGGERS).arg(settles.len());
        for (claim, outcome) in settles {
            call.push((claim.trigger.as_str(), claim.fence.0));
            push_fields(&mut call, record::run_fields(&outcome.run)?);
            push_notes(&mut call, &outcome.notes)?;
            match &outcome.child {
                None => call.push(""),
                Some(child) => {
                    call.push(child.id.as_str());
                    push_fields(&mut call, record::fields(child)?);
                }
            }
        }
        let answers = array(self.inner.call(&call).await?)?;
        settles.iter().zip(answers).map(|((claim, _), answer)| answered(&claim.trigger, answer, |_| Ok(()))).collect()
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        check_batch(claims.len())?;
        check_lease(lease_ms, 0)?;
        let mut call = self.inner.script(&script::RENEW_TRIGGERS).arg((lease_ms, claims.len()));
        claims.iter().for_each(|claim| call.push((claim.trigger.as_str(), claim.fence.0)));
        let answers = array(self.inner.call(&call).await?)?;
        claims.iter().zip(answers).map(|(claim, answer)| answered(&claim.trigger, answer, |parts| parts.at())).collect()
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        check_batch(triggers.len())?;
        let ids: Vec<_> = triggers.iter().map(TriggerId::as_str).collect();
        load(&self.inner, &ids, Some).await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        let mut cmd = redis::cmd("LRANGE");
        cmd.arg(self.inner.keys.of("trigger_notes", trigger.as_str())).arg(0).arg(-1);
        let notes = array(self.inner.link.ask(&cmd).await?)?.into_iter();
        notes.map(|note| serde_json::from_str(&text(note)?).map_err(|error| corrupt("a note", error))).collect()
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        check_limit(limit)?;
        let mut from = place("trigger", after)?;
        let index = if filter.waiting { "triggers_waiting" } else { "triggers_all" };
        let (mut items, mut looked) = (Vec::new(), 0);
        loop {
            let mut cmd = redis::cmd("ZRANGEBYLEX");
            let least = if from.is_empty() { "-".to_owned() } else { format!("({from}") };
            cmd.arg(self.inner.keys.one(index)).arg(least).arg("+").arg("LIMIT").arg(0).arg(limit + 1);
            let ids = array(self.inner.link.ask(&cmd).await?)?.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
            let more = ids.len() > limit as usize;
            let ids = &ids[..ids.len().min(limit as usize)];
            for (id, trigger) in ids.iter().zip(load(&self.inner, ids, Some).await?) {
                if items.len() == limit as usize {
                    return Ok(Page { items, next: Some(cursor("trigger", &from)) });
                }
                items.extend(trigger.filter(|trigger| fits(trigger, filter)));
                from.clone_from(id);
            }
            looked += ids.len();
            if !more {
                return Ok(Page { items, next: None });
            }
            if items.len() == limit as usize || looked >= LOOK {
                return Ok(Page { items, next: Some(cursor("trigger", &from)) });
            }
        }
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        check_due(limit)?;
        let mut cmd = redis::cmd("ZRANGEBYSCORE");
        cmd.arg(self.inner.keys.one("due")).arg("-inf").arg(upto.get()).arg("LIMIT").arg(0).arg(limit);
        let ids = array(self.inner.link.ask(&cmd).await?)?.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        // What was claimed between the two reads is not due any more.
        let is_due = move |trigger: &Trigger| trigger.wake_at().is_some_and(|at| at <= upto);
        load(&self.inner, &ids, move |found| found.filter(is_due)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(Port::Triggers, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let call = self.inner.script(&script::PURGE_TRIGGERS).arg((before.get(), limit));
        number(self.inner.call(&call).await?)
    }
}

fn fits(trigger: &Trigger, filter: &TriggerFilter) -> bool {
    let status = trigger.run.status;
    (filter.tenant.is_none() || filter.tenant == trigger.spec.tenant)
        && (filter.statuses.is_empty() || filter.statuses.contains(&status))
        && (!filter.waiting || trigger.run.held || status == TriggerStatus::Dead)
}

/// Reads triggers, many in some pieces at once: one is taken apart while the next is on its way. Answers what is kept.
async fn load<T: Send + 'static>(
    inner: &Arc<Inner>,
    ids: &[impl AsRef<str>],
    keep: impl Fn(Option<Trigger>) -> Option<T> + Copy + Send + Sync + 'static,
) -> Result<Vec<T>, PortError> {
    let pieces: Vec<_> = ids
        .chunks(PIECE)
        .map(|piece| {
            let mut pipe = Pipeline::with_capacity(piece.len());
            piece.iter().for_each(|id| _ = pipe.cmd("HGETALL").arg(inner.keys.of("trigger", id.as_ref())));
            let (inner, count) = (Arc::clone(inner), piece.len());
            tokio::spawn(async move {
                let damaged = |error: io::Error| corrupt("a trigger", error);
                let mut kept = Vec::with_capacity(count);
                let one = |texts: Texts<'_, '_>| {
                    kept.extend(keep(record::trigger(texts.map(|text| text.map_err(damaged)))?));
                    Ok(())
                };
                inner.link.lists(&pipe, count, one).await?;
                Ok::<_, PortError>(kept)
            })
        })
        .collect();
    let mut all = Vec::with_capacity(ids.len());
    for piece in pieces {
        let piece = piece.await.map_err(|error| PortError::Unavailable(format!("the call was ended: {error}")))?;
        all.append(&mut piece?);
    }
    Ok(all)
}

fn push_fields(call: &mut Call, fields: Vec<(&'static str, String)>) {
    call.push(fields.len());
    for (name, value) in fields {
        call.push((name, value));
    }
}

fn push_notes(call: &mut Call, notes: &[Note]) -> Result<(), PortError> {
    call.push(notes.len());
    notes.iter().try_for_each(|note| {
        call.push(json(note)?);
        Ok(())
    })
}

/// What became of one, or why not.
fn answered<T>(
    id: &TriggerId,
    answer: Value,
    read: impl FnOnce(&mut crate::reply::Parts) -> Result<T, PortError>,
) -> Result<Result<T, Refusal>, PortError> {
    let parts = &mut parts(answer)?;
    let name = || format!("trigger {id}");
    Ok(Err(match parts.text()?.as_str() {
        "ok" => return read(parts).map(Ok),
        "NotFound" => Refusal::NotFound(name()),
        "Exists" => Refusal::Exists(name()),
        "Version" => Refusal::Version { given: parts.number()?, stored: parts.number()? },
        "Stale" => Refusal::Stale { given: Fence(parts.parse()?), stored: Fence(parts.parse()?) },
        "State" => Refusal::State { status: record::status(&parts.text()?)?.name(), expected: "PROCESSING".to_owned() },
        "Owned" => {
            let owner = parts.some()?.map(|owner| owner.parse()).transpose();
            Refusal::Owned { owner: owner.map_err(|error| corrupt("an owner", error))?, until: parts.at()? }
        }
        other => return Err(corrupt("an answer", other)),
    }))
}
