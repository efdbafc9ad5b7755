//! Triggers on MySQL. Claims lock what is due with SKIP LOCKED; saves, settlements and renewals are judged by core's rules on rows
//! that were locked first. Each is a transaction of two trips.

mod claim;
mod row;

use std::collections::{BTreeSet, HashMap, HashSet};

use async_trait::async_trait;
use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::page::{bad, check_batch, check_limit, page, parts};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers, check_due, check_lease};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::Outcome;
use windlass_core::trigger::world::World;
use windlass_core::trigger::{Note, Trigger};

use crate::cell::{Cells, one};
use crate::error::Failure;
use crate::pool::Lent;
use crate::state::list::with_one_more;
use crate::text::{Script, list as listed, literal};
use crate::wake::Port;
use crate::{Inner, MySql, fence};

/// Records that a page with a filter looks at, at most.
const LOOK_MAX: u32 = 10_000;

#[async_trait]
impl Triggers for MySql {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        check_batch(saves.len())?;
        let saves = saves.to_vec();
        self.run(async move |inner| {
            let ids = saves.iter().map(|save| save.trigger.id.to_string()).collect();
            judged(&inner, &ids, |world| saves.iter().map(|save| world.save(save)).collect()).await
        })
        .await
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        check_batch(triggers.len())?;
        let ids: Vec<String> = triggers.iter().map(ToString::to_string).collect();
        self.run(async move |inner| {
            let mut gone = forget(&inner, &format!("id IN ({}) ORDER BY id", listed(&ids))).await?;
            Ok(ids.iter().map(|id| gone.remove(id)).collect())
        })
        .await
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        check_lease(lease_ms, limit)?;
        let owner = owner.clone();
        self.run(async move |inner| claim::due(&inner, &owner, lease_ms, limit).await).await
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        check_batch(settles.len())?;
        let settles = settles.to_vec();
        self.run(async move |inner| {
            let ids = settles.iter().flat_map(|(claim, outcome)| {
                let child = outcome.child.as_ref().map(|child| child.id.to_string());
                std::iter::once(claim.trigger.to_string()).chain(child)
            });
            let judge =
                |world: &mut World| settles.iter().map(|(claim, outcome)| world.settle(claim, outcome)).collect();
            judged(&inner, &ids.collect(), judge).await
        })
        .await
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        check_batch(claims.len())?;
        check_lease(lease_ms, 0)?;
        let claims = claims.to_vec();
        self.run(async move |inner| {
            let ids = claims.iter().map(|claim| claim.trigger.to_string()).collect();
            judged(&inner, &ids, |world| claims.iter().map(|claim| world.renew(claim, lease_ms)).collect()).await
        })
        .await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        check_batch(triggers.len())?;
        let ids = triggers.to_vec();
        self.run(async move |inner| {
            let names = listed(ids.iter().map(TriggerId::as_str));
            let sql = format!("SELECT {} FROM triggers t WHERE t.id IN ({names})", row::TRIGGER);
            let found = inner.pool.read(&sql, row::alone).await?.into_iter();
            let found: HashMap<TriggerId, Trigger> = found.map(|trigger| (trigger.id.clone(), trigger)).collect();
            Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
        })
        .await
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        let id = literal(trigger.as_str());
        self.run(async move |inner| {
            let sql = format!("SELECT at, occurrence, what FROM trigger_note WHERE trigger_id = {id} ORDER BY seq");
            inner.pool.ask(&sql).await?.iter().map(row::note).collect()
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
        self.run(async move |inner| list(&inner, &filter, &after, limit).await).await
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        check_due(limit)?;
        self.run(async move |inner| {
            let sql = format!(
                "SELECT {} FROM triggers t FORCE INDEX (trigger_due) WHERE t.wake_at <= {} ORDER BY t.wake_at, t.id LIMIT {limit}",
                row::TRIGGER,
                literal(upto)
            );
            inner.pool.read(&sql, row::alone).await
        })
        .await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner, Port::Triggers, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| {
            let old = format!("completed_at < {} ORDER BY completed_at, id LIMIT {limit}", literal(before));
            forget(&inner, &old).await.map(|gone| gone.len() as u32)
        })
        .await
    }
}

