//! The scheduler: claims what is due, carries it out, writes what came of it and when it comes again. It sleeps until
//! the next due time or until something is saved; a look every few seconds makes up for anything missed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::fence::Fence;
use windlass_core::id::{TenantId, TriggerId};
use windlass_core::job::NewJob;
use windlass_core::port::trigger::{CLAIM_MAX, Claim, Due, Triggers};
use windlass_core::port::{BATCH_MAX, Mark, PortError, Refusal};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Judged, Outcome};
use windlass_core::trigger::{Made, Trigger, TriggerStatus};

use super::fire::{self, NotFired};
use crate::query::pulse::Part;
use crate::shared::{Shared, locked};
use crate::watched::Watched;

/// What the parts of a scheduler share.
struct Desk {
    shared: Arc<Shared>,
    port: Arc<dyn Triggers>,
    /// Occurrences that are being carried out here, and how to stop. A trigger that was claimed again after its lease
    /// ran out is here twice until the older one has stopped.
    busy: Mutex<BTreeMap<(TriggerId, Fence), Arc<Notify>>>,
    /// One of them is over.
    freed: Notify,
    /// Something was saved.
    news: Watched<u64>,
    /// The earliest of what was settled here since the last look: the store tells nobody of that.
    settled: Watched<Option<Ms>>,
}

/// Runs until the engine stops.
pub(crate) async fn schedule(shared: Arc<Shared>, port: Arc<dyn Triggers>) {
    let desk = Arc::new(Desk {
        shared: Arc::clone(&shared),
        port,
        busy: Mutex::default(),
        freed: Notify::new(),
        news: Watched::default(),
        settled: Watched::default(),
    });
    shared.spawn(watch(Arc::clone(&desk)));
    shared.spawn(renew(Arc::clone(&desk)));
    while !shared.is_stopping() {
        shared.rounds.came(Part::Scheduler);
        // A stop waits until what is claimed here was handed over or back.
        desk.count(1);
        let looked = desk.look().await;
        desk.count(-1);
        match looked {
            Ok(look) => desk.rest(look).await,
            Err(error) => {
                tracing::warn!(%error, "the store of triggers does not answer");
                crate::run::pause(RETRY_MS).await;
            }
        }
    }
}

/// Between two tries when a store does not answer.
const RETRY_MS: u64 = 100;
/// Between two looks at what is due and cannot be claimed.
const AGAIN_MS: u64 = 10;

/// What a look at the store found.
struct Look {
    /// News up to here were known.
    seen: u64,
    /// When it was, here and by the store's clock.
    began: Instant,
    at: Ms,
    /// When the next one is due.
    next: Option<Ms>,
    /// Nothing more can be claimed until something is over.
    full: bool,
}

impl Desk {
    /// Claims what there is room for, and begins it. Without room it only says that a scheduler is there.
    async fn look(self: &Arc<Self>) -> Result<Look, PortError> {
        let room = CLAIM_MAX.saturating_sub(u32::try_from(locked(&self.busy).len()).unwrap_or(u32::MAX));
        let seen = self.news.get();
        self.settled.modify(|settled| settled.take().is_some());
        let due = self.port.claim_due(&self.shared.instance, self.shared.options.lease_ms, room).await?;
        let (began, at, full) = (Instant::now(), due.at, room == 0);
        // What is due and was left although there was room is in somebody else's hands.
        let left = !full && due.claimed.is_empty();
        let next = due.next.map(|next| if left { next.max(at.plus(AGAIN_MS)) } else { next });
        self.take(due, began).await;
        Ok(Look { seen, began, at, next, full })
    }

    /// Until something is due, was saved, or was not told.
    async fn rest(&self, look: Look) {
        // A third of the lease: that there is a scheduler is said in time.
        let scan = self.shared.options.scan_ms.min((self.shared.options.lease_ms / 3).max(1));
        let end = |ms: u64| look.began + Duration::from_millis(ms.min(scan));
        let until = |next: Option<Ms>| end(next.map_or(scan, |next| next.since(look.at)));
        if look.full {
            return tokio::select! { biased;
                () = self.shared.stopped() => {}
                () = self.freed.notified() => {}
                () = tokio::time::sleep_until(end(scan)) => {}
            };
        }
        loop {
            let settled = self.settled.get();
            let next = [look.next, settled].into_iter().flatten().min();
            tokio::select! { biased;
                () = self.shared.stopped() => return,
                () = self.news.until(|news| *news != look.seen) => return,
                () = self.settled.until(|now| *now != settled) => {}
                () = tokio::time::sleep_until(until(next)) => return,
            }
        }
    }

