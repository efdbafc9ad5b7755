//! What is left behind: locks of ended tasks, locks that run out while their task is alive, records
//! whose time is over. Bounded work at each visit.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::lock::Held;
use windlass_core::port::lock::Tenant;
use windlass_core::port::state::{Key, Row};
use windlass_core::port::{BATCH_MAX, PAGE_MAX, PortError, Refusal};
use windlass_core::task::status::TaskStatus;

use super::dispatch::{is_of_nobody, pause};
use crate::query::pulse::Part;
use crate::shared::{Counts, Shared, locked};

/// Gives back the locks of tasks that have ended here, many at once.
pub(crate) async fn release(engine: Arc<Shared>) {
    loop {
        let held = std::mem::take(&mut *locked(&engine.to_release));
        if held.is_empty() {
            engine.releasing.notified().await;
            continue;
        }
        for chunk in held.chunks(BATCH_MAX) {
            engine.give_lock_back(chunk).await;
        }
    }
}

/// Keeps locks alive and the store tidy, until the engine stops.
pub(crate) async fn tidy(engine: Arc<Shared>) {
    let renew = Duration::from_millis(engine.options.lock_renew_ms);
    let mut due = Instant::now() + renew;
    while !engine.is_stopping() {
        engine.rounds.came(Part::Janitor);
        pause(engine.options.janitor_ms.min(engine.options.lock_renew_ms)).await;
        let mut done = engine.purge().await;
        // What has a store of its own does not wait for the others.
        engine.purge_jobs_and_triggers().await;
        if Instant::now() >= due {
            due = Instant::now() + renew;
            done = done.and(engine.renew_running().await);
            done = done.and(engine.look_at_locks().await);
        }
        if let Err(error) = done {
            engine.outlast(&error).await;
        }
    }
}

/// Records forgotten in one call, and calls at one visit.
const PURGE_MAX: u32 = 1_000;
const PURGES_MAX: usize = 20;

impl Shared {
    /// A refusal means that somebody else holds it, or nobody.
    pub(crate) async fn give_lock_back(&self, held: &[Held]) {
        loop {
            Counts::add(&self.counts.calls);
            match self.locks.release(held).await {
                Ok(_) => return,
                Err(error @ PortError::Unavailable(_)) => self.outlast(&error).await,
                Err(error) => return tracing::error!(%error, "locks cannot be given back"),
            }
        }
    }

    /// Forgets what ended long enough ago.
    async fn purge(&self) -> Result<(), PortError> {
        let before = self.store_now().minus(self.options.retention_ms);
        for _ in 0..PURGES_MAX {
            Counts::add(&self.counts.calls);
            if self.state.purge(before, PURGE_MAX).await? < PURGE_MAX {
                break;
            }
        }
        Counts::add(&self.counts.calls);
        self.locks.purge(before, PURGE_MAX).await.map(drop)
    }

    /// The same for jobs and triggers, and jobs that nobody will answer for any more end.
    async fn purge_jobs_and_triggers(&self) {
        for _ in 0..PURGES_MAX {
            let Some(queues) = &self.queues else { break };
            match queues.tidy(self.store_now()).await {
                Ok(done) if done >= PURGE_MAX => Counts::count(&self.counts.purged, done),
                Ok(done) => {
                    Counts::count(&self.counts.purged, done);
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "jobs are not tidied");
                    break;
                }
            }
        }
        let before = self.store_now().minus(self.options.trigger_retention_ms);
        let Some(triggers) = &self.triggers else { return };
        for _ in 0..PURGES_MAX {
            match triggers.purge(before, PURGE_MAX).await {
                Ok(done) => {
                    Counts::count(&self.counts.purged, done);
                    if done < PURGE_MAX {
                        break;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "triggers are not tidied");
                    break;
                }
            }
        }
    }

    /// Locks of attempts that run here. One that is somebody else's stops its attempt.
    async fn renew_running(&self) -> Result<(), PortError> {
        let held: Vec<_> = {
            let running = locked(&self.running);
            let held = running.iter().map(|(id, here)| Held {
                tenant: here.tenant.clone(),
                task: id.clone(),
                fence: here.fence,
            });
            held.collect()
        };
        for chunk in held.chunks(BATCH_MAX) {
            let asked = Instant::now();
            Counts::add(&self.counts.calls);
            let answers = self.locks.renew(chunk, self.options.lock_ms).await?;
            for (held, answer) in chunk.iter().zip(answers) {
                match answer {
                    Ok(_) => self.prolong(held, asked),
                    Err(Refusal::NotHeld { .. }) => self.set_lost(&held.task, held.fence),
                    Err(refusal) => tracing::warn!(task = %held.task, %refusal, "its lock cannot be renewed"),
                }
            }
        }
        Ok(())
    }

    fn prolong(&self, held: &Held, asked: Instant) {
        if let Some(here) = locked(&self.running).get(&held.task) {
            *locked(&here.lock_end) = asked + Duration::from_millis(self.options.lock_ms);
        }
    }

    /// Locks of tasks that do not run here: a paused one's is renewed by whoever comes by, an ended one's
    /// is given back.
    pub(crate) async fn look_at_locks(&self) -> Result<(), PortError> {
        let mut after = None;
        loop {
            Counts::add(&self.counts.calls);
            let page = self.locks.list(after.as_ref(), PAGE_MAX).await?;
            self.look_at(&page.items).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn look_at(&self, tenants: &[Tenant]) -> Result<(), PortError> {
        let holders: Vec<_> = tenants.iter().filter_map(|tenant| tenant.holder.as_ref()).collect();
        let keys: Vec<_> = holders.iter().map(|holder| Key::Task(holder.task.clone())).collect();
        Counts::add(&self.counts.calls);
        let rows = self.state.load(&keys).await?;
        let (mut paused, mut ended) = (Vec::new(), Vec::new());
        for (holder, row) in holders.into_iter().zip(rows) {
            let held = Held { tenant: holder.tenant.clone(), task: holder.task.clone(), fence: holder.fence };
            match &row {
                Some(Row::Task(row)) if row.task.status == TaskStatus::Paused => paused.push(held),
                row if is_of_nobody(holder, row.as_ref()) => ended.push(held),
                _ => {}
            }
        }
        if !paused.is_empty() {
            Counts::add(&self.counts.calls);
            drop(self.locks.renew(&paused, self.options.lock_ms).await?);
        }
        if !ended.is_empty() {
            Counts::add(&self.counts.calls);
            drop(self.locks.release(&ended).await?);
        }
        Ok(())
    }
}
