//! The port for jobs.

use async_trait::async_trait;

use super::{Cursor, Each, Mark, Page, PortError, Refusal};
use crate::fence::Fence;
use crate::id::{JobId, QueueName, TenantId, WorkerId};
use crate::job::limit::{Rule, Scope};
use crate::job::rules::{Asked, JobAsk, Outcome};
use crate::job::{Asker, DURATION_MS_MAX, Job, JobStatus, NewJob};
use crate::time::Ms;

/// Records that one page of a list looks at, at most: a filter that fits few of them gets short pages.
pub const LOOK_MAX: usize = 10_000;
/// A queue's jobs are counted up to here.
pub const DEPTH_MAX: u32 = 100_000;
/// Queues that one turn asks, at most.
pub const QUEUES_MAX: usize = 64;
/// Jobs that one turn claims, at most.
pub const CLAIM_MAX: u32 = 1_000;
/// Ended jobs that a feed remembers, at most.
pub const FEED_MAX: usize = 16_384;

/// A job that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submitted {
    /// Its id: of the job that has the key, if that was there before.
    pub id: JobId,
    /// It was there before.
    pub existing: bool,
}

/// Everything a worker has to say at one moment, in one call.
///
/// # What is claimed from a queue
///
/// First what is delivered again because its lease ran out; it had its slot before, so no limit stops it. Then jobs that
/// wait and whose time has come: tenants take turns, the jobs without a tenant as if they had one, and each tenant's go
/// by priority (highest first), time, and order of submission. Taking turns means: as long as a tenant has a job that
/// could be claimed, no other tenant of that queue is given two. That holds within a claim and over claims that
/// are made one after another on one way to the store; who begins is the store's choice. A tenant that a hold or a limit
/// on what runs stops is passed over and delays nobody. Nothing of a held queue or tenant is delivered, not again either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Who.
    pub worker: WorkerId,
    /// How long what it claims and what it says it is alive for stays its own: 1 ms to [`DURATION_MS_MAX`].
    pub lease_ms: u64,
    /// What has ended. Taken before anything is claimed.
    pub settle: Vec<(Delivery, Outcome)>,
    /// What goes on.
    pub beat: Vec<Delivery>,
    /// What it has room for, by queue, in the order in which queues are asked.
    pub want: Vec<(QueueName, u32)>,
}

/// A job in a worker's hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Delivery {
    /// Which.
    pub job: JobId,
    /// Under which fence.
    pub fence: Fence,
}

/// What a turn came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turned {
    /// Where each settled job stands now. Refused: Stale, State, NotFound, Invalid. A repeat after a lost answer
    /// gets where it stands.
    pub settled: Vec<Result<JobStatus, Refusal>>,
    /// Until when each lease runs, and whether the job's end was asked for. Refused: as above, and TimedOut.
    pub beaten: Vec<Result<Beaten, Refusal>>,
    /// Jobs that are this worker's now, in the order in which they were claimed.
    pub claimed: Vec<Job>,
    /// The first moment after `at` at which the time of a PENDING job of a wanted queue comes, or the lease of a RUNNING
    /// one runs out; what a hold or a limit stops, and a queue of which as many were claimed as wanted, may be left out. Only said
    /// when fewer were claimed than wanted.
    pub next: Option<Ms>,
    /// When, by the store's clock.
    pub at: Ms,
}

/// A lease that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beaten {
    /// Until.
    pub until: Ms,
    /// Its end was asked for.
    pub cancel: bool,
}

/// What to list. A job that fits is listed: live ones first, by queue, tenant (none first), priority (highest
/// first), time and order of submission; then FAILED, then CANCELLED, then COMPLETED, the newest end first, in any
/// order within a millisecond.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// In this queue.
    pub queue: Option<QueueName>,
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Standing here; empty means anywhere.
    pub statuses: Vec<JobStatus>,
}

/// Jobs that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How far things are now.
    pub mark: Mark,
    /// Which ended after the mark that was given, each at least once.
    pub jobs: Vec<JobId>,
    /// Some may be missing from the list: whoever waits looks for itself. So it is when more ended than are remembered,
    /// and for a mark from before this way to the store was opened.
    pub gap: bool,
}