    /// Judges what was claimed; jobs are submitted together, everything else is carried out beside each other.
    async fn take(self: &Arc<Self>, due: Due, began: Instant) {
        if due.claimed.is_empty() {
            return;
        }
        let frozen = self.frozen(&due.claimed).await;
        let (mut settle, mut first, mut ready) = (Vec::new(), Vec::new(), Vec::new());
        for trigger in due.claimed {
            if trigger.spec.tenant.as_ref().is_some_and(|tenant| frozen.contains(tenant)) {
                let later = due.at.plus(self.shared.options.scan_ms);
                settle.push((claim(&trigger), rules::put_back(&trigger, later)));
                continue;
            }
            match rules::judge_claimed(&trigger, due.alive_since, self.shared.options.misfire_grace_ms, due.at) {
                Judged::Settle(outcome) => settle.push((claim(&trigger), outcome)),
                Judged::Fire(None) => ready.push(trigger),
                Judged::Fire(Some(named)) => {
                    first.push((claim(&trigger), named.clone()));
                    ready.push(Trigger { run: named.run, ..trigger });
                }
            }
        }
        // Before they are carried out, so that whoever takes over carries out the same.
        let lost = self.settle(&first).await;
        let mut jobs = Vec::new();
        for trigger in ready.into_iter().filter(|trigger| !lost.contains(&trigger.id)) {
            match fire::job(&self.shared, &trigger) {
                Some(job) => jobs.push((trigger, job)),
                None => self.carry_out(trigger),
            }
        }
        self.submit(jobs, &mut settle, due.at, began).await;
        self.settle(&settle).await;
    }

    /// Which of their tenants are frozen. If nobody can say, all of them: they wait.
    async fn frozen(&self, claimed: &[Trigger]) -> Vec<TenantId> {
        let mut tenants: Vec<TenantId> = claimed.iter().filter_map(|trigger| trigger.spec.tenant.clone()).collect();
        tenants.sort();
        tenants.dedup();
        if tenants.is_empty() {
            return tenants;
        }
        match self.shared.locks.load(&tenants).await {
            Ok(known) => known.into_iter().filter(|known| known.freeze.is_some()).map(|known| known.tenant).collect(),
            Err(_) => tenants,
        }
    }

    /// Submits jobs, each for itself, in one call.
    async fn submit(&self, jobs: Vec<(Trigger, NewJob)>, settle: &mut Vec<(Claim, Outcome)>, at: Ms, began: Instant) {
        let Some(queues) = self.shared.queues.as_ref().filter(|_| !jobs.is_empty()) else { return };
        let (triggers, groups): (Vec<Trigger>, Vec<_>) =
            jobs.into_iter().map(|(trigger, job)| (trigger, vec![job])).unzip();
        let answer = queues.submit_groups(&groups).await;
        if let Err(error) = &answer {
            tracing::warn!(%error, occurrences = triggers.len(), "their jobs are not submitted");
        }
        let now = at.plus(elapsed(began));
        for (i, trigger) in triggers.iter().enumerate() {
            let made = match &answer {
                Ok(answers) => match answers.get(i) {
                    Some(Ok(submitted)) => submitted.first().map(|job| Made::Job(job.id)).ok_or_else(no_answer),
                    Some(Err(refusal)) => Err(NotFired::Failed(refusal.to_string())),
                    None => Err(no_answer()),
                },
                Err(error) => Err(NotFired::from(error.clone())),
            };
            settle.push((claim(trigger), self.outcome(trigger, made, now)));
        }
    }

    fn outcome(&self, trigger: &Trigger, made: Result<Made, NotFired>, now: Ms) -> Outcome {
        match made {
            Ok(made) => rules::fired(trigger, made, now),
            Err(NotFired::Failed(why)) => {
                let spread = u16::try_from(self.shared.random() % 1_000).unwrap_or(0);
                rules::failed(trigger, &why, spread, now)
            }
            Err(NotFired::Skipped(why)) => rules::skipped(trigger, &why, now),
            Err(NotFired::NotNow(why)) => {
                tracing::debug!(trigger = %trigger.id, why, "not now; it is tried again");
                rules::put_back(trigger, now.plus(RETRY_MS))
            }
        }
    }

