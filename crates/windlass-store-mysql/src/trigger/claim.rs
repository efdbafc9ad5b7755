//! What is due, claimed in order.

use windlass_core::id::InstanceId;
use windlass_core::port::PortError;
use windlass_core::port::trigger::Due;
use windlass_core::trigger::rules;
use windlass_core::trigger::{Trigger, TriggerStatus};

use super::row;
use crate::cell::{Cells, one};
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, list, literal};
use crate::{Inner, fence};

pub(super) async fn due(inner: &Inner, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt(&mut tx, inner, owner, lease_ms, limit).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt(
    tx: &mut Lent<'_>,
    inner: &Inner,
    owner: &InstanceId,
    lease_ms: u64,
    limit: u32,
) -> Result<Due, Failure> {
    let now = inner.clock.now();
    let mut script = Script::begin();
    // One more than is claimed: it is the next one.
    script.ask(&format!(
        "SELECT {} FROM triggers t FORCE INDEX (trigger_due) WHERE t.wake_at <= {now} ORDER BY t.wake_at, t.id LIMIT {} \
         FOR UPDATE SKIP LOCKED",
        row::TRIGGER,
        u64::from(limit) + 1
    ));
    script.ask(&format!(
        "SELECT wake_at FROM triggers FORCE INDEX (trigger_due) WHERE wake_at > {now} ORDER BY wake_at LIMIT 1"
    ));
    inner.clock.ask(&mut script);
    fence::draw(&mut script, 1);
    let mut answers = tx.run(&script).await?;
    let mut found = row::triggers(&answers.next()?)?;
    let later = answers.next()?;
    let later = later.first().map(|row| Cells::of(row).at()).transpose()?;
    let now = answers.now()?;
    let mut script = Script::default();
    let fence = fence::drawn(&mut answers)?;
    let next = found.get(limit as usize).and_then(Trigger::wake_at).or(later);
    found.truncate(limit as usize);
    let (again, first): (Vec<&Trigger>, Vec<&Trigger>) =
        found.iter().partition(|trigger| trigger.run.status == TriggerStatus::Processing);
    let until = literal(now.plus(lease_ms));
    for (some, tried) in [(first, 0), (again, 1)] {
        if !some.is_empty() {
            script.say(&format!(
                "UPDATE triggers FORCE INDEX (PRIMARY) SET status = 'PROCESSING', owner = {}, fence = {}, lease_until = {until}, wake_at = {until}, \
                 retry_count = retry_count + {tried}, version = version + 1 WHERE id IN ({})",
                literal(owner.as_str()),
                literal(fence),
                list(some.iter().map(|trigger| trigger.id.as_str()))
            ));
        }
    }
    // The one row that every scheduler shares comes last.
    let at = literal(now);
    script.say(&format!(
        "UPDATE scheduler_life SET since = IF(until < {at}, {at}, since), until = IF(until < {until}, {until}, until)"
    ));
    script.ask("SELECT since FROM scheduler_life");
    let life = tx.commit(script).await?.next()?;
    let alive_since = one(&life)?.at()?;
    let claimed = found.into_iter().map(|trigger| {
        let run = rules::claim(&trigger.run, owner, fence, lease_ms, now);
        Trigger { run, version: trigger.version + 1, ..trigger }
    });
    Ok(Due { claimed: claimed.collect(), next, alive_since, at: now })
}
