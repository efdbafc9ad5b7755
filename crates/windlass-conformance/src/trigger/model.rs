//! The plain in-memory model of the port for triggers: maps behind one mutex, core's rules, and every question answered
//! by walking everything. Its clock stands still. Time passes only where a rival is opened with a clock ahead of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, TriggerId};
use windlass_core::port::trigger::{Claim, Due, Save, TriggerFilter, Triggers, check_due, check_lease};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Alive, Outcome};
use windlass_core::trigger::{NOTES_MAX, Note, Trigger, TriggerStatus};

use crate::model::{NOW, batch, page, wait};

/// A model with nothing in it. Its clones are rivals on the same data.
#[derive(Clone)]
pub struct TriggerModel {
    shared: Arc<Shared>,
    ahead_ms: u64,
}

struct Shared {
    data: Mutex<Data>,
    changed: watch::Sender<u64>,
}

/// Everything there is.
#[derive(Default)]
struct Data {
    triggers: BTreeMap<TriggerId, Trigger>,
    notes: BTreeMap<TriggerId, Vec<Note>>,
    alive: Alive,
    fence: Fence,
}

impl Default for TriggerModel {
    fn default() -> Self {
        let shared = Shared { data: Mutex::default(), changed: watch::Sender::new(0) };
        TriggerModel { shared: Arc::new(shared), ahead_ms: 0 }
    }
}

#[async_trait]
impl super::TriggerHarness for TriggerModel {
    async fn open_triggers(&self, ahead_ms: u64) -> Arc<dyn Triggers> {
        Arc::new(TriggerModel { shared: Arc::clone(&self.shared), ahead_ms })
    }

    /// What is in memory is all there is, and it stays.
    async fn restart(&self) {}
}

impl TriggerModel {
    fn data(&self) -> MutexGuard<'_, Data> {
        self.shared.data.lock().expect("nobody panics inside the model")
    }

    fn now(&self) -> Ms {
        NOW.plus(self.ahead_ms)
    }
}

impl Data {
    fn draw(&mut self) -> Fence {
        self.fence = Fence::next(self.fence, 0);
        self.fence
    }

    fn tell(&mut self, id: &TriggerId, notes: &[Note]) {
        let all = self.notes.entry(id.clone()).or_default();
        all.extend_from_slice(notes);
        let old = all.len().saturating_sub(NOTES_MAX);
        all.drain(..old);
    }

    fn save(&mut self, save: &Save, now: Ms) -> Result<u64, Refusal> {
        let stored = self.triggers.get(&save.trigger.id).cloned();
        let mut saved = rules::save(stored.as_ref(), &save.trigger, now)?;
        if rules::takes_away(stored.as_ref(), &save.trigger) {
            saved.run.fence = self.draw();
        }
        let (id, version) = (saved.id.clone(), saved.version);
        self.triggers.insert(id.clone(), saved);
        self.tell(&id, &save.notes);
        Ok(version)
    }

    /// By the time at which each is to be looked at, then by id.
    fn by_time(&self) -> BTreeMap<(Ms, TriggerId), Trigger> {
        let timed = self.triggers.values().filter_map(|trigger| Some((trigger.wake_at()?, trigger)));
        timed.map(|(at, trigger)| ((at, trigger.id.clone()), trigger.clone())).collect()
    }

    fn due(&self, upto: Ms, limit: u32) -> Vec<Trigger> {
        let due = self.by_time().into_iter().take_while(|((at, _), _)| *at <= upto);
        due.map(|(_, trigger)| trigger).take(limit as usize).collect()
    }

    fn claim(&mut self, owner: &InstanceId, lease_ms: u64, limit: u32, now: Ms) -> Due {
        self.alive = self.alive.claims(lease_ms, now);
        let due = self.due(now, limit);
        let next = self.by_time().into_keys().map(|(at, _)| at).nth(due.len());
        let fence = if due.is_empty() { Fence::NONE } else { self.draw() };
        let mut claimed = Vec::new();
        for trigger in due {
            let run = rules::claim(&trigger.run, owner, fence, lease_ms, now);
            let trigger = Trigger { run, version: trigger.version + 1, ..trigger };
            self.triggers.insert(trigger.id.clone(), trigger.clone());
            claimed.push(trigger);
        }
        Due { claimed, next, alive_since: self.alive.since, at: now }
    }

