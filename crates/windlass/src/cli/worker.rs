//! `windlass worker`: a program is run for every job of a queue. This file is the way to the server: claims, heartbeats,
//! answers, and the end. What one run of the program is, is in `run.rs`.

mod run;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use windlass_core::id::{JobId, QueueName, WorkerId};
use windlass_core::time::duration::write_ms;

use super::note;
use super::remote::{Remote, span};
use crate::client::{Claim, Client, Failed, Finished, Held, view};
use run::{Program, Ran};

/// How long one claim waits for something to do. A stop waits for a claim that is on its way, so it is short.
const WAIT: Duration = Duration::from_secs(5);
/// Between two tries while the server does not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// Jobs of one claim, at most.
const CLAIM_MAX: usize = 100;

#[derive(Args)]
pub(crate) struct Worker {
    /// The queue; may be given several times, the first is asked first.
    #[arg(long, value_name = "QUEUE", required = true)]
    queue: Vec<QueueName>,
    /// Jobs at once.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// How long a job stays this worker's without a sign of life; three are given in that time.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    lease: Duration,
    /// How long a stop (SIGTERM) waits for programs to end; what has not ended goes back to its queue.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = span)]
    drain: Duration,
    /// This worker's name; a new one unless given.
    #[arg(long, value_name = "NAME")]
    name: Option<WorkerId>,
    /// The program and its arguments. It gets the payload on stdin and prints its result, as JSON, to stdout; another
    /// exit code than 0 is a failure, and the last line of stderr says why. WINDLASS_JOB, WINDLASS_QUEUE, WINDLASS_TENANT,
    /// WINDLASS_ATTEMPT, WINDLASS_FENCE and WINDLASS_IDEMPOTENCY_KEY say what it works on.
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// What runs, and what is to be said of it.
struct Yard {
    client: Client,
    worker: WorkerId,
    queues: Vec<QueueName>,
    lease: Duration,
    program: Program,
    /// By job: its fence, and how its program is told to end.
    running: Mutex<HashMap<JobId, (u64, watch::Sender<bool>)>>,
    room: Arc<Semaphore>,
    idle: Notify,
}

pub(super) async fn run(remote: &Remote, args: Worker) -> anyhow::Result<ExitCode> {
    let name = || format!("w-{}", uuid::Uuid::new_v4().simple()).parse();
    let worker = args.name.map_or_else(name, Ok)?;
    let yard = Arc::new(Yard {
        client: remote.client.clone(),
        worker,
        queues: args.queue,
        lease: args.lease,
        program: Program::new(args.program)?,
        running: Mutex::default(),
        room: Arc::new(Semaphore::new(args.concurrency as usize)),
        idle: Notify::new(),
    });
    let queues: Vec<_> = yard.queues.iter().map(ToString::to_string).collect();
    note(&format!("worker {} on {} for {}", yard.worker, yard.client.server(), queues.join(", ")));
    let (say, said) = mpsc::unbounded_channel();
    let (stop, stopping) = watch::channel(false);
    let saying = tokio::spawn(tell(Arc::clone(&yard), said));
    let claiming = tokio::spawn(claim(Arc::clone(&yard), say, stopping));
    signal().await?;
    note(&format!(
        "stopping: no more jobs are claimed; programs have {} to end",
        write_ms(args.drain.as_millis() as u64)
    ));
    stop.send_replace(true);
    let end = tokio::time::Instant::now() + args.drain;
    drop(tokio::time::timeout(WAIT + PAUSE, claiming).await);
    tokio::select! {
        () = yard.all_ended(end) => {}
        again = signal() => again?,
    }
    let cut = yard.end_all();
    // The channel closes when the last run has been said; each hands its job back as it is cut off.
    drop(tokio::time::timeout(Duration::from_secs(10), saying).await);
    note(&match cut {
        0 => "stopped; every program ended".to_owned(),
        n => format!("stopped; {n} jobs went back to their queue"),
    });
    Ok(ExitCode::SUCCESS)
}

async fn signal() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    Ok(())
}

/// Claims what there is room for, until it is told to stop. What comes after that goes back unworked.
async fn claim(yard: Arc<Yard>, say: mpsc::UnboundedSender<Said>, mut stopping: watch::Receiver<bool>) {
    let mut away = false;
    loop {
        let room = tokio::select! { biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            room = Arc::clone(&yard.room).acquire_owned() => room,
        };
        let Ok(first) = room else { return };
        let mut places = vec![first];
        while places.len() < CLAIM_MAX
            && let Ok(place) = Arc::clone(&yard.room).try_acquire_owned()
        {
            places.push(place);
        }
        let claim = Claim { max: places.len() as u32, wait: Some(format!("{}ms", WAIT.as_millis())), ..yard.turn() };
        match yard.client.claim(&claim, WAIT).await {
            Ok(claimed) => {
                if std::mem::take(&mut away) {
                    note("the server answers again");
                }
                for job in claimed.claimed {
                    let held = Held { job: job.id, fence: job.fence };
                    if *stopping.borrow() {
                        drop(say.send(Said::Release(held)));
                    } else if let Some(place) = places.pop() {
                        tokio::spawn(work(Arc::clone(&yard), job, say.clone(), place));
                    }
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut away, true) {
                    note(&format!("{error}; trying again"));
                }
                drop(tokio::time::timeout(PAUSE, stopping.wait_for(|stop| *stop)).await);
            }
        }
    }
}

