//! The scheduler: claims what is due, carries it out, writes what came of it and when it comes again. It sleeps until
//! the next due time or until something is saved; a look every few seconds makes up for anything missed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::id::{TenantId, TriggerId};
use windlass_core::port::trigger::{CLAIM_MAX, Claim, Due, Triggers};
use windlass_core::port::{Mark, PortError};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::{self, Judged, Outcome};
use windlass_core::trigger::{Made, Trigger};

use super::fire::{self, NotFired};
use crate::shared::{Shared, locked};
use crate::watched::Watched;

/// What the parts of a scheduler share.
struct Desk {
    shared: Arc<Shared>,
    port: Arc<dyn Triggers>,
    /// Occurrences that are being carried out here, and how to stop.
    busy: Mutex<BTreeMap<TriggerId, Busy>>,
    /// One of them is over.
    freed: tokio::sync::Notify,
    /// Something was saved.
    news: Watched<u64>,
}

struct Busy {
    claim: Claim,
    stop: Arc<tokio::sync::Notify>,
}

/// Runs until the engine stops.
pub(crate) async fn schedule(shared: Arc<Shared>, port: Arc<dyn Triggers>) {
    let desk = Arc::new(Desk {
        shared: Arc::clone(&shared),
        port,
        busy: Mutex::default(),
        freed: tokio::sync::Notify::new(),
        news: Watched::default(),
    });
    shared.spawn(watch(Arc::clone(&desk)));
    shared.spawn(renew(Arc::clone(&desk)));
    while !shared.is_stopping() {
        let room = CLAIM_MAX.saturating_sub(u32::try_from(locked(&desk.busy).len()).unwrap_or(u32::MAX));
        if room == 0 {
            desk.freed.notified().await;
            continue;
        }
        let seen = desk.news.get();
        match desk.port.claim_due(&shared.instance, shared.options.lease_ms, room).await {
            Ok(due) => {
                let wait = desk.until_next(&due);
                desk.take(due).await;
                desk.rest(wait, seen).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the store of triggers does not answer");
                crate::run::pause(RETRY_MS).await;
            }
        }
    }
}

/// Between two tries when a store does not answer.
const RETRY_MS: u64 = 100;

impl Desk {
    /// How long nothing is due.
    fn until_next(&self, due: &Due) -> Duration {
        let scan = self.shared.options.scan_ms;
        Duration::from_millis(due.next.map_or(scan, |next| next.since(due.at).min(scan)))
    }

    async fn rest(&self, wait: Duration, seen: u64) {
        if wait.is_zero() {
            return;
        }
        tokio::select! { biased;
            () = self.shared.stopped() => {}
            () = self.news.until(|news| *news != seen) => {}
            () = tokio::time::sleep(wait) => {}
        }
    }

    /// Judges what was claimed; jobs are submitted together, everything else is carried out beside each other.
    async fn take(self: &Arc<Self>, due: Due) {
        if due.claimed.is_empty() {
            return;
        }
        let began = Instant::now();
        let frozen = self.frozen(&due.claimed).await;
        let (mut settle, mut jobs) = (Vec::new(), Vec::new());
        for trigger in due.claimed {
            if trigger.spec.tenant.as_ref().is_some_and(|tenant| frozen.contains(tenant)) {
                let later = due.at.plus(self.shared.options.scan_ms);
                settle.push((claim(&trigger), rules::put_back(&trigger, later)));
                continue;
            }
            match rules::judge_claimed(&trigger, due.alive_since, self.shared.options.misfire_grace_ms, due.at) {
                Judged::Settle(outcome) => settle.push((claim(&trigger), outcome)),
                // Before it is carried out, so that whoever takes over carries out the same.
                Judged::Fire(Some(first)) => {
                    if self.settle(vec![(claim(&trigger), first.clone())]).await {
                        self.begin(Trigger { run: first.run, ..trigger }, &mut jobs);
                    }
                }
                Judged::Fire(None) => self.begin(trigger, &mut jobs),
            }
        }
        self.submit(jobs, &mut settle, due.at, began).await;
        self.settle(settle).await;
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

    fn begin(self: &Arc<Self>, trigger: Trigger, jobs: &mut Vec<(Trigger, windlass_core::job::NewJob)>) {
        match fire::job(&self.shared, &trigger) {
            Some(job) => jobs.push((trigger, job)),
            None => self.carry_out(trigger),
        }
    }

    /// Submits jobs, each for itself, in one call.
    async fn submit(
        &self,
        jobs: Vec<(Trigger, windlass_core::job::NewJob)>,
        settle: &mut Vec<(Claim, Outcome)>,
        at: Ms,
        began: Instant,
    ) {
        let Some(queues) = self.shared.queues.as_ref().filter(|_| !jobs.is_empty()) else { return };
        let (triggers, groups): (Vec<Trigger>, Vec<_>) =
            jobs.into_iter().map(|(trigger, job)| (trigger, vec![job])).unzip();
        let answer = queues.submit_groups(&groups).await;
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
                tracing::warn!(trigger = %trigger.id, why, "not now; it is tried again");
                rules::put_back(trigger, now.plus(RETRY_MS))
            }
        }
    }

    /// Carries one out beside others; it may take long, so its claim is renewed.
    fn carry_out(self: &Arc<Self>, trigger: Trigger) {
        let (desk, stop) = (Arc::clone(self), Arc::new(tokio::sync::Notify::new()));
        let busy = Busy { claim: claim(&trigger), stop: Arc::clone(&stop) };
        locked(&self.busy).insert(trigger.id.clone(), busy);
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
                desk.settle(vec![(claim(&trigger), outcome)]).await;
            }
            locked(&desk.busy).remove(&trigger.id);
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
    /// is over somebody else carries them out. Answers whether all of them were taken.
    async fn settle(&self, settles: Vec<(Claim, Outcome)>) -> bool {
        if settles.is_empty() {
            return true;
        }
        let end = Instant::now() + Duration::from_millis(self.shared.options.lease_ms);
        loop {
            match self.port.settle(&settles).await {
                Ok(answers) => {
                    for ((claim, _), answer) in settles.iter().zip(&answers) {
                        if let Err(why) = answer {
                            tracing::warn!(trigger = %claim.trigger, %why, "the occurrence is not this instance's any more");
                        }
                    }
                    return answers.iter().all(Result::is_ok);
                }
                Err(PortError::Unavailable(_)) if Instant::now() < end => crate::run::pause(RETRY_MS).await,
                Err(error) => {
                    tracing::warn!(%error, "what came of occurrences could not be written; they are carried out again");
                    return false;
                }
            }
        }
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
        let claims: Vec<Claim> = locked(&desk.busy).values().map(|busy| busy.claim.clone()).collect();
        if claims.is_empty() {
            continue;
        }
        let Ok(answers) = desk.port.renew(&claims, desk.shared.options.lease_ms).await else { continue };
        for (claim, answer) in claims.iter().zip(answers) {
            if answer.is_err()
                && let Some(busy) = locked(&desk.busy).get(&claim.trigger)
                && busy.claim.fence == claim.fence
            {
                busy.stop.notify_one();
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