    fn owned(&mut self, claim: &Claim) -> Result<&mut Trigger, Refusal> {
        self.triggers.get_mut(&claim.trigger).ok_or_else(|| Refusal::NotFound(format!("trigger {}", claim.trigger)))
    }

    fn settle(&mut self, claim: &Claim, outcome: &Outcome) -> Result<(), Refusal> {
        let stored = self.owned(claim)?;
        let Some(run) = rules::settle(&stored.run, claim.fence, &outcome.run)? else { return Ok(()) };
        stored.run = run;
        stored.version += 1;
        self.tell(&claim.trigger, &outcome.notes);
        if let Some(child) = &outcome.child {
            let child = Trigger { version: 1, ..child.clone() };
            self.triggers.entry(child.id.clone()).or_insert(child);
        }
        Ok(())
    }

    fn renew(&mut self, claim: &Claim, lease_ms: u64, now: Ms) -> Result<Ms, Refusal> {
        let stored = self.owned(claim)?;
        stored.run = rules::renew(&stored.run, claim.fence, lease_ms, now)?;
        stored.version += 1;
        Ok(stored.run.lease_until)
    }

    fn remove(&mut self, id: &TriggerId) -> bool {
        self.notes.remove(id);
        self.triggers.remove(id).is_some()
    }
}

fn fits(trigger: &Trigger, filter: &TriggerFilter) -> bool {
    let status = trigger.run.status;
    (filter.tenant.is_none() || filter.tenant == trigger.spec.tenant)
        && (filter.statuses.is_empty() || filter.statuses.contains(&status))
        && (!filter.waiting || trigger.run.held || status == TriggerStatus::Dead)
}

#[async_trait]
impl Triggers for TriggerModel {
    async fn save(&self, saves: &[Save]) -> Each<u64> {
        batch(saves)?;
        let mut data = self.data();
        let saved = saves.iter().map(|save| data.save(save, self.now())).collect();
        self.shared.changed.send_modify(|mark| *mark += 1);
        Ok(saved)
    }

    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError> {
        batch(triggers)?;
        let mut data = self.data();
        Ok(triggers.iter().map(|id| data.remove(id)).collect())
    }

    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError> {
        check_lease(lease_ms, limit)?;
        Ok(self.data().claim(owner, lease_ms, limit, self.now()))
    }

    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()> {
        batch(settles)?;
        let mut data = self.data();
        Ok(settles.iter().map(|(claim, outcome)| data.settle(claim, outcome)).collect())
    }

    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms> {
        batch(claims)?;
        check_lease(lease_ms, 0)?;
        let mut data = self.data();
        Ok(claims.iter().map(|claim| data.renew(claim, lease_ms, self.now())).collect())
    }

    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError> {
        batch(triggers)?;
        let data = self.data();
        Ok(triggers.iter().map(|id| data.triggers.get(id).cloned()).collect())
    }

    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError> {
        Ok(self.data().notes.get(trigger).cloned().unwrap_or_default())
    }

    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError> {
        let data = self.data();
        let fitting = data.triggers.values().filter(|trigger| fits(trigger, filter));
        page(fitting.map(|trigger| (trigger.id.to_string(), trigger.clone())).collect(), after, limit)
    }

    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError> {
        check_due(limit)?;
        Ok(self.data().due(upto, limit))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        Ok(wait(&self.shared.changed, since, wait_ms).await)
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let mut data = self.data();
        let over = |trigger: &Trigger| {
            trigger.run.status == TriggerStatus::Completed && trigger.run.ended_at.is_some_and(|at| at < before)
        };
        let mut old: Vec<_> = data.triggers.values().filter(|trigger| over(trigger)).cloned().collect();
        old.sort_by_key(|trigger| (trigger.run.ended_at, trigger.id.clone()));
        old.truncate(limit as usize);
        Ok(old.iter().filter(|trigger| data.remove(&trigger.id)).count() as u32)
    }
}
