//! Workers in Rust: a handler for each queue and how many of its jobs run at once. One loop speaks for all of them: what
//! ended, what goes on and what there is room for go to the store in one call.

mod run;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName, TenantId, WorkerId};
use windlass_core::job::error::CANCELLED;
use windlass_core::job::rules::Outcome;
use windlass_core::job::{Job, JobError};
use windlass_core::json::Json;
use windlass_core::port::job::{CLAIM_MAX, Delivery, QUEUES_MAX, Turn, Turned};
use windlass_core::port::{Mark, PortError};

use super::Queues;
use crate::error::Error;
use crate::watched::Watched;

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
    /// Jobs that are claimed ahead and wait here; they go back when the worker stops.
    pub prefetch: u32,
    /// What does them.
    pub handler: Arc<dyn JobHandler>,
}

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

/// Workers of this process, and what they must hear at once.
pub(super) struct Here {
    alive: Watched<usize>,
    cancels: broadcast::Sender<JobId>,
}

impl Default for Here {
    fn default() -> Self {
        Here { alive: Watched::default(), cancels: broadcast::Sender::new(1_024) }
    }
}

impl Here {
    /// The job's end was asked for: if a worker of this process runs it, it need not wait for its next heartbeat.
    pub(super) fn cancel(&self, job: JobId) {
        // Nobody hears it where there is no worker.
        drop(self.cancels.send(job));
    }

    pub(super) async fn workers_gone(&self) {
        self.alive.until(|alive| *alive == 0).await;
    }
}

