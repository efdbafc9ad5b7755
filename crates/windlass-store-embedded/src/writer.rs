//! The one writer. Callers hand it work; it runs everything that waits, commits it as one batch
//! with one sync, and only then acknowledges. While it syncs, the next batch gathers by itself:
//! there is no timer. Whoever has the turn writes: a thread of its own, or a caller that is alone.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use windlass_core::port::{Batches, Mark, PortError};

use crate::clock::Clock;
use crate::hot::Hot;
use crate::job::feed::Feed;
use crate::kv::{Kv, KvError, Read, Survives};
use crate::trigger::Low;
use crate::tx::Tx;

/// Work waiting for the writer, at most; further callers wait for room.
const QUEUE_MAX: usize = 4_096;
/// A batch takes no more work once it has this many writes, so that one sync stays short.
const BATCH_WRITES_MAX: usize = 16_384;

/// Without a sync for this long, even a batch that could do without one gets it.
const LIGHT_US_MAX: u64 = 1_000_000;

/// What a caller wants done: run inside the batch, it leaves behind what to do after the commit.
type Work = Box<dyn FnOnce(&mut Tx<'_>) -> Answer + Send>;
/// Sends the caller's answer, given whether the batch was committed.
type Answer = Box<dyn FnOnce(Result<(), PortError>) + Send>;

pub(crate) struct Writer {
    kv: RwLock<Option<Arc<dyn Kv>>>,
    queue: Mutex<Option<mpsc::Sender<Work>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    turn: Turn,
    /// Every caller writes for itself: there is no thread.
    inline: bool,
    /// The last batch was one caller's.
    alone: Arc<AtomicBool>,
    /// Work that was queued and is not written yet.
    queued: Arc<AtomicUsize>,
    stopped: Arc<Mutex<Option<String>>>,
    /// What was written at once.
    pub(crate) batches: Arc<Batches>,
    pub(crate) clock: Clock,
    pub(crate) state_mark: watch::Receiver<u64>,
    pub(crate) lock_mark: watch::Receiver<u64>,
    pub(crate) job_mark: watch::Receiver<u64>,
    pub(crate) ended_mark: watch::Receiver<u64>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) trigger_mark: watch::Receiver<u64>,
    /// Below this no trigger is due.
    pub(crate) due_from: Arc<Low>,
}

/// Whoever has it writes. `None` once the store is closed.
type Turn = Arc<Mutex<Option<Loop>>>;

impl Writer {
    pub(crate) fn start(kv: Arc<dyn Kv>, clock: Clock, seq: u64) -> Writer {
        let (writer, work) = Self::new(kv, clock, seq, false);
        let (turn, queued) = (Arc::clone(&writer.turn), Arc::clone(&writer.queued));
        let thread =
            std::thread::Builder::new().name("windlass-writer".into()).spawn(move || run(&turn, work, &queued));
        match thread {
            Ok(thread) => *lock(&writer.thread) = Some(thread),
            Err(error) => stop(&writer.stopped, &format!("the writer thread does not start: {error}")),
        }
        writer
    }

    /// Without a thread: every call is carried out by whoever makes it. So a whole system can be run in one
    /// thread, in an order that a seed decides, on the same rules.
    pub(crate) fn inline(kv: Arc<dyn Kv>, clock: Clock, seq: u64) -> Writer {
        Self::new(kv, clock, seq, true).0
    }

    fn new(kv: Arc<dyn Kv>, clock: Clock, seq: u64, inline: bool) -> (Writer, mpsc::Receiver<Work>) {
        let (queue, work) = mpsc::channel(QUEUE_MAX);
        // Marks of an earlier run must not look like marks of this one.
        let first = clock.now_us();
        let (state_changed, state_mark) = watch::channel(first);
        let (locks_changed, lock_mark) = watch::channel(first);
        let (jobs_changed, job_mark) = watch::channel(first);
        let feed = Arc::new(Feed::new(first));
        let (triggers_changed, trigger_mark) = watch::channel(first);
        let hot = Hot::default();
        let due_from = Arc::clone(&hot.triggers.due_from);
        let stopped = Arc::new(Mutex::new(None));
        let alone = Arc::new(AtomicBool::new(true));
        let batches = Arc::new(Batches::default());
        let turn = Loop {
            kv: Arc::clone(&kv),
            clock: clock.clone(),
            seq,
            synced_us: 0,
            state_changed,
            locks_changed,
            jobs_changed,
            feed: Arc::clone(&feed),
            triggers_changed,
            stopped: Arc::clone(&stopped),
            alone: Arc::clone(&alone),
            batches: Arc::clone(&batches),
            hot,
        };
        let writer = Writer {
            kv: RwLock::new(Some(kv)),
            queue: Mutex::new(Some(queue)),
            thread: Mutex::default(),
            turn: Arc::new(Mutex::new(Some(turn))),
            inline,
            alone,
            queued: Arc::default(),
            stopped,
            batches,
            clock,
            state_mark,
            lock_mark,
            job_mark,
            ended_mark: feed.watch(),
            feed,
            trigger_mark,
            due_from,
        };
        (writer, work)
    }