    /// Carries one out beside others; it may take long, so its claim is renewed.
    fn carry_out(self: &Arc<Self>, trigger: Trigger) {
        let (desk, stop) = (Arc::clone(self), Arc::new(Notify::new()));
        let key = (trigger.id.clone(), trigger.run.fence);
        {
            let mut busy = locked(&self.busy);
            // What is still carried out under an older fence has lost it.
            let older = busy.range((trigger.id.clone(), Fence::NONE)..key.clone());
            older.for_each(|(_, older)| older.notify_one());
            busy.insert(key.clone(), Arc::clone(&stop));
        }
        self.count(1);
        self.shared.spawn(async move {
            let made = tokio::select! { biased;
                // It is somebody else's: nothing more is written.
                () = stop.notified() => None,
                () = desk.shared.stopped() => Some(Err(NotFired::NotNow("this instance is stopping".to_owned()))),
                made = fire::fire(&desk.shared, &trigger) => Some(made),
            };
            if let Some(made) = made {
                let outcome = desk.outcome(&trigger, made, desk.shared.store_now());
                desk.settle(&[(claim(&trigger), outcome)]).await;
            }
            locked(&desk.busy).remove(&key);
            desk.count(-1);
            desk.freed.notify_one();
        });
    }

    fn count(&self, change: isize) {
        self.shared.firing.modify(|firing| {
            *firing = firing.saturating_add_signed(change);
            true
        });
    }

    /// Writes what came of occurrences; a write without an answer is repeated, for as long as it makes sense: when the lease
    /// is over somebody else carries them out. Answers which of them are not this instance's any more.
    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Vec<TriggerId> {
        if settles.is_empty() {
            return Vec::new();
        }
        let end = Instant::now() + Duration::from_millis(self.shared.options.lease_ms);
        loop {
            match self.port.settle(settles).await {
                Ok(answers) => return self.settled(settles, &answers),
                Err(PortError::Unavailable(_)) if Instant::now() < end => crate::run::pause(RETRY_MS).await,
                Err(error) => {
                    tracing::warn!(%error, "what came of occurrences could not be written; they are carried out again");
                    return settles.iter().map(|(claim, _)| claim.trigger.clone()).collect();
                }
            }
        }
    }

    fn settled(&self, settles: &[(Claim, Outcome)], answers: &[Result<(), Refusal>]) -> Vec<TriggerId> {
        let mut lost = Vec::new();
        for ((claim, _), answer) in settles.iter().zip(answers) {
            if let Err(why) = answer {
                tracing::warn!(trigger = %claim.trigger, %why, "the occurrence is not this instance's any more");
                lost.push(claim.trigger.clone());
            }
        }
        let pending = settles.iter().filter(|(_, outcome)| outcome.run.status == TriggerStatus::Pending);
        // Whether it is paused does not matter: then there is one look too many.
        if let Some(next) = pending.filter_map(|(_, outcome)| outcome.run.wake_at(false)).min() {
            self.settled.modify(|settled| {
                let before = *settled;
                *settled = Some(before.map_or(next, |before| before.min(next)));
                *settled != before
            });
        }
        lost
    }
}

/// Hears what is saved.
async fn watch(desk: Arc<Desk>) {
    let mut mark = Mark::default();
    while !desk.shared.is_stopping() {
        match desk.port.changed(mark, desk.shared.options.scan_ms).await {
            Ok(now) if now == mark => {}
            Ok(now) => {
                mark = now;
                desk.news.modify(|news| {
                    *news += 1;
                    true
                });
            }
            Err(_) => crate::run::pause(RETRY_MS).await,
        }
    }
}

/// Keeps claims alive while they are carried out.
async fn renew(desk: Arc<Desk>) {
    loop {
        crate::run::pause((desk.shared.options.lease_ms / 3).max(1)).await;
        let claims: Vec<Claim> = {
            let busy = locked(&desk.busy);
            busy.keys().map(|(trigger, fence)| Claim { trigger: trigger.clone(), fence: *fence }).collect()
        };
        for claims in claims.chunks(BATCH_MAX) {
            let Ok(answers) = desk.port.renew(claims, desk.shared.options.lease_ms).await else { continue };
            for (claim, answer) in claims.iter().zip(answers) {
                if answer.is_err()
                    && let Some(stop) = locked(&desk.busy).get(&(claim.trigger.clone(), claim.fence))
                {
                    stop.notify_one();
                }
            }
        }
    }
}

fn claim(trigger: &Trigger) -> Claim {
    Claim { trigger: trigger.id.clone(), fence: trigger.run.fence }
}

fn no_answer() -> NotFired {
    NotFired::Failed("the store answered nothing".to_owned())
}

fn elapsed(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX)
}
