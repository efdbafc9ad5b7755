//! Jobs, as one instance of Windlass sees them: submit, wait, cancel, requeue, and work on them. Rules are the
//! core's and the store's; here are the waiting, the wake-ups and the workers. Jobs never degrade: without the store
//! every call says so at once, and nothing new starts.

mod freeze;
pub mod handle;
pub mod options;
pub mod remote;
mod wait;
pub mod worker;

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk};
use windlass_core::job::{Asker, Job, JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::port::job::{JobFilter, Jobs, QueueView, Submitted};
use windlass_core::port::{BATCH_MAX, Cursor, Each, PAGE_MAX, Page, PortError, Refusal};
use windlass_core::time::Ms;

pub use handle::{Handle, Waited};
pub use options::JobOptions;
pub use worker::{JobHandler, Told, Worker};

use crate::clock::Clock;
use crate::command::Caller;
use crate::error::Error;
use crate::shared::locked;
use crate::watched::Watched;
use wait::{Seat, Waiting};

/// How long workers have to hand back what they did not finish.
const HAND_BACK: std::time::Duration = std::time::Duration::from_secs(5);

/// The queues of a store. Clones share everything, also the one path by which ended jobs are heard of.
#[derive(Clone)]
pub struct Queues(Arc<Inner>);

struct Inner {
    port: Arc<dyn Jobs>,
    clock: Arc<dyn Clock>,
    options: JobOptions,
    waiting: Waiting,
    rng: Mutex<fastrand::Rng>,
    /// Jobs that run on workers of this process: told at once when their end is asked for.
    running: worker::Here,
    stopping: Watched<bool>,
    /// Nobody listens for ended jobs any more.
    over: Watched<bool>,
    tasks: Mutex<tokio::task::JoinSet<()>>,
}

/// What a bulk operation came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bulk {
    /// Jobs that were changed.
    pub changed: u32,
    /// Jobs that fit and were not changed, because they stood elsewhere by then.
    pub left: u32,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

impl Queues {
    /// Listens for ended jobs from now on.
    #[must_use]
    pub fn start(port: Arc<dyn Jobs>, clock: Arc<dyn Clock>, options: JobOptions, seed: u64) -> Queues {
        let queues = Queues(Arc::new(Inner {
            port,
            clock,
            options: options.bounded(),
            waiting: Waiting::default(),
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
            running: worker::Here::default(),
            stopping: Watched::default(),
            over: Watched::default(),
            tasks: Mutex::default(),
        }));
        let listener = queues.clone();
        queues.spawn(async move { wait::listen(&listener).await });
        queues
    }

    /// A new job id.
    #[must_use]
    pub fn new_id(&self) -> JobId {
        JobId::random(locked(&self.0.rng).u128(..))
    }

    /// A job with nothing particular about it.
    #[must_use]
    pub fn job(&self, queue: QueueName, payload: Option<Json>) -> NewJob {
        NewJob::new(self.new_id(), queue, payload)
    }

    /// Submits one job.
    pub async fn submit(&self, job: NewJob) -> Result<Handle, Error> {
        let mut handles = self.submit_all(vec![job]).await?;
        handles.pop().ok_or_else(|| Error::from(PortError::Corrupt("the store answered nothing".to_owned())))
    }

    /// Submits many, all or none.
    pub async fn submit_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Handle>, Error> {
        self.open()?;
        if jobs.len() > BATCH_MAX {
            let found = jobs.len();
            return Err(Error::Invalid(format!("{found} jobs at once; at most {BATCH_MAX}: submit them in parts")));
        }
        // Before they are stored: whatever becomes of them is heard.
        let seats: Vec<_> = jobs.iter().map(|job| Seat::take(self, job.id)).collect();
        let group = [jobs];
        let mut tries = 0;
        let answer = loop {
            match self.store(&group).await {
                // The ids are ours: a repeat finds what the first one may have stored.
                Err(PortError::Unavailable(_)) if tries < 2 => tries += 1,
                answer => break answer?,
            }
        };
        let submitted = answer.into_iter().next().ok_or_else(|| PortError::Corrupt("no answer".to_owned()))??;
        let handles = submitted.into_iter().zip(seats).map(|(submitted, seat)| match submitted.existing {
            false => {
                seat.stored();
                Handle::new(self.clone(), submitted.id, seat, false)
            }
            // It may have ended long ago: the first wait looks.
            true => self.handle(submitted.id),
        });
        Ok(handles.collect())
    }

    /// Submits groups, each all or none, for whoever does not wait.
    pub async fn submit_groups(&self, groups: &[Vec<NewJob>]) -> Result<Vec<Result<Vec<Submitted>, Refusal>>, Error> {
        self.open()?;
        Ok(self.store(groups).await?)
    }

    /// Submits, and lets workers of this process know: where calls are taken in order as soon as it is on its way, so that
    /// what they ask for goes out with it.
    async fn store(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        let tell = || self.0.running.submitted(groups.iter().flatten().map(|job| &job.queue));
        let mut call = self.0.port.submit(groups);
        if self.0.port.in_order() {
            let at_once = call.as_mut().now_or_never();
            tell();
            return match at_once {
                Some(answer) => answer,
                None => call.await,
            };
        }
        let answer = call.await?;
        tell();
        Ok(answer)
    }

    /// A handle to a job that somebody submitted.
    #[must_use]
    pub fn handle(&self, job: JobId) -> Handle {
        Handle::new(self.clone(), job, Seat::take(self, job), true)
    }

    /// A job as it is stored now.
    pub async fn get(&self, job: JobId) -> Result<Job, Error> {
        let found = self.0.port.load(&[job]).await?.pop().flatten();
        found.ok_or_else(|| Refusal::NotFound(format!("job {job}")).into())
    }

    /// Jobs that were read from the store for those who wait, so far.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.0.waiting.reads.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// A page of jobs.
    pub async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, Error> {
        Ok(self.0.port.list(filter, after, limit.clamp(1, PAGE_MAX)).await?)
    }

    /// A page of queues.
    pub async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, Error> {
        Ok(self.0.port.queues(after, limit.clamp(1, PAGE_MAX)).await?)
    }

    /// Whether a worker asked for jobs of this queue lately.
    pub(crate) async fn worker_there(&self, queue: &QueueName) -> Result<bool, Error> {
        let mut after = None;
        loop {
            let page = self.queues(after.as_ref(), PAGE_MAX).await?;
            if let Some(view) = page.items.iter().find(|view| view.queue == *queue) {
                return Ok(view.worker_until.is_some());
            }
            // They come by name.
            let past = page.items.last().is_some_and(|last| last.queue > *queue);
            after = page.next.filter(|_| !past);
            if after.is_none() {
                return Ok(false);
            }
        }
    }

    /// Cancels a job: one that waits is CANCELLED, one that runs is asked to end.
    pub async fn cancel(&self, job: JobId, caller: &Caller) -> Result<Asked, Error> {
        self.ask_one(job, JobAsk::Cancel, caller).await
    }

    /// Puts a dead job back to work.
    pub async fn requeue(&self, job: JobId, caller: &Caller) -> Result<Asked, Error> {
        self.ask_one(job, JobAsk::Requeue, caller).await
    }

    async fn ask_one(&self, job: JobId, ask: JobAsk, caller: &Caller) -> Result<Asked, Error> {
        let mut answers = self.ask(&[job], ask, caller).await?;
        let answer = answers.pop().ok_or_else(|| PortError::Corrupt("the store answered nothing".to_owned()))?;
        Ok(answer?)
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, caller: &Caller) -> Result<Vec<Result<Asked, Refusal>>, Error> {
        self.open()?;
        let asker = Asker { by: caller.by.clone(), reason: caller.reason.clone(), at: self.now() };
        let answers = self.0.port.ask(jobs, ask, &asker).await?;
        let mut again = Vec::new();
        for (job, answer) in jobs.iter().zip(&answers) {
            match answer {
                Ok(Asked::Requested) => self.0.running.cancel(*job),
                Ok(Asked::Requeued) => {
                    self.0.waiting.again(*job);
                    again.push(*job);
                }
                _ => {}
            }
        }
        // It may have ended again before this answer came, and that was forgotten just now. If the store is away, whoever
        // listens for ends looks at everything when it is back.
        drop(wait::read(self, &again).await);
        Ok(answers)
    }

    /// Cancels or requeues what fits and can be, a page at a time; a dry run only counts.
    pub async fn ask_all(
        &self,
        filter: &JobFilter,
        ask: JobAsk,
        after: Option<&Cursor>,
        caller: &Caller,
    ) -> Result<Bulk, Error> {
        let Some(filter) = narrowed(filter, ask) else { return Ok(Bulk::default()) };
        let page = self.list(&filter, after, PAGE_MAX).await?;
        let jobs: Vec<JobId> = page.items.iter().map(|job| job.id).collect();
        let mut bulk = Bulk { next: page.next, ..Bulk::default() };
        let taken = |answer: &Result<Asked, Refusal>| matches!(answer, Ok(asked) if !matches!(asked, Asked::Ended(_)));
        bulk.changed = match caller.dry_run || jobs.is_empty() {
            true => count(jobs.len()),
            false => count(self.ask(&jobs, ask, caller).await?.iter().filter(|answer| taken(answer)).count()),
        };
        bulk.left = count(jobs.len()) - bulk.changed;
        Ok(bulk)
    }

    /// Sets limits and holds.
    pub async fn set_rules(&self, rules: &[Rule]) -> Result<(), Error> {
        self.open()?;
        Ok(self.0.port.set_rules(rules).await?)
    }

    /// The rules of these scopes.
    pub async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, Error> {
        Ok(self.0.port.rules(scopes).await?)
    }

    /// One visit of the janitor: jobs that nobody will answer for any more end, and those whose time is over by the
    /// store's clock are forgotten; bounded. Answers how many.
    pub async fn tidy(&self, now: Ms) -> Result<u32, Error> {
        let swept = self.0.port.sweep(PAGE_MAX).await?;
        let before = now.minus(self.0.options.retention_ms);
        Ok(swept + self.0.port.purge(before, PAGE_MAX).await?)
    }

    /// Workers stop claiming, hand back what they have not begun, and let the rest end within the time that is set.
    pub async fn stop(&self) {
        self.0.stopping.modify(|stopping| !std::mem::replace(stopping, true));
        let drain = std::time::Duration::from_millis(self.0.options.drain_ms);
        // What is not over by then is handed back by its worker, which takes a moment too.
        drop(tokio::time::timeout(drain + HAND_BACK, self.0.running.workers_gone()).await);
        self.kill();
    }

    /// Ends at once, as a crash would: nothing is handed back.
    pub fn kill(&self) {
        self.0.stopping.modify(|stopping| !std::mem::replace(stopping, true));
        drop(std::mem::take(&mut *locked(&self.0.tasks)));
        self.0.over.modify(|over| !std::mem::replace(over, true));
    }

    fn open(&self) -> Result<(), Error> {
        match self.0.stopping.get() {
            true => Err(Error::Stopping),
            false => Ok(()),
        }
    }

    fn now(&self) -> Ms {
        self.0.clock.now()
    }

    fn spread(&self) -> u16 {
        locked(&self.0.rng).u16(0..1_000)
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = locked(&self.0.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }
}

/// What of a filter the asked thing can be done to; `None`: nothing.
fn narrowed(filter: &JobFilter, ask: JobAsk) -> Option<JobFilter> {
    let can: &[JobStatus] = match ask {
        JobAsk::Cancel => &[JobStatus::Pending, JobStatus::Running],
        JobAsk::Requeue => &[JobStatus::Failed],
    };
    let fits = |status: &JobStatus| filter.statuses.is_empty() || filter.statuses.contains(status);
    let statuses: Vec<_> = can.iter().copied().filter(fits).collect();
    (!statuses.is_empty()).then(|| JobFilter { statuses, ..filter.clone() })
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
