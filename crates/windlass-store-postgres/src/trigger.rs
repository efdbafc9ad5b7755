//! Triggers on PostgreSQL. A claim is one statement, and so is a settle or a renewal that is plain; what is not is judged
//! here by core's rules on rows that were locked first.

mod row;
mod sql;
mod step;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::page::{bad, check_batch, check_limit, page, parts};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers, check_due, check_lease};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::Outcome;
use windlass_core::trigger::world::World;
use windlass_core::trigger::{NOTES_MAX, Note, Trigger, TriggerStatus};

use crate::cell::{Cells, Stamp, params, signed};
use crate::pool::Call;
use crate::state::list::with_one_more;
use crate::state::one;
use crate::wake::Port;
use crate::{Inner, Postgres};

#[async_trait]
impl Triggers for Postgres {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        check_batch(saves.len())?;
        let saves = saves.to_vec();
        self.run(async move |inner| {
            let ids = saves.iter().map(|save| save.trigger.id.to_string()).collect();
            let judge = |world: &mut World| saves.iter().map(|save| world.save(save)).collect();
            let (answers, wakes) = step::judged(&inner.pool, ids, inner.ahead_ms, judge).await?;
            if wakes {
                inner.wake.tell(Port::Triggers);
            }
            Ok(answers)
        })
        .await
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        check_batch(triggers.len())?;
        let ids: Vec<String> = triggers.iter().map(ToString::to_string).collect();
        self.run(async move |inner| {
            let rows = inner.pool.query(&Call::new(sql::REMOVE, params![ids.clone()])).await?;
            let mut gone = rows.iter().map(|row| Cells::of(row).get()).collect::<Result<HashSet<String>, _>>()?;
            Ok(ids.iter().map(|id| gone.remove(id)).collect())
        })
        .await
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        check_lease(lease_ms, limit)?;
        let owner = owner.to_string();
        self.run(async move |inner| {
            let params = params![owner, signed(lease_ms), i64::from(limit), inner.ahead_ms];
            let rows = inner.pool.query(&Call::new(sql::CLAIM, params)).await?;
            let first = &mut one(&rows)?;
            first.get::<i64>()?;
            let (at, alive_since, next) = (first.at()?, first.at()?, first.at_or_none()?);
            let claimed = rows[1..].iter().map(|row| Ok(row::trigger(&mut Cells::after(row, 4))?.trigger));
            Ok(Due { claimed: claimed.collect::<Result<_, PortError>>()?, next, alive_since, at })
        })
        .await
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        check_batch(settles.len())?;
        let settles = settles.to_vec();
        self.run(async move |inner| settle(&inner, settles).await).await
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        check_batch(claims.len())?;
        check_lease(lease_ms, 0)?;
        let claims = claims.to_vec();
        self.run(async move |inner| renew(&inner, claims, lease_ms).await).await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        check_batch(triggers.len())?;
        let ids = triggers.to_vec();
        self.run(async move |inner| {
            let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
            let found = inner.pool.read(&Call::new(sql::LOAD, params![names]), row::alone).await?;
            let found = found.into_iter().map(|trigger| (trigger.id.clone(), trigger));
            let found: HashMap<TriggerId, Trigger> = found.collect();
            Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
        })
        .await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        let id = trigger.to_string();
        self.run(async move |inner| {
            let rows = inner.pool.query(&Call::new(sql::NOTES, params![id])).await?;
            rows.iter().map(row::note).collect()
        })
        .await
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        check_limit(limit)?;
        let after = match after {
            None => String::new(),
            Some(cursor) => {
                let [id] = parts::<1>(cursor, "trigger")?;
                id.parse::<TriggerId>().map_err(|_| bad())?.to_string()
            }
        };
        let filter = filter.clone();
        self.run(async move |inner| list(&inner, &filter, after, limit).await).await
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        check_due(limit)?;
        self.run(async move |inner| {
            let call = Call::new(sql::FIND_DUE, params![Stamp(upto), i64::from(limit)]);
            inner.pool.read(&call, row::alone).await
        })
        .await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner.pool, Port::Triggers, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| {
            let rows = inner.pool.query(&Call::new(sql::PURGE, params![Stamp(before), i64::from(limit)])).await?;
            one(&rows)?.count()
        })
        .await
    }
}

/// Plain ones in one statement; what it leaves is judged.
async fn settle(inner: &Arc<Inner>, settles: Vec<(Claim, Outcome)>) -> Each<()> {
    let mut answers: Vec<Option<Result<(), _>>> = settles.iter().map(|_| None).collect();
    let mut seen = HashSet::new();
    let plain = |(claim, outcome): &(Claim, Outcome)| {
        outcome.child.is_none()
            && outcome.run.status != TriggerStatus::Processing
            && outcome.run.owner.is_none()
            && outcome.run.lease_until == Ms::ZERO
            && outcome.notes.len() <= NOTES_MAX
            && seen.insert(claim.trigger.clone())
    };
    if settles.iter().all(plain) && !settles.is_empty() {
        for row in &inner.pool.query(&plain_call(&settles)?).await? {
            let step: usize = Cells::of(row).count()?;
            if let Some(answer) = answers.get_mut(step.wrapping_sub(1)) {
                *answer = Some(Ok(()));
            }
        }
    }
    let left: Vec<&(Claim, Outcome)> =
        settles.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(settle, _)| settle).collect();
    if left.is_empty() {
        return step::fill(answers, Vec::new());
    }
    let ids = left.iter().flat_map(|(claim, outcome)| {
        let child = outcome.child.as_ref().map(|child| child.id.to_string());
        std::iter::once(claim.trigger.to_string()).chain(child)
    });
    let judge = |world: &mut World| left.iter().map(|(claim, outcome)| world.settle(claim, outcome)).collect();
    let (rest, _) = step::judged(&inner.pool, ids.collect(), inner.ahead_ms, judge).await?;
    step::fill(answers, rest)
}

