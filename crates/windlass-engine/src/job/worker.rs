//! Workers in Rust: a handler for each queue and how many of its jobs run at once. One loop speaks for all of them: what
//! ended, what goes on and what there is room for go to the store in one call. While the store is at work on one, a second
//! may be on its way, so that neither waits for the other.

mod drain;
mod here;
mod lane;
mod run;
mod turn;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName, TenantId, WorkerId};
use windlass_core::job::error::{CANCELLED, TIMEOUT};
use windlass_core::job::rules::Outcome;
use windlass_core::job::{Job, JobError};
use windlass_core::json::Json;
use windlass_core::port::Mark;
use windlass_core::port::job::{CLAIM_MAX, Delivery};

use super::Queues;
use crate::error::Error;
use crate::watched::Watched;
use here::Gone;
pub(super) use here::Here;
use lane::Place;
use turn::{Answer, Sent};

/// What a handler is told.
#[derive(Debug, Clone)]
pub struct Told {
    /// The job: the same when it is delivered again, so it serves as an idempotency key.
    pub job: JobId,
    /// Where it waited.
    pub queue: QueueName,
    /// What for.
    pub payload: Option<Json>,
    /// For whom.
    pub tenant: Option<TenantId>,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The fence of this delivery: a target that remembers the largest it has seen can refuse a late one.
    pub fence: Fence,
}

/// Why a handler did not do its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What happened.
    pub error: JobError,
    /// Whether another attempt makes sense.
    pub again: bool,
}

impl<E: std::error::Error> From<E> for Failed {
    /// Any error with its causes; another attempt may help.
    fn from(error: E) -> Failed {
        Failed { error: run::told(&error), again: true }
    }
}

/// A Rust function that works on jobs.
#[async_trait]
pub trait JobHandler: Send + Sync {
    /// Does one. Dropped when its time is over, its end was asked for, or the job is somebody else's.
    async fn run(&self, told: Told) -> Result<Json, Failed>;
}

#[async_trait]
impl<F, R> JobHandler for F
where
    F: Fn(Told) -> R + Send + Sync,
    R: Future<Output = Result<Json, Failed>> + Send,
{
    async fn run(&self, told: Told) -> Result<Json, Failed> {
        self(told).await
    }
}

/// A queue to work on.
pub struct Lane {
    /// Which.
    pub queue: QueueName,
    /// Jobs that run at once.
    pub concurrency: u32,
    /// Jobs that are claimed ahead and wait here, at most; they go back when the worker stops. As many are as handlers
    /// get through while the store is asked for more: of work that takes long, none. Less where a worker has so many
    /// queues that they share what fits into one call.
    pub prefetch: u32,
    /// What does them.
    pub handler: Arc<dyn JobHandler>,
}

impl Lane {
    /// With as much claimed ahead as keeps handlers busy that take no longer than the store does.
    #[must_use]
    pub fn new(queue: QueueName, concurrency: u32, handler: Arc<dyn JobHandler>) -> Lane {
        let prefetch = concurrency.saturating_mul(PREFETCH).clamp(PREFETCH_MIN, CLAIM_MAX);
        Lane { queue, concurrency, prefetch, handler }
    }
}

/// Jobs that are claimed ahead for each that runs, at most, unless something else is said.
const PREFETCH: u32 = 4;
/// Jobs that may be claimed ahead where few run at once.
const PREFETCH_MIN: u32 = 400;

/// A running worker. It ends with [`Worker::stop`] or with its [`Queues`].
pub struct Worker {
    id: WorkerId,
    stopping: Arc<Watched<bool>>,
    gone: Arc<Watched<bool>>,
}

impl Worker {
    /// Its identity: a new one at every start.
    #[must_use]
    pub fn id(&self) -> &WorkerId {
        &self.id
    }

    /// Claims nothing more, hands back what it has not begun, and lets the rest end within the time that is set.
    pub async fn stop(&self) {
        self.stopping.modify(|stopping| !std::mem::replace(stopping, true));
        self.gone.until(|gone| *gone).await;
    }
}