/// What is to be said of a job.
enum Said {
    Finished(Finished),
    Failed(Failed),
    Release(Held),
}

async fn work(
    yard: Arc<Yard>,
    job: view::Job,
    say: mpsc::UnboundedSender<Said>,
    place: tokio::sync::OwnedSemaphorePermit,
) {
    let (end, ended) = watch::channel(false);
    let (id, fence) = (job.id, job.fence);
    yard.running().insert(id, (fence, end));
    let ran = yard.program.run(&job, ended).await;
    let said = match ran {
        Ran::Done(result) => Some(Said::Finished(Finished { job: id, fence, result })),
        Ran::Failed { error, retry } => Some(Said::Failed(Failed { job: id, fence, error, retry: Some(retry) })),
        Ran::CutOff => Some(Said::Release(Held { job: id, fence })),
    };
    // One that was taken away is nobody's to speak of.
    if yard.running().remove(&id).is_some_and(|(mine, _)| mine == fence)
        && let Some(said) = said
    {
        drop(say.send(said));
    }
    drop(place);
    yard.idle.notify_waiters();
}

/// Says what ended as soon as it does, and what goes on three times in a lease.
async fn tell(yard: Arc<Yard>, mut said: mpsc::UnboundedReceiver<Said>) {
    let mut beat = tokio::time::interval(yard.lease / 3);
    let mut left: Vec<Said> = Vec::new();
    loop {
        let closed = tokio::select! { biased;
            more = said.recv() => match more {
                Some(more) => { left.push(more); false }
                None => true,
            },
            _ = beat.tick() => false,
        };
        while let Ok(more) = said.try_recv() {
            left.push(more);
        }
        let mut turn = yard.turn();
        for one in &left {
            match one {
                Said::Finished(finished) => turn.complete.push(finished.clone()),
                Said::Failed(failed) => turn.fail.push(failed.clone()),
                Said::Release(held) => turn.release.push(*held),
            }
        }
        turn.heartbeat = yard.running().iter().map(|(job, (fence, _))| Held { job: *job, fence: *fence }).collect();
        if !left.is_empty() || !turn.heartbeat.is_empty() {
            match yard.client.claim(&turn, Duration::ZERO).await {
                Ok(answer) => {
                    left.clear();
                    yard.heed(&answer);
                }
                // Said again with the next beat; a lease that ran out meanwhile is refused then.
                Err(error) => note(&format!("{error}; trying again")),
            }
        }
        if closed {
            return;
        }
    }
}

impl Yard {
    fn turn(&self) -> Claim {
        Claim {
            queues: self.queues.clone(),
            worker: self.worker.clone(),
            max: 0,
            lease_ms: Some(self.lease.as_millis() as u64),
            wait: None,
            complete: Vec::new(),
            fail: Vec::new(),
            release: Vec::new(),
            heartbeat: Vec::new(),
        }
    }

    /// What the server says of what was said.
    fn heed(&self, answer: &crate::client::Claimed) {
        for refused in answer.answers.iter().filter(|answer| !answer.ok) {
            let why = refused.detail.as_deref().or(refused.code.as_deref()).unwrap_or_default();
            note(&format!("job {} is not this worker's any more: {why}", refused.job));
            // Somebody else has it: the program here is ended, and nothing more is said of it.
            if let Some((_, end)) = self.running().remove(&refused.job) {
                end.send_replace(true);
            }
        }
        for job in &answer.cancel_requested {
            if let Some((_, end)) = self.running().get(job) {
                note(&format!("job {job}: its end was asked for"));
                self.program.cancelled(*job);
                end.send_replace(true);
            }
        }
    }

    async fn all_ended(&self, end: tokio::time::Instant) {
        loop {
            let ended = self.idle.notified();
            if self.running().is_empty() || tokio::time::timeout_at(end, ended).await.is_err() {
                return;
            }
        }
    }

    /// Ends what still runs; answers how many.
    fn end_all(&self) -> usize {
        let running = self.running();
        for (_, end) in running.values() {
            end.send_replace(true);
        }
        running.len()
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, (u64, watch::Sender<bool>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
