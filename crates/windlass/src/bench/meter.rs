//! A store of jobs that counts what is acknowledged on its way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use tokio::sync::Notify;
use windlass_core::id::JobId;
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, NewJob};
use windlass_core::port::job::{Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;

use super::Timer;

/// See the module.
pub(crate) struct Meter {
    jobs: Arc<dyn Jobs>,
    turns: Mutex<Timer>,
    settled: AtomicU64,
    /// Keys of submitted jobs, and when they were acknowledged.
    submitted: Mutex<Vec<(Instant, String)>>,
    enough: u64,
    done: Notify,
}

impl Meter {
    /// Until so many jobs are settled, or submitted with a key.
    pub(crate) fn new(jobs: &Arc<dyn Jobs>, enough: u64) -> anyhow::Result<Arc<Meter>> {
        Ok(Arc::new(Meter {
            jobs: Arc::clone(jobs),
            turns: Mutex::new(Timer::new()?),
            settled: AtomicU64::new(0),
            submitted: Mutex::default(),
            enough,
            done: Notify::new(),
        }))
    }

    /// All of them are, and it was acknowledged.
    pub(crate) async fn done(&self) {
        while self.settled.load(Ordering::Acquire) + (self.submitted().len() as u64) < self.enough {
            self.done.notified().await;
        }
    }

    /// How many jobs are settled.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// Keys of submitted jobs, and when they were acknowledged.
    pub(crate) fn submitted(&self) -> MutexGuard<'_, Vec<(Instant, String)>> {
        self.submitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turns so far.
    pub(crate) fn timer(&self) -> anyhow::Result<Timer> {
        let mut timer = Timer::new()?;
        timer.merge(&self.turns.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(timer)
    }
}

#[async_trait]
impl Jobs for Meter {
    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        let began = Instant::now();
        let turned = self.jobs.turn(turns).await?;
        let settled = turned.iter().flat_map(|turned| &turned.settled).filter(|settled| settled.is_ok()).count() as u64;
        self.turns.lock().unwrap_or_else(PoisonError::into_inner).add(began, settled);
        if self.settled.fetch_add(settled, Ordering::AcqRel) + settled >= self.enough {
            self.done.notify_one();
        }
        Ok(turned)
    }

    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        let answers = self.jobs.submit(groups).await?;
        let now = Instant::now();
        self.submitted().extend(groups.iter().flatten().filter_map(|job| Some((now, job.key.clone()?))));
        self.done.notify_one();
        Ok(answers)
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        self.jobs.ask(jobs, ask, asker).await
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        self.jobs.load(jobs).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        self.jobs.list(filter, after, limit).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        self.jobs.queues(after, limit).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        self.jobs.set_rules(rules).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        self.jobs.rules(scopes).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.jobs.changed(since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        self.jobs.ended(since, wait_ms).await
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.jobs.sweep(limit).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.jobs.purge(before, limit).await
    }

    fn in_order(&self) -> bool {
        self.jobs.in_order()
    }

    fn claims_best(&self) -> u32 {
        self.jobs.claims_best()
    }
}
