//! What scenarios of jobs are told with: new jobs, and a client that holds every job it is shown to what must hold
//! of every stored one.

use std::sync::Arc;

use windlass_core::id::{JobId, QueueName, WorkerId};
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk, Outcome};
use windlass_core::job::{Asker, Job, JobError, JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::port::job::{Beaten, Delivery, Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{Mark, PAGE_MAX, Refusal};

use super::JobHarness;
use crate::world::{BORN, id};

/// A lease that no scenario outlasts …
pub const LEASE_MS: u64 = 60_000;
/// … and how far ahead a client's clock runs that sees every such lease run out.
pub const LATER_MS: u64 = 600_000;

/// The `n`-th id, unlike its neighbours.
#[must_use]
pub fn job_id(n: u64) -> JobId {
    JobId::random(u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(n))
}

/// A job of the queue `q`.
#[must_use]
pub fn new(n: u64) -> NewJob {
    NewJob::new(job_id(n), id("q"), Some(json(&format!(r#"{{"n":{n}}}"#))))
}

/// The same for a tenant.
#[must_use]
pub fn of(n: u64, tenant: &str) -> NewJob {
    NewJob { tenant: Some(id(tenant)), ..new(n) }
}

/// JSON.
#[must_use]
pub fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|why| panic!("{text:?} in a scenario: {why}"))
}

/// An end with a result.
#[must_use]
pub fn done() -> Outcome {
    Outcome::Completed(json(r#"{"done":true}"#))
}

/// An end with an error.
#[must_use]
pub fn failure(retry: bool) -> Outcome {
    Outcome::Failed { error: Box::new(JobError::of("E-1", "no such address")), retry, spread: 0 }
}

/// What a worker knows of a job it was given.
#[must_use]
pub fn delivery(job: &Job) -> Delivery {
    Delivery { job: job.id, fence: job.fence }
}

/// The code of a job's error.
#[must_use]
pub fn code(job: &Job) -> &str {
    job.error.as_ref().map_or("", |error| error.code.as_str())
}

/// Who asks.
#[must_use]
pub fn asker() -> Asker {
    Asker { by: id("Zoë"), reason: Some(id("wrong address")), at: BORN }
}

/// A turn that says and wants nothing yet.
#[must_use]
pub fn turn(worker: &WorkerId) -> Turn {
    Turn { worker: worker.clone(), lease_ms: LEASE_MS, settle: Vec::new(), beat: Vec::new(), want: Vec::new() }
}

fn one<T>(mut answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one answer for one item");
    answers.remove(0)
}

/// Somebody on their own way to the store: a worker, a submitter, a person.
#[derive(Clone)]
pub struct Client {
    /// The way.
    pub jobs: Arc<dyn Jobs>,
    /// Its name as a worker.
    pub me: WorkerId,
}

impl Client {
    /// On a clock that runs ahead.
    pub async fn ahead(h: &dyn JobHarness, me: &str, ahead_ms: u64) -> Client {
        Client { jobs: h.open_jobs(ahead_ms).await, me: id(me) }
    }

    /// On the store's clock.
    pub async fn open(h: &dyn JobHarness, me: &str) -> Client {
        Client::ahead(h, me, 0).await
    }

    /// Submits one group.
    pub async fn submit(&self, group: &[NewJob]) -> Result<Vec<Submitted>, Refusal> {
        one(self.jobs.submit(&[group.to_vec()]).await.expect("submit"))
    }

    /// Submits jobs that must be new.
    pub async fn add(&self, group: &[NewJob]) {
        let made = self.submit(group).await.unwrap_or_else(|why| panic!("refused: {why}"));
        let wanted: Vec<_> = group.iter().map(|new| Submitted { id: new.id, existing: false }).collect();
        assert_eq!(made, wanted, "every job of the group is new, in order");
    }

    /// One turn; what it claimed must be as a claim makes it.
    pub async fn turn(&self, turn: Turn) -> Turned {
        let turned = one(self.jobs.turn(std::slice::from_ref(&turn)).await.expect("turn"));
        assert_eq!((turned.settled.len(), turned.beaten.len()), (turn.settle.len(), turn.beat.len()));
        for job in &turned.claimed {
            job.check().unwrap_or_else(|why| panic!("{why}"));
            assert_eq!((job.status, job.worker.as_ref()), (JobStatus::Running, Some(&turn.worker)));
            assert_eq!(job.lease_until, turned.at.plus(turn.lease_ms), "a lease begins with its claim");
            assert!(turn.want.iter().any(|(queue, _)| *queue == job.queue), "{} was not asked for", job.queue);
        }
        turned
    }

    /// Claims from any queue.
    pub async fn claim_from(&self, queue: &str, n: u32) -> Vec<Job> {
        let queue: QueueName = id(queue);
        self.turn(Turn { want: vec![(queue, n)], ..turn(&self.me) }).await.claimed
    }

    /// Claims from the queue `q`.
    pub async fn claim(&self, n: u32) -> Vec<Job> {
        self.claim_from("q", n).await
    }

    /// Claims one, which must be there.
    pub async fn take(&self) -> Job {
        one(self.claim(1).await)
    }

    /// Says how a delivery ended.
    pub async fn settle(&self, job: &Job, outcome: Outcome) -> Result<JobStatus, Refusal> {
        one(self.turn(Turn { settle: vec![(delivery(job), outcome)], ..turn(&self.me) }).await.settled)
    }

    /// Says that a delivery goes on.
    pub async fn beat(&self, job: &Job) -> Result<Beaten, Refusal> {
        one(self.turn(Turn { beat: vec![delivery(job)], ..turn(&self.me) }).await.beaten)
    }

    /// Asks one thing of one job.
    pub async fn ask(&self, job: JobId, ask: JobAsk) -> Result<Asked, Refusal> {
        one(self.jobs.ask(&[job], ask, &asker()).await.expect("ask"))
    }

    /// Cancels one job, which must be there.
    pub async fn cancel(&self, job: JobId) -> Asked {
        self.ask(job, JobAsk::Cancel).await.expect("a stored job")
    }

    /// A job, if it is there.
    pub async fn find(&self, job: JobId) -> Option<Job> {
        let job = one(self.jobs.load(&[job]).await.expect("load"));
        job.iter().for_each(|job| job.check().unwrap_or_else(|why| panic!("{why}")));
        job
    }

    /// A job that is there.
    pub async fn load(&self, job: JobId) -> Job {
        self.find(job).await.unwrap_or_else(|| panic!("{job} is gone"))
    }

    /// Where a job stands, with the code of its error.
    pub async fn stands(&self, job: JobId) -> (JobStatus, String) {
        let job = self.load(job).await;
        (job.status, code(&job).to_owned())
    }

    /// A whole list, in pages of so many.
    pub async fn list(&self, filter: &JobFilter, limit: u32) -> Vec<Job> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.jobs.list(filter, after.as_ref(), limit).await.expect("list");
            assert!(page.items.len() <= limit as usize, "a page keeps its limit");
            page.items.iter().for_each(|job| job.check().unwrap_or_else(|why| panic!("{why}")));
            all.extend(page.items);
            assert!(page.next.is_none() || page.next != after, "a cursor moves on, or a list has no end");
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// Everything, in order.
    pub async fn everything(&self) -> Vec<Job> {
        self.list(&JobFilter::default(), PAGE_MAX).await
    }

    /// All queues, in pages of so many.
    pub async fn queues(&self, limit: u32) -> Vec<QueueView> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let page = self.jobs.queues(after.as_ref(), limit).await.expect("queues");
            assert!(page.items.len() <= limit as usize, "a page keeps its limit");
            all.extend(page.items);
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// The queue `q`.
    pub async fn queue(&self) -> QueueView {
        let view = self.queues(PAGE_MAX).await.into_iter().find(|view| view.queue == id("q"));
        view.unwrap_or_else(|| panic!("the queue q is not listed"))
    }

    /// Sets a rule.
    pub async fn rule(&self, scope: Scope, limits: Limits, held: bool) {
        let held = held.then(asker);
        self.jobs.set_rules(&[Rule { scope, limits, held }]).await.expect("set_rules");
    }

    /// How far the feed of what is claimable is.
    pub async fn mark(&self) -> Mark {
        self.jobs.changed(Mark::default(), 0).await.expect("changed")
    }

    /// How far the feed of ended jobs is.
    pub async fn ended_mark(&self) -> Mark {
        self.ended(Mark::default()).await.mark
    }

    /// What ended, without waiting.
    pub async fn ended(&self, since: Mark) -> Ended {
        self.jobs.ended(since, 0).await.expect("ended")
    }
}

/// A bound on what runs.
#[must_use]
pub fn running(limit: u32) -> Limits {
    Limits { running: Some(limit), waiting: None }
}

/// A bound on what waits.
#[must_use]
pub fn waiting(limit: u32) -> Limits {
    Limits { running: None, waiting: Some(limit) }
}

/// The queue `q` as a scope.
#[must_use]
pub fn queue_scope() -> Scope {
    Scope::Queue(id("q"))
}

/// A tenant as a scope.
#[must_use]
pub fn tenant_scope(tenant: &str) -> Scope {
    Scope::Tenant(id(tenant))
}

/// The ids, in order.
#[must_use]
pub fn ids(jobs: &[Job]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}