/// Removes triggers with their notes; answers which.
async fn forget(inner: &Inner, which: &str) -> Result<HashSet<String>, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_forget(&mut tx, which).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_forget(tx: &mut Lent<'_>, which: &str) -> Result<HashSet<String>, Failure> {
    let mut script = Script::begin();
    script.ask(&format!("SELECT id FROM triggers WHERE {which} FOR UPDATE"));
    let rows = tx.run(&script).await?.next()?;
    let ids = rows.iter().map(|row| Cells::of(row).text().map(str::to_owned)).collect::<Result<HashSet<_>, _>>()?;
    let mut script = Script::default();
    if !ids.is_empty() {
        let names = listed(&ids);
        script.say(&format!("DELETE FROM trigger_note WHERE trigger_id IN ({names})"));
        script.say(&format!("DELETE FROM triggers WHERE id IN ({names})"));
    }
    tx.commit(script).await?;
    Ok(ids)
}

/// Judges items one after the other, all in one transaction. `ids` are those it may look at or make.
async fn judged<T>(
    inner: &Inner,
    ids: &BTreeSet<String>,
    judge: impl Fn(&mut World) -> Vec<Result<T, Refusal>>,
) -> Each<T> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt(&mut tx, inner, ids, &judge).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt<T>(
    tx: &mut Lent<'_>,
    inner: &Inner,
    ids: &BTreeSet<String>,
    judge: &impl Fn(&mut World) -> Vec<Result<T, Refusal>>,
) -> Result<Vec<Result<T, Refusal>>, Failure> {
    let mut script = Script::begin();
    script.ask(&format!(
        "SELECT {} FROM triggers t FORCE INDEX (PRIMARY) WHERE t.id IN ({}) ORDER BY t.id FOR UPDATE",
        row::TRIGGER,
        listed(ids)
    ));
    inner.clock.ask(&mut script);
    fence::draw(&mut script, 1);
    let mut answers = tx.run(&script).await?;
    let kept = answers.next()?.iter().map(|row| row::trigger(&mut Cells::of(row))).collect::<Result<Vec<_>, _>>()?;
    let now = answers.now()?;
    let mut script = Script::default();
    let fence = fence::drawn(&mut answers)?;
    let mut world = World::new(kept, fence, now);
    let judged = judge(&mut world);
    row::write(&mut script, &world)?;
    tx.commit(script).await?;
    if world.wakes {
        inner.wake.tell();
    }
    Ok(judged)
}

/// A filter that refuses many makes a page short, not slow.
async fn list(inner: &Inner, filter: &TriggerFilter, after: &str, limit: u32) -> Result<Page<Trigger>, PortError> {
    let after = literal(after);
    let filtered = filter.tenant.is_some() || !filter.statuses.is_empty();
    let upto: Option<String> = match filtered && !filter.waiting {
        false => None,
        true => {
            let far = LOOK_MAX - 1;
            let sql = format!("SELECT id FROM triggers WHERE id > {after} ORDER BY id LIMIT 1 OFFSET {far}");
            let rows = inner.pool.ask(&sql).await?;
            rows.first().map(|_| one(&rows)?.text().map(str::to_owned)).transpose()?
        }
    };
    let mut such = vec![format!("t.id > {after}")];
    such.extend(upto.as_ref().map(|upto| format!("t.id <= {}", literal(upto))));
    such.extend(filter.tenant.as_ref().map(|tenant| format!("t.tenant_id = {}", literal(tenant.as_str()))));
    if !filter.statuses.is_empty() {
        such.push(format!("t.status IN ({})", listed(filter.statuses.iter().map(|status| status.name()))));
    }
    if filter.waiting {
        such.push("t.waits = 1".to_owned());
    }
    let index = if filter.waiting { "trigger_waiting" } else { "PRIMARY" };
    let sql = format!(
        "SELECT {} FROM triggers t FORCE INDEX ({index}) WHERE {} ORDER BY t.id LIMIT {}",
        row::TRIGGER,
        such.join(" AND "),
        with_one_more(limit)
    );
    let found = inner.pool.read(&sql, row::alone).await?;
    let short = found.len() <= limit as usize;
    let listed = page(found, limit, |last: &Trigger| Cursor(format!("trigger.{}", last.id)));
    Ok(match upto {
        Some(upto) if short => Page { next: Some(Cursor(format!("trigger.{upto}"))), ..listed },
        _ => listed,
    })
}