impl Queues {
    /// Begins to work on queues.
    pub fn work(&self, lanes: Vec<Lane>) -> Result<Worker, Error> {
        self.open()?;
        let places = lane::places(lanes)?;
        let names = places.iter().map(|place| place.lane.queue.clone()).collect();
        let text = format!("w-{:032x}", crate::shared::locked(&self.0.rng).u128(..));
        let id: WorkerId = text.parse().map_err(|_| Error::Invalid(format!("{text} is no worker id")))?;
        let (stopping, gone) = (Arc::new(Watched::default()), Arc::new(Watched::default()));
        let (ended, endings) = mpsc::unbounded_channel();
        let work = Loop {
            queues: self.clone(),
            id: id.clone(),
            places,
            running: HashMap::new(),
            settle: Vec::new(),
            calls: JoinSet::new(),
            sent: HashMap::new(),
            looks: 0,
            waited_for: HashMap::new(),
            ended,
            endings,
            cancels: self.0.running.hear(),
            stopping: Arc::clone(&stopping),
            scan_at: Instant::now(),
            next: None,
            beat_at: Instant::now() + beat_every(self.0.options.lease_ms),
            echo_until: Instant::now(),
            took: Duration::ZERO,
        };
        let end = Gone::later(self, names, &gone);
        self.spawn(async move {
            work.run().await;
            drop(end);
        });
        Ok(Worker { id, stopping, gone })
    }
}

fn beat_every(lease_ms: u64) -> Duration {
    Duration::from_millis((lease_ms / 3).max(1))
}

/// How a handler's run ended.
struct Ending {
    delivery: Delivery,
    outcome: Outcome,
}

/// A job that runs here.
struct Busy {
    fence: Fence,
    place: usize,
    /// Whoever forgets a job ends its handler; one that has ended does not mind.
    _task: Task,
}