impl Queues {
    /// Begins to work on queues.
    pub fn work(&self, lanes: Vec<Lane>) -> Result<Worker, Error> {
        self.open()?;
        let lanes: Vec<Lane> =
            lanes.into_iter().map(|lane| Lane { concurrency: lane.concurrency.max(1), ..lane }).collect();
        if lanes.is_empty() || lanes.len() > QUEUES_MAX {
            return Err(Error::Invalid(format!("a worker works on 1 to {QUEUES_MAX} queues, not on {}", lanes.len())));
        }
        let text = format!("w-{:032x}", crate::shared::locked(&self.0.rng).u128(..));
        let id: WorkerId = text.parse().map_err(|_| Error::Invalid(format!("{text} is no worker id")))?;
        let (stopping, gone) = (Arc::new(Watched::default()), Arc::new(Watched::default()));
        let (ended, endings) = mpsc::unbounded_channel();
        let work = Loop {
            queues: self.clone(),
            id: id.clone(),
            lanes: lanes.into_iter().map(|lane| (lane, VecDeque::new(), 0)).collect(),
            running: HashMap::new(),
            settle: Vec::new(),
            ended,
            endings,
            cancels: self.0.running.cancels.subscribe(),
            stopping: Arc::clone(&stopping),
            look: true,
            next: None,
            beat_at: Instant::now() + beat_every(self.0.options.lease_ms),
        };
        self.0.running.alive.modify(|alive| {
            *alive += 1;
            true
        });
        let (queues, end) = (self.clone(), Arc::clone(&gone));
        self.spawn(async move {
            work.run().await;
            end.modify(|gone| !std::mem::replace(gone, true));
            queues.0.running.alive.modify(|alive| {
                *alive -= 1;
                true
            });
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
    lane: usize,
    task: tokio::task::AbortHandle,
}

impl Drop for Busy {
    /// Whoever forgets a job ends its handler; one that has ended does not mind.
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The loop of one worker.
struct Loop {
    queues: Queues,
    id: WorkerId,
    /// Each with what waits here and how many run.
    lanes: Vec<(Lane, VecDeque<Job>, u32)>,
    running: HashMap<JobId, Busy>,
    /// What has ended and is not told yet.
    settle: Vec<(Delivery, Outcome)>,
    ended: mpsc::UnboundedSender<Ending>,
    endings: mpsc::UnboundedReceiver<Ending>,
    cancels: broadcast::Receiver<JobId>,
    stopping: Arc<Watched<bool>>,
    /// There may be work in the store.
    look: bool,
    /// When there may be some again by itself.
    next: Option<Instant>,
    beat_at: Instant,
}

impl Loop {
    async fn run(mut self) {
        let news = Arc::new(Watched::new(0u64));
        let watcher = tokio::spawn(watch(self.queues.clone(), Arc::clone(&news)));
        let mut seen = 0;
        while !self.is_stopping() {
            self.begin();
            self.look |= news.get() != seen;
            let beats = Instant::now() >= self.beat_at;
            let want = if self.look { self.room() } else { Vec::new() };
            if self.settle.is_empty() && want.is_empty() && !beats {
                self.rest(&news, seen).await;
                continue;
            }
            seen = news.get();
            self.turn(want, beats).await;
        }
        watcher.abort();
        self.drain().await;
    }

    fn is_stopping(&self) -> bool {
        self.stopping.get() || self.queues.0.stopping.get()
    }

    /// Takes in what has ended, and begins what waits here.
    fn begin(&mut self) {
        while let Ok(ending) = self.endings.try_recv() {
            self.ending(ending);
        }
        for lane in 0..self.lanes.len() {
            while self.lanes[lane].2 < self.lanes[lane].0.concurrency
                && let Some(job) = self.lanes[lane].1.pop_front()
            {
                self.start(lane, job);
            }
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

    fn forget(&mut self, job: JobId) {
        if let Some(busy) = self.running.remove(&job) {
            self.lanes[busy.lane].2 -= 1;
        }
    }

    fn start(&mut self, lane: usize, job: Job) {
        let delivery = Delivery { job: job.id, fence: job.fence };
        let work = run::once(Arc::clone(&self.lanes[lane].0.handler), job, self.queues.spread());
        let ended = self.ended.clone();
        let task = tokio::spawn(async move {
            let outcome = work.await;
            // The loop is gone: so is the worker.
            drop(ended.send(Ending { delivery, outcome }));
        });
        self.lanes[lane].2 += 1;
        self.running.insert(delivery.job, Busy { fence: delivery.fence, lane, task: task.abort_handle() });
    }

    /// How many more jobs of each queue fit.
    fn room(&self) -> Vec<(QueueName, u32)> {
        let mut left = CLAIM_MAX;
        let room = self.lanes.iter().map(|(lane, waiting, running)| {
            let taken = running + u32::try_from(waiting.len()).unwrap_or(u32::MAX);
            let free = (lane.concurrency + lane.prefetch).saturating_sub(taken).min(left);
            left -= free;
            (lane.queue.clone(), free)
        });
        room.filter(|(_, free)| *free > 0).collect()
    }

    /// Says everything there is to say.
    async fn turn(&mut self, want: Vec<(QueueName, u32)>, beats: bool) {
        let lease_ms = self.queues.0.options.lease_ms;
        let wanted: u32 = want.iter().map(|(_, n)| n).sum();
        let waiting = self.lanes.iter().flat_map(|(_, waiting, _)| waiting.iter());
        let beat = match beats {
            true => {
                let here = self.running.iter().map(|(job, busy)| Delivery { job: *job, fence: busy.fence });
                let mut beat: Vec<_> =
                    here.chain(waiting.map(|job| Delivery { job: job.id, fence: job.fence })).collect();
                // The same order in every run of a simulation.
                beat.sort_by_key(|delivery| delivery.fence);
                beat
            }
            false => Vec::new(),
        };
        let turn = Turn { worker: self.id.clone(), lease_ms, settle: std::mem::take(&mut self.settle), beat, want };
        let turns = [turn];
        let answer = self.queues.0.port.turn(&turns).await;
        let [turn] = turns;
        match answer {
            Ok(mut answers) if answers.len() == 1 => {
                if beats {
                    self.beat_at = Instant::now() + beat_every(lease_ms);
                }
                if let Some(turned) = answers.pop() {
                    self.turned(&turn, turned, wanted);
                }
            }
            Ok(_) => self.away(turn, &PortError::Corrupt("the store answered another number of turns".into())).await,
            Err(error) => self.away(turn, &error).await,
        }
    }

    /// No answer: what ended is told again, which changes nothing if it was heard. What may have been claimed is
    /// delivered again when its lease is over.
    async fn away(&mut self, turn: Turn, error: &PortError) {
        tracing::warn!(worker = %self.id, %error, "the store of jobs does not answer");
        self.settle = turn.settle;
        self.look = true;
        tokio::time::sleep(Duration::from_millis(self.queues.0.options.poll_ms)).await;
    }

    fn turned(&mut self, turn: &Turn, turned: Turned, wanted: u32) {
        for ((delivery, _), answer) in turn.settle.iter().zip(&turned.settled) {
            if let Err(why) = answer {
                tracing::warn!(job = %delivery.job, %why, "the answer came too late and was not taken");
            }
        }
        for (delivery, answer) in turn.beat.iter().zip(turned.beaten) {
            match answer {
                Ok(beaten) if beaten.cancel => self.cancel(delivery.job),
                Ok(_) => {}
                Err(why) => {
                    tracing::warn!(job = %delivery.job, %why, "the job is not this worker's any more");
                    self.lost(*delivery);
                }
            }
        }
        if wanted > 0 {
            self.look = u32::try_from(turned.claimed.len()).is_ok_and(|claimed| claimed >= wanted);
            self.next = turned.next.map(|next| Instant::now() + Duration::from_millis(next.since(turned.at).max(1)));
        }
        for job in turned.claimed {
            let lane = self.lanes.iter_mut().find(|(lane, ..)| lane.queue == job.queue);
            if let Some((_, waiting, _)) = lane {
                waiting.push_back(job);
            }
        }
    }

    /// Its end was asked for, and dropping its handler is how a handler in Rust ends.
    fn cancel(&mut self, job: JobId) {
        let Some(busy) = self.running.get(&job) else { return };
        let delivery = Delivery { job, fence: busy.fence };
        self.forget(job);
        let error = Box::new(JobError::of(CANCELLED, "its end was asked for while it ran"));
        self.settle.push((delivery, Outcome::Failed { error, retry: false, spread: 0 }));
    }

    fn lost(&mut self, delivery: Delivery) {
        if self.running.get(&delivery.job).is_some_and(|busy| busy.fence == delivery.fence) {
            self.forget(delivery.job);
        }
        for (_, waiting, _) in &mut self.lanes {
            waiting.retain(|job| job.id != delivery.job || job.fence != delivery.fence);
        }
    }

    /// Until there is something to do.
    async fn rest(&mut self, news: &Watched<u64>, seen: u64) {
        let scan = Instant::now() + Duration::from_millis(self.queues.0.options.scan_ms);
        let until = self.beat_at.min(scan).min(self.next.unwrap_or(scan));
        let stopping = Arc::clone(&self.stopping);
        tokio::select! { biased;
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
            () = self.queues.0.stopping.until(|stopping| *stopping) => {}
            () = news.until(|now| *now != seen) => self.look = true,
            () = tokio::time::sleep_until(until) => {
                self.look = true;
                self.next = None;
            }
        }
    }

    /// The end: what was not begun goes back at once, what runs has its time, what is not over by then goes back too.
    async fn drain(mut self) {
        let end = Instant::now() + Duration::from_millis(self.queues.0.options.drain_ms);
        let unbegun: Vec<Job> = self.lanes.iter_mut().flat_map(|(_, waiting, _)| waiting.drain(..)).collect();
        let back = |job: JobId, fence: Fence| (Delivery { job, fence }, Outcome::Released);
        self.settle.extend(unbegun.into_iter().map(|job| back(job.id, job.fence)));
        loop {
            while let Ok(ending) = self.endings.try_recv() {
                self.ending(ending);
            }
            let over = Instant::now() >= end;
            if over {
                let left: Vec<_> = self.running.iter().map(|(job, busy)| back(*job, busy.fence)).collect();
                self.running.clear();
                self.settle.extend(left);
            }
            let beats = Instant::now() >= self.beat_at;
            if !self.settle.is_empty() || beats {
                self.turn(Vec::new(), beats).await;
            }
            if self.settle.is_empty() && self.running.is_empty() || over {
                return;
            }
            tokio::select! { biased;
                ending = self.endings.recv() => {
                    if let Some(ending) = ending {
                        self.ending(ending);
                    }
                }
                () = tokio::time::sleep_until(end.min(self.beat_at)) => {}
            }
        }
    }
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