/// A queue at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueView {
    /// Which.
    pub queue: QueueName,
    /// PENDING, also those whose time has not come; counted up to [`DEPTH_MAX`].
    pub waiting: u32,
    /// RUNNING, counted up to [`DEPTH_MAX`].
    pub running: u32,
    /// Since when the job that could have begun first waits for a worker: the earliest time that has come of those
    /// that are PENDING.
    pub oldest: Option<Ms>,
    /// Until when a worker that asked for it is believed to be there, at most the longest lease of those that asked;
    /// `None` when that is over. It may be forgotten with a restart.
    pub worker_until: Option<Ms>,
}

/// Jobs. Leases, times and expiry are judged by the store's clock; fences come from the store's one counter.
#[async_trait]
pub trait Jobs: Send + Sync {
    /// Takes submissions, each group whole or not at all, as if one after another. An id that is stored with the same
    /// digest is that job, so repeating is safe; so is a key, within its tenant and queue. What is there already
    /// takes no room. Refused, by the first job of a group that is: Invalid, before all else; OpReused (the id or key of
    /// another submission); Full.
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>>;

    /// Complete, heartbeat and claim, for each worker in one step, whole or not at all. What was claimed when the answer
    /// is lost is delivered again when its lease has run out. Claiming is atomic: no two workers get one job. An
    /// empty `want` with a `worker` takes nothing; a turn with a `want` also says that the worker is there. What a turn
    /// settles and what goes on is taken before it claims; whether it claims before or after a later turn of the same
    /// call settles is open; so is which turn of a call, in which of its queues, gets what a tenant's limit leaves.
    /// Before a queue that is not held is claimed from, what ran out there and will not be delivered again is judged,
    /// as [`Jobs::sweep`] does, as far as the claim needs it to be full.
    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError>;

    /// What a person does, at the time of the store's clock: that replaces the asker's. Repeating is safe. Refused:
    /// NotFound; State (requeue of what is not FAILED). A limit on what waits never refuses what waited before: a requeue,
    /// a retry or a release.
    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked>;

    /// Reads.
    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError>;

    /// A page of a list. A job that stays where it is from the first page to the last is listed exactly once.
    /// Pages may be short, and empty, before the end: `next` says whether there is more.
    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError>;

    /// Queues that have live jobs, a rule or a worker, by name.
    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError>;

    /// Sets limits and holds; a rule that bounds and holds nothing is forgotten. Holds at once for what comes: what runs
    /// or waits beyond a new limit stays.
    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError>;

    /// The rules of these scopes, those that are set, in the order of the scopes.
    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError>;

    /// Waits until something may have become claimable after `since`, at most `wait_ms`; answers how far things are. A job
    /// whose time comes later counts when it begins to wait; a lease that begins does not: whoever waits asks
    /// again within its own lease.
    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError>;

    /// Waits until jobs have ended after `since`, at most `wait_ms`, and says which.
    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError>;

    /// Judges at most `limit` RUNNING jobs whose lease has run out and that will not be delivered again (lost, timed
    /// out, to be cancelled): they end or wait for their next attempt. Answers how many. Claims do the same for their
    /// own queues; this is for queues nobody asks.
    async fn sweep(&self, limit: u32) -> Result<u32, PortError>;

    /// Forgets at most `limit` jobs that ended before `before`; answers how many.
    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError>;

    /// Whether calls of this process are taken in the order in which they were begun, nearly always: then a worker can ask
    /// for what is being submitted without waiting for the answer.
    fn in_order(&self) -> bool {
        false
    }

    /// How many jobs a turn had best ask for: beyond this each takes longer, and what is more is asked for by the next.
    fn claims_best(&self) -> u32 {
        CLAIM_MAX
    }
}

impl Turn {
    /// What holds whatever is stored. Every store asks this first.
    pub fn check(&self) -> Result<(), PortError> {
        if self.lease_ms == 0 || self.lease_ms > DURATION_MS_MAX {
            return Err(PortError::Invalid(format!(
                "a lease of {} ms; 1 to {DURATION_MS_MAX} are allowed",
                self.lease_ms
            )));
        }
        let wanted: u64 = self.want.iter().map(|(_, n)| u64::from(*n)).sum();
        if self.want.len() > QUEUES_MAX || wanted > u64::from(CLAIM_MAX) {
            return Err(PortError::Invalid(format!(
                "a turn asks at most {QUEUES_MAX} queues for at most {CLAIM_MAX} jobs; this one asks {} for {wanted}",
                self.want.len()
            )));
        }
        if self.settle.len() + self.beat.len() > super::BATCH_MAX {
            return Err(PortError::Invalid(format!("a turn speaks of at most {} jobs", super::BATCH_MAX)));
        }
        Ok(())
    }
}