/// A task that ends with this.
struct Task(tokio::task::AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The loop of one worker.
struct Loop {
    queues: Queues,
    id: WorkerId,
    places: Vec<Place>,
    running: HashMap<JobId, Busy>,
    /// What has ended and is not told yet.
    settle: Vec<(Delivery, Outcome)>,
    /// Turns that are on their way. Whoever drops the worker drops them.
    calls: JoinSet<Answer>,
    /// What they say.
    sent: HashMap<Id, Sent>,
    /// How often there was a reason to look in the store.
    looks: u64,
    /// As they were claimed: jobs that somebody in this process waits for.
    waited_for: HashMap<JobId, Job>,
    ended: mpsc::UnboundedSender<Ending>,
    endings: mpsc::UnboundedReceiver<Ending>,
    cancels: broadcast::Receiver<JobId>,
    stopping: Arc<Watched<bool>>,
    /// When to look in the store whatever was heard.
    scan_at: Instant,
    /// When there may be work again by itself.
    next: Option<Instant>,
    beat_at: Instant,
    /// Until when what the store tells is taken for what was submitted here, and looked for.
    echo_until: Instant,
    /// How long the store took to answer.
    took: Duration,
}

/// Less than this is not long to wait at a worker, nor is what the store takes four times.
const SLOW: Duration = Duration::from_millis(10);

/// How long the store may take to tell of what was submitted here.
const ECHO: Duration = Duration::from_millis(10);

/// What a worker has heard of.
#[derive(Clone, Copy)]
struct Seen {
    /// From the store.
    told: u64,
    /// From this process.
    here: u64,
}

impl Loop {
    async fn run(mut self) {
        let news = Arc::new(Watched::new(0u64));
        let watcher = Task(tokio::spawn(watch(self.queues.clone(), Arc::clone(&news))).abort_handle());
        let mut seen = Seen { told: 0, here: self.queues.0.running.news().get() };
        while !self.is_stopping() {
            self.begin();
            let now = Instant::now();
            let heard = Seen { told: news.get(), here: self.queues.0.running.news().get() };
            if heard.here != seen.here {
                self.echo_until = now + ECHO;
            }
            let told = heard.told != seen.told && now >= self.echo_until;
            let due = now >= self.scan_at || self.next.is_some_and(|next| now >= next);
            if told || heard.here != seen.here || due {
                seen = heard;
                self.look(now);
            }
            let beats = now >= self.beat_at;
            if self.may_speak(beats) {
                self.places.iter_mut().for_each(lane::Place::asks);
                let want = lane::room(&self.places, self.queues.0.port.claims_best(), beats);
                if !self.settle.is_empty() || !want.is_empty() || beats {
                    self.turn(want, beats).await;
                    continue;
                }
            }
            self.rest(&news, seen).await;
        }
        drop(watcher);
        self.all_came().await;
        self.drain().await;
    }

    /// Whether a turn may go. While one is on its way more ends here, and goes with the next; a second one goes with what
    /// ended if hardly anything is left to end. Heartbeats go alone: another turn may end what they speak of.
    fn may_speak(&self, beats: bool) -> bool {
        match self.calls.len() {
            0 => true,
            1 if beats || self.sent.values().any(|sent| sent.beats) => false,
            1 => self.settle.len() > 4 * self.running.len() && self.places.iter().all(|place| place.waiting.is_empty()),
            _ => false,
        }
    }

    /// There may be something in every queue.
    fn look(&mut self, now: Instant) {
        self.places.iter_mut().for_each(|place| place.look = true);
        self.looks += 1;
        self.scan_at = now + Duration::from_millis(self.queues.0.options.scan_ms);
        self.next = None;
    }

    fn is_stopping(&self) -> bool {
        self.stopping.get() || self.queues.0.stopping.get()
    }

    /// Takes in what has ended, and begins what waits here.
    fn begin(&mut self) {
        self.endings();
        for place in 0..self.places.len() {
            while self.places[place].has_slot()
                && let Some((job, since)) = self.places[place].waiting.pop_front()
            {
                let waited = since.elapsed();
                self.places[place].slow |= waited > SLOW.max(self.took * 4);
                // Its time runs since it was claimed. What little is left of it would not be enough; whoever claims it
                // next gives it all of it.
                match job.timeout_ms.is_some_and(|ms| waited * 2 >= Duration::from_millis(ms)) {
                    true => self.settle.push(back(job.id, job.fence)),
                    false => self.start(place, job, waited),
                }
            }
        }
    }

    fn endings(&mut self) {
        while let Ok(ending) = self.endings.try_recv() {
            self.ending(ending);
        }
    }

    fn ending(&mut self, ending: Ending) {
        // What was forgotten meanwhile is somebody else's.
        let ours = self.running.get(&ending.delivery.job).is_some_and(|busy| busy.fence == ending.delivery.fence);
        if ours {
            self.forget(ending.delivery.job);
            self.settle.push((ending.delivery, ending.outcome));
        }
    }

    fn forget(&mut self, job: JobId) -> bool {
        let Some(busy) = self.running.remove(&job) else { return false };
        self.places[busy.place].running -= 1;
        true
    }

    fn start(&mut self, place: usize, job: Job, waited: Duration) {
        let delivery = Delivery { job: job.id, fence: job.fence };
        if self.queues.0.waiting.here(job.id, true) {
            self.waited_for.insert(job.id, job.clone());
        }
        let work = run::once(Arc::clone(&self.places[place].lane.handler), job, waited, self.queues.spread());
        let ended = self.ended.clone();
        let task = tokio::spawn(async move {
            let outcome = work.await;
            // The loop is gone: so is the worker.
            drop(ended.send(Ending { delivery, outcome }));
        });
        self.places[place].running += 1;
        self.running.insert(delivery.job, Busy { fence: delivery.fence, place, _task: Task(task.abort_handle()) });
    }

    /// Everything that is this worker's, in the same order in every run of a simulation.
    fn held(&self) -> Vec<Delivery> {
        let running = self.running.iter().map(|(job, busy)| Delivery { job: *job, fence: busy.fence });
        let waiting = self.places.iter().flat_map(|place| &place.waiting);
        let waiting = waiting.map(|(job, _)| Delivery { job: job.id, fence: job.fence });
        let mut held: Vec<_> = running.chain(waiting).collect();
        held.sort_by_key(|delivery| delivery.fence);
        held
    }

    /// Its end was asked for, and dropping its handler is how a handler in Rust ends.
    fn cancel(&mut self, job: JobId) {
        let running = self.running.get(&job).map(|busy| busy.fence);
        let Some(fence) = running.or_else(|| lane::take(&mut self.places, job, None).map(|job| job.fence)) else {
            return;
        };
        self.forget(job);
        self.fail(Delivery { job, fence }, JobError::of(CANCELLED, "its end was asked for while it ran"), false);
    }

    /// The store says so before the handler's own time is over: it was claimed some time before it began.
    fn timed_out(&mut self, delivery: Delivery, timeout_ms: u64) {
        if lane::take(&mut self.places, delivery.job, Some(delivery.fence)).is_some() {
            self.settle.push(back(delivery.job, delivery.fence));
        } else if self.runs(delivery) {
            self.forget(delivery.job);
            self.fail(delivery, JobError::of(TIMEOUT, format!("took longer than {timeout_ms} ms")), true);
        }
    }

    fn fail(&mut self, delivery: Delivery, error: JobError, retry: bool) {
        let spread = self.queues.spread();
        self.settle.push((delivery, Outcome::Failed { error: Box::new(error), retry, spread }));
    }

    fn runs(&self, delivery: Delivery) -> bool {
        self.running.get(&delivery.job).is_some_and(|busy| busy.fence == delivery.fence)
    }

    fn lost(&mut self, delivery: Delivery) {
        if self.runs(delivery) {
            self.forget(delivery.job);
            let waited_for = self.no_longer(delivery);
            self.leave(waited_for.map(|job| job.id).into_iter().collect());
        }
        lane::take(&mut self.places, delivery.job, Some(delivery.fence));
    }

    /// A delivery of a job that somebody here waits for, and which is over; `None` if nobody does, or it was delivered again.
    fn no_longer(&mut self, delivery: Delivery) -> Option<Job> {
        let is_it = self.waited_for.get(&delivery.job).is_some_and(|job| job.fence == delivery.fence);
        is_it.then(|| self.waited_for.remove(&delivery.job)).flatten()
    }

    /// Who waits here for these is not told by this worker: what has become of them is read.
    fn leave(&self, mut jobs: Vec<JobId>) {
        jobs.retain(|job| self.queues.0.waiting.here(*job, false));
        if !jobs.is_empty() {
            let queues = self.queues.clone();
            // Without an answer they are looked at again, as everything that is waited for is.
            self.queues.spawn(async move { drop(super::wait::read(&queues, &jobs).await) });
        }
    }

    /// Until there is something to do.
    async fn rest(&mut self, news: &Watched<u64>, seen: Seen) {
        let mut until = self.scan_at.min(self.next.unwrap_or(self.scan_at));
        // Heartbeats go alone: they wait for the answer to whatever is on its way.
        if self.calls.is_empty() {
            until = until.min(self.beat_at);
        }
        let told = news.get() != seen.told;
        if told {
            until = until.min(self.echo_until);
        }
        let stopping = Arc::clone(&self.stopping);
        let queues = self.queues.clone();
        tokio::select! { biased;
            Some(call) = self.calls.join_next_with_id() => self.came(call).await,
            ending = self.endings.recv() => {
                if let Some(ending) = ending {
                    self.ending(ending);
                }
            }
            cancel = self.cancels.recv() => match cancel {
                Ok(job) => self.cancel(job),
                // Too many at once: the next heartbeat tells.
                Err(_) => self.beat_at = Instant::now(),
            },
            () = stopping.until(|stopping| *stopping) => {}
            () = queues.0.stopping.until(|stopping| *stopping) => {}
            () = queues.0.running.news().until(|now| *now != seen.here) => {}
            () = news.until(|now| *now != seen.told), if !told => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

/// It waits again, and nobody counts that it was here.
fn back(job: JobId, fence: Fence) -> (Delivery, Outcome) {
    (Delivery { job, fence }, Outcome::Released)
}

/// Hears of new work.
async fn watch(queues: Queues, news: Arc<Watched<u64>>) {
    let mut mark = Mark::default();
    loop {
        match queues.0.port.changed(mark, queues.0.options.scan_ms).await {
            Ok(now) if now == mark => {}
            Ok(now) => {
                mark = now;
                news.modify(|news| {
                    *news += 1;
                    true
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(queues.0.options.poll_ms)).await,
        }
    }
}
