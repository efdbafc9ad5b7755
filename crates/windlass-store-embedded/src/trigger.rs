//! Triggers on the embedded store. A trigger that is due some time stands in full under that time, so that a claim reads
//! nothing else; under its id stands where. One that is not (paused, held, ended) stands under its id.

mod bytes;
mod claim;
mod low;
mod read;
mod record;
mod spec;
mod write;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers, check_due, check_lease};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Outcome};
use windlass_core::trigger::{Note, Trigger};

use crate::kv::{KvError, Read};
use crate::state::list::{check_batch, check_limit};
use crate::tx::Tx;
use crate::{Embedded, key};
pub(crate) use low::Low;
use record::Kept;
use write::Ready;

/// What the writer remembers.
#[derive(Default)]
pub(crate) struct Hot {
    /// Claimed triggers as it last wrote them.
    claimed: HashMap<TriggerId, Kept>,
    pub(crate) due_from: Arc<Low>,
    ended_from: Low,
}

#[async_trait]
impl Triggers for Embedded {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        check_batch(saves.len())?;
        let (saves, ahead) = (saves.to_vec(), self.ahead_ms);
        self.writer
            .write(move |tx| {
                let now = tx.now(ahead);
                saves.into_iter().map(|one| save(tx, one, now)).collect()
            })
            .await
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        check_batch(triggers.len())?;
        let triggers = triggers.to_vec();
        self.writer.write(move |tx| Ok(triggers.iter().map(|id| remove(tx, id)).collect::<Result<_, _>>()?)).await
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        check_lease(lease_ms, limit)?;
        let (owner, ahead) = (owner.clone(), self.ahead_ms);
        self.writer.write(move |tx| claim::claim(tx, &owner, lease_ms, limit, tx.now(ahead))).await
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        check_batch(settles.len())?;
        let settles = settles.to_vec();
        self.writer.write(move |tx| settles.iter().map(|(claim, to)| claim::settle(tx, claim, to)).collect()).await
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        check_batch(claims.len())?;
        check_lease(lease_ms, 0)?;
        let (claims, ahead) = (claims.to_vec(), self.ahead_ms);
        self.writer
            .write(move |tx| {
                let now = tx.now(ahead);
                claims.iter().map(|claim| claim::renew(tx, claim, lease_ms, now)).collect()
            })
            .await
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        check_batch(triggers.len())?;
        self.writer.read(|read| triggers.iter().map(|id| Ok(read::whole(read, id)?)).collect())
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        self.writer.read(|read| Ok(read::notes(read, trigger)?))
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        check_limit(limit)?;
        self.writer.read(|read| read::list(read, filter, after, limit))
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        check_due(limit)?;
        self.writer.read(|read| Ok(read::due(read, &self.writer.due_from, upto, limit)?))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.writer.changed(&self.writer.trigger_mark, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.writer.write(move |tx| Ok(purge(tx, before, limit)?)).await
    }
}

fn save(tx: &mut Tx<'_>, one: Save, now: Ms) -> Result<Result<u64, Refusal>, PortError> {
    let Save { trigger: new, notes } = one;
    let before = write::stored(tx, &new.id)?;
    let stored = before.as_ref().map(|kept| kept.whole(tx)).transpose()?;
    let mut saved = match rules::save(stored.as_ref(), &new, now) {
        Ok(saved) => saved,
        Err(why) => return Ok(Err(why)),
    };
    if rules::takes_away(stored.as_ref(), &new) {
        saved.run.fence = tx.draw_fence()?;
    }
    let version = saved.version;
    let (kept, apart) = Kept::of(saved, before.as_ref().map_or(0, |kept| kept.notes))?;
    tx.triggers_changed |= kept.wake_at().is_some();
    Ready::new(kept, &notes, apart)?.write(tx, before.as_ref());
    Ok(Ok(version))
}

fn remove(tx: &mut Tx<'_>, id: &TriggerId) -> Result<bool, KvError> {
    let Some(kept) = write::stored(tx, id)? else { return Ok(false) };
    write::remove(tx, &kept);
    Ok(true)
}

fn purge(tx: &mut Tx<'_>, before: Ms, limit: u32) -> Result<u32, KvError> {
    let (from, to) = key::triggers_ended();
    let from = tx.hot.triggers.ended_from.from(from);
    let (mut old, mut above): (Vec<TriggerId>, _) = (Vec::new(), to.clone());
    tx.scan(&from, &to, &mut |key, _| {
        let (at, id) = key::timed(key).ok_or_else(bytes::damaged)?;
        if at >= before || old.len() == limit as usize {
            above = key.to_vec();
            return Ok(false);
        }
        old.push(id.parse().map_err(|_| bytes::damaged())?);
        Ok(true)
    })?;
    for id in &old {
        if let Some(kept) = write::stored(tx, id)? {
            write::remove(tx, &kept);
        }
    }
    tx.hot.triggers.ended_from.raise(above);
    Ok(old.len() as u32)
}
