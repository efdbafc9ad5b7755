//! Jobs, workers and their turns.

use std::sync::Arc;

use anyhow::Context as _;
use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::rules::Outcome;
use windlass_core::job::{Job, NewJob};
use windlass_core::json::Json;
use windlass_core::port::job::{Delivery, Jobs, Turn, Turned};

/// Submissions in one call.
pub(super) const GROUP: u32 = 1_000;
const LEASE_MS: u64 = 60_000;

/// Jobs like those of real work: a payload of some words.
pub(super) fn new_jobs(queue: &QueueName, tenant: Option<&TenantId>, n: u32) -> anyhow::Result<Vec<NewJob>> {
    let payload = Json::parse(r#"{"to":"somebody@example.org","template":"welcome","id":4711}"#)?;
    let job = |_| NewJob {
        tenant: tenant.cloned(),
        ..NewJob::new(JobId::random(fastrand::u128(..)), queue.clone(), Some(payload.clone()))
    };
    Ok((0..n).map(job).collect())
}

/// Submits `n` jobs, many in a call.
pub(super) async fn fill(
    jobs: &Arc<dyn Jobs>,
    queue: &QueueName,
    tenant: Option<&TenantId>,
    n: u32,
) -> anyhow::Result<()> {
    let mut left = n;
    while left > 0 {
        let group = new_jobs(queue, tenant, left.min(GROUP))?;
        jobs.submit(&[group]).await?.into_iter().next().context("no answer")??;
        left -= left.min(GROUP);
    }
    Ok(())
}

/// A worker: what it has in its hands is done when it comes back.
pub(super) struct Worker {
    pub(super) jobs: Arc<dyn Jobs>,
    turn: Turn,
    result: Json,
    /// How many it takes at once.
    room: u32,
}

impl Worker {
    pub(super) fn new(jobs: &Arc<dyn Jobs>, name: &str, queue: &QueueName, room: u32) -> anyhow::Result<Worker> {
        let want = vec![(queue.clone(), room)];
        let worker = name.parse()?;
        let turn = Turn { worker, lease_ms: LEASE_MS, settle: Vec::new(), beat: Vec::new(), want };
        Ok(Worker { jobs: Arc::clone(jobs), turn, result: Json::parse(r#"{"ok":true}"#)?, room })
    }

    /// Answers for all it has, and takes as many again, unless it is told to take no more. Answers how many it
    /// settled and what it took.
    pub(super) async fn turn(&mut self, more: bool) -> anyhow::Result<(u64, Vec<Job>)> {
        self.turn.want[0].1 = if more { self.room } else { 0 };
        let turned: Turned =
            self.jobs.turn(std::slice::from_ref(&self.turn)).await?.into_iter().next().context("no answer")?;
        let settled = turned.settled.len() as u64;
        for settled in turned.settled {
            settled?;
        }
        let settle = |job: &Job| (Delivery { job: job.id, fence: job.fence }, Outcome::Completed(self.result.clone()));
        self.turn.settle = turned.claimed.iter().map(settle).collect();
        Ok((settled, turned.claimed))
    }
}

/// What an instance draws its ids from: several share one server, in one run and from run to run.
pub(super) fn seed() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