    /// Runs `work` in the next batch and answers when it is durable. What is handed over is done
    /// even if the caller goes away.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, PortError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, PortError> + Send + 'static,
    {
        self.write_lightly(move |tx| {
            tx.lasts = true;
            work(tx)
        })
        .await
    }

    /// The same for work whose loss nobody would notice: unless it says otherwise ([`Tx::lasts`]), it is answered
    /// when it survives the end of the process, and survives power loss with the next batch that does.
    pub(crate) async fn write_lightly<T, F>(&self, work: F) -> Result<T, PortError>
    where
        T: Send + 'static,
        F: FnOnce(&mut Tx<'_>) -> Result<T, PortError> + Send + 'static,
    {
        let (send, answer) = oneshot::channel();
        let work: Work = Box::new(move |tx| {
            let result = work(tx);
            // The caller may be gone; its work is done all the same.
            Box::new(move |committed| drop(send.send(committed.and(result))))
        });
        let Some(queue) = lock(&self.queue).clone() else { return Err(self.gone()) };
        let Some(work) = self.lead(work) else { return answer.await.unwrap_or_else(|_| Err(self.gone())) };
        self.queued.fetch_add(1, Ordering::AcqRel);
        if queue.send(work).await.is_ok() {
            if let Ok(answer) = answer.await {
                return answer;
            }
            // Dropped without an answer: the writer is about to end, and to say why.
            queue.closed().await;
        }
        Err(self.gone())
    }

    /// A caller that is alone writes for itself: handing its work to a thread and the answer back costs a
    /// quarter of a sync. It blocks for one sync, which no other caller waits for: whoever comes meanwhile finds
    /// the turn taken and queues, nobody leads before what is queued, and while callers meet in batches nobody
    /// leads at all. Only where other threads carry on with the runtime's work. Answers the work if it is for the
    /// queue.
    fn lead(&self, work: Work) -> Option<Work> {
        let mut turn = match self.inline {
            true => lock(&self.turn),
            false if !self.is_alone() || !has_other_threads() => return Some(work),
            false => match self.turn.try_lock() {
                Ok(turn) => turn,
                Err(_) => return Some(work),
            },
        };
        write(&mut turn, work, None);
        None
    }

    fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed) && self.queued.load(Ordering::Acquire) == 0
    }

    /// Reads what is committed now.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&dyn Read) -> Result<T, PortError>) -> Result<T, PortError> {
        let kv = self.kv.read().unwrap_or_else(PoisonError::into_inner).clone();
        match (kv, self.stopped()) {
            (Some(kv), None) => {
                let view = kv.read();
                look(&*view)
            }
            _ => Err(self.gone()),
        }
    }

    fn gone(&self) -> PortError {
        PortError::Unavailable(self.stopped().unwrap_or_else(|| "the store is closed".into()))
    }

    pub(crate) fn stopped(&self) -> Option<String> {
        lock(&self.stopped).clone()
    }

    pub(crate) fn close(&self) {
        drop(lock(&self.queue).take());
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the writer has been reported by the panic hook; there is nothing to add.
            drop(thread.join());
        }
        if let Some(turn) = lock(&self.turn).take()
            && let Err(error) = turn.kv.close()
        {
            stop(&self.stopped, &error.to_string());
        }
        drop(self.kv.write().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Waits until `mark` differs from `since`, at most `wait_ms`.
    pub(crate) async fn changed(
        &self,
        mark: &watch::Receiver<u64>,
        since: Mark,
        wait_ms: u64,
    ) -> Result<Mark, PortError> {
        let mut mark = mark.clone();
        let wait = Duration::from_millis(wait_ms.min(windlass_core::port::WAIT_MS_MAX));
        let waited = tokio::time::timeout(wait, mark.wait_for(|now| *now != since.0)).await;
        match waited {
            Ok(Ok(now)) => Ok(Mark(*now)),
            Ok(Err(_)) => Err(self.gone()),
            Err(_) => Ok(since),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stop(stopped: &Mutex<Option<String>>, why: &str) {
    tracing::error!(why, "the store has stopped: nothing more is written; restart the process");
    lock(stopped).get_or_insert_with(|| why.to_owned());
}

/// How long the writer looks for more work before it sleeps.
const LOOK: Duration = Duration::from_micros(50);

/// The next piece of work; `None` at the end. A caller that writes one thing after the other comes
/// back within microseconds, and waking a thread costs as much as a quarter of a sync: so the writer
/// looks again for a moment first. Nothing waits for that moment.
fn next(queue: &mut mpsc::Receiver<Work>) -> Option<Work> {
    let began = Instant::now();
    while began.elapsed() < LOOK {
        match queue.try_recv() {
            Ok(work) => return Some(work),
            Err(mpsc::error::TryRecvError::Disconnected) => return None,
            Err(mpsc::error::TryRecvError::Empty) => std::hint::spin_loop(),
        }
    }
    queue.blocking_recv()
}

/// Whether the thread that asks may block for a moment without stopping everything else: a runtime with threads may have one alone,
/// as on a machine with one processor.
fn has_other_threads() -> bool {
    tokio::runtime::Handle::try_current().is_ok_and(|runtime| runtime.metrics().num_workers() > 1)
}

/// What the writer's thread does.
fn run(turn: &Turn, mut queue: mpsc::Receiver<Work>, queued: &AtomicUsize) {
    while let Some(first) = next(&mut queue) {
        let mut turn = lock(turn);
        let written = write(&mut turn, first, Some(&mut queue));
        queued.fetch_sub(written, Ordering::AcqRel);
        if turn.is_none() {
            return;
        }
    }
}

/// One batch. Whatever goes wrong stops the store: nobody has a turn any more, whoever waits for a change is told,
/// and work that is dropped without an answer finds out why. Answers how many pieces of work were in it.
fn write(turn: &mut Option<Loop>, first: Work, queue: Option<&mut mpsc::Receiver<Work>>) -> usize {
    let Some(it) = turn else { return 0 };
    let turned = std::panic::catch_unwind(AssertUnwindSafe(|| it.turn(first, queue)));
    let written = turned.unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().map_or("see the panic's own message", String::as_str);
        stop(&it.stopped, &format!("the writer panicked: {why}"));
        0
    });
    if lock(&it.stopped).is_some() {
        *turn = None;
    }
    written
}

/// What it takes to write.
struct Loop {
    kv: Arc<dyn Kv>,
    clock: Clock,
    seq: u64,
    /// When what survives power loss was last written.
    synced_us: u64,
    state_changed: watch::Sender<u64>,
    locks_changed: watch::Sender<u64>,
    jobs_changed: watch::Sender<u64>,
    feed: Arc<Feed>,
    triggers_changed: watch::Sender<u64>,
    stopped: Arc<Mutex<Option<String>>>,
    alone: Arc<AtomicBool>,
    batches: Arc<Batches>,
    hot: Hot,
}

impl Loop {
    /// One batch: everything that waits now, one commit, then the answers.
    fn turn(&mut self, first: Work, mut queue: Option<&mut mpsc::Receiver<Work>>) -> usize {
        let stored = self.kv.read();
        let now_us = self.clock.now_us();
        let mut tx = Tx::new(&*stored, &mut self.hot, now_us);
        let mut answers = vec![first(&mut tx)];
        while tx.len() < BATCH_WRITES_MAX
            && let Some(Ok(work)) = queue.as_mut().map(|queue| queue.try_recv())
        {
            answers.push(work(&mut tx));
        }
        let written = answers.len();
        self.alone.store(written == 1, Ordering::Relaxed);
        let (state_changed, locks_changed, jobs_changed) = (tx.state_changed, tx.locks_changed, tx.jobs_changed);
        let ended = std::mem::take(&mut tx.ended);
        let triggers_changed = tx.triggers_changed;
        let late = now_us.saturating_sub(self.synced_us) > LIGHT_US_MAX;
        let survives = if tx.lasts || late { Survives::PowerLoss } else { Survives::Kill };
        let batch = tx.into_batch(self.seq + 1);
        drop(stored);
        let committed = match batch.is_empty() {
            true => Ok(()),
            false => {
                self.batches.add(written);
                self.commit(batch, survives, now_us)
            }
        };
        if let Err(error) = &committed {
            // First of all: whoever is told that a write failed finds the store stopped.
            stop(&self.stopped, &error.to_string());
        }
        let told = committed.clone().map_err(|error| PortError::Unavailable(format!("a write failed: {error}")));
        // Before the answers: whoever has one sees its own change.
        if committed.is_ok() && state_changed {
            self.state_changed.send_modify(|mark| *mark += 1);
        }
        if committed.is_ok() && locks_changed {
            self.locks_changed.send_modify(|mark| *mark += 1);
        }
        if committed.is_ok() && triggers_changed {
            self.triggers_changed.send_modify(|mark| *mark += 1);
        }
        if committed.is_ok() && jobs_changed {
            self.jobs_changed.send_modify(|mark| *mark += 1);
        }
        if committed.is_ok() {
            self.feed.add(ended);
        }
        for answer in answers {
            answer(told.clone());
        }
        written
    }

    fn commit(&mut self, batch: crate::kv::Batch, survives: Survives, now_us: u64) -> Result<(), KvError> {
        self.kv.commit(batch, survives)?;
        self.seq += 1;
        if survives == Survives::Kill {
            // The mark is never ahead of what is durable.
            return Ok(());
        }
        self.synced_us = now_us;
        self.kv.mark(self.seq)
    }
}