fn plain_call(settles: &[(Claim, Outcome)]) -> Result<Call, PortError> {
    let (mut steps, mut nths, mut at, mut occurrences, mut what) = (vec![], vec![], vec![], vec![], vec![]);
    for (step, (_, outcome)) in settles.iter().enumerate() {
        for (nth, note) in outcome.notes.iter().enumerate() {
            steps.push(step as i64 + 1);
            nths.push(nth as i64);
            at.push(Stamp(note.at));
            occurrences.push(Stamp(note.occurrence));
            what.push(crate::cell::json(&note.what)?);
        }
    }
    let made = settles.iter().map(|(_, outcome)| row::option_json(outcome.run.made.as_ref()));
    let made: Vec<Option<String>> = made.collect::<Result<_, _>>()?;
    let numbers =
        |value: fn(&(Claim, Outcome)) -> u64| settles.iter().map(|one| signed(value(one))).collect::<Vec<i64>>();
    let times = |value: fn(&Outcome) -> Option<Ms>| {
        settles.iter().map(|(_, outcome)| value(outcome).map(Stamp)).collect::<Vec<Option<Stamp>>>()
    };
    Ok(Call::new(
        sql::SETTLE,
        params![
            settles.iter().map(|(claim, _)| claim.trigger.to_string()).collect::<Vec<String>>(),
            numbers(|(claim, _)| claim.fence.0),
            settles.iter().map(|(_, outcome)| outcome.run.status.name().to_owned()).collect::<Vec<String>>(),
            times(|outcome| Some(outcome.run.trigger_at)),
            times(|outcome| Some(outcome.run.try_at)),
            numbers(|(_, outcome)| u64::from(outcome.run.retry_count)),
            settles.iter().map(|(_, outcome)| outcome.run.held).collect::<Vec<bool>>(),
            settles.iter().map(|(_, outcome)| outcome.run.error.clone()).collect::<Vec<Option<String>>>(),
            made,
            times(|outcome| outcome.run.ended_at),
            numbers(|(_, outcome)| outcome.notes.len() as u64),
            steps,
            nths,
            at,
            occurrences,
            what,
            settles.iter().map(|(_, outcome)| outcome.run.asked).collect::<Vec<bool>>(),
        ],
    ))
}

/// Those that are owned in one statement; what it leaves is judged.
async fn renew(inner: &Arc<Inner>, claims: Vec<Claim>, lease_ms: u64) -> Each<Ms> {
    let mut answers: Vec<Option<Result<Ms, _>>> = claims.iter().map(|_| None).collect();
    let mut seen = HashSet::new();
    if claims.iter().all(|claim| seen.insert(&claim.trigger)) {
        let ids: Vec<String> = claims.iter().map(|claim| claim.trigger.to_string()).collect();
        let fences: Vec<i64> = claims.iter().map(|claim| signed(claim.fence.0)).collect();
        let call = Call::new(sql::RENEW, params![ids, fences, signed(lease_ms), inner.ahead_ms]);
        for row in &inner.pool.query(&call).await? {
            let cells = &mut Cells::of(row);
            let nth: usize = cells.count()?;
            if let Some(answer) = answers.get_mut(nth.wrapping_sub(1)) {
                *answer = Some(Ok(cells.at()?));
            }
        }
    }
    let left: Vec<&Claim> =
        claims.iter().zip(&answers).filter(|(_, answer)| answer.is_none()).map(|(claim, _)| claim).collect();
    if left.is_empty() {
        return step::fill(answers, Vec::new());
    }
    let ids = left.iter().map(|claim| claim.trigger.to_string()).collect();
    let judge = |world: &mut World| left.iter().map(|claim| world.renew(claim, lease_ms)).collect();
    let (rest, _) = step::judged(&inner.pool, ids, inner.ahead_ms, judge).await?;
    step::fill(answers, rest)
}

/// A filter that refuses many makes a page short, not slow.
async fn list(
    inner: &Arc<Inner>,
    filter: &TriggerFilter,
    after: String,
    limit: u32,
) -> Result<Page<Trigger>, PortError> {
    let filtered = filter.tenant.is_some() || !filter.statuses.is_empty();
    let upto: Option<String> = match filtered && !filter.waiting {
        false => None,
        true => {
            let rows = inner.pool.query(&Call::new(sql::LOOK, params![after.clone()])).await?;
            rows.first().map(|row| Cells::of(row).get()).transpose()?
        }
    };
    let statement = if filter.waiting { sql::LIST_WAITING } else { sql::LIST };
    let tenant = filter.tenant.as_ref().map(ToString::to_string);
    let statuses = (!filter.statuses.is_empty())
        .then(|| filter.statuses.iter().map(|status| status.name().to_owned()).collect::<Vec<String>>());
    let call = Call::new(statement, params![after, upto.clone(), tenant, statuses, with_one_more(limit)]);
    let found = inner.pool.read(&call, row::alone).await?;
    let short = found.len() <= limit as usize;
    let listed = page(found, limit, |last: &Trigger| Cursor(format!("trigger.{}", last.id)));
    Ok(match upto {
        Some(upto) if short => Page { next: Some(Cursor(format!("trigger.{upto}"))), ..listed },
        _ => listed,
    })
}
