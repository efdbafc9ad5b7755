//! Queues on a store in memory, through a port that counts and fails on command.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use windlass_core::id::{JobId, QueueName, WorkerId};
use windlass_core::job::limit::{Rule, Scope};
use windlass_core::job::rules::{Asked, JobAsk, Outcome};
use windlass_core::job::{Asker, Job, JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::port::job::{CLAIM_MAX, Delivery, Ended, JobFilter, Jobs, QueueView, Submitted, Turn, Turned};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError};
use windlass_core::time::Ms;
use windlass_engine::job::worker::{Failed, JobHandler, Lane, Told};
use windlass_engine::job::{JobOptions, Queues};
use windlass_store_embedded::{Clock, Embedded};

pub(crate) const BEGIN_MS: u64 = 1_800_000_000_000;

pub(crate) struct Yard {
    pub(crate) store: Embedded,
    pub(crate) port: Arc<Port>,
    pub(crate) queues: Queues,
    pub(crate) began: Instant,
}

/// Short leases, and scans so seldom that a wake-up that does not come is seen.
pub(crate) fn options() -> JobOptions {
    JobOptions { lease_ms: 3_000, scan_ms: 60_000, poll_ms: 100, retention_ms: 60_000, drain_ms: 2_000 }
}

impl Yard {
    pub(crate) fn new(options: JobOptions) -> Yard {
        let began = Instant::now();
        let clock = Clock::new(move || BEGIN_MS * 1_000 + u64::try_from(began.elapsed().as_micros()).unwrap());
        let kv = Arc::new(windlass_store_embedded::kv::memory::Memory::default());
        let store = Embedded::inline(kv, clock).unwrap();
        let port = Arc::new(Port::over(store.clone()));
        let queues = another(&port, began, options, 1);
        Yard { store, port, queues, began }
    }

    /// Queues of another process on the same store, which is not cut off.
    pub(crate) fn elsewhere(&self, options: JobOptions) -> Queues {
        another(&Arc::new(Port::over(self.store.clone())), self.began, options, 2)
    }

    pub(crate) fn job(&self) -> NewJob {
        self.queues.job(queue("q"), Some(json("1")))
    }

    pub(crate) async fn stored(&self, job: JobId) -> Job {
        let job = self.store.load(&[job]).await.unwrap().remove(0).unwrap();
        job.check().unwrap();
        job
    }

    /// Somebody's worker claims one job of `q`.
    pub(crate) async fn claim(&self) -> Option<Job> {
        let turn = Turn { want: vec![(queue("q"), 1)], ..turn() };
        self.store.turn(&[turn]).await.unwrap().remove(0).claimed.pop()
    }

    pub(crate) async fn settle(&self, job: &Job, outcome: Outcome) -> Turned {
        let turn = Turn { settle: vec![(Delivery { job: job.id, fence: job.fence }, outcome)], ..turn() };
        self.store.turn(&[turn]).await.unwrap().remove(0)
    }

    pub(crate) async fn list(&self, statuses: &[JobStatus]) -> Vec<Job> {
        let filter = JobFilter { statuses: statuses.to_vec(), ..JobFilter::default() };
        Jobs::list(&self.store, &filter, None, 1_000).await.unwrap().items
    }
}

fn turn() -> Turn {
    let worker: WorkerId = "somebody".parse().unwrap();
    Turn { worker, lease_ms: 3_000, settle: Vec::new(), beat: Vec::new(), want: Vec::new() }
}

fn another(port: &Arc<Port>, began: Instant, options: JobOptions, seed: u64) -> Queues {
    Queues::start(Arc::clone(port) as _, Arc::new(move || now(began)), options, seed)
}

pub(crate) fn now(began: Instant) -> Ms {
    Ms::new(BEGIN_MS).plus(u64::try_from(began.elapsed().as_millis()).unwrap())
}

pub(crate) fn queue(name: &str) -> QueueName {
    name.parse().unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn lane<F, R>(name: &str, concurrency: u32, prefetch: u32, handler: F) -> Lane
where
    F: Fn(Told) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Json, Failed>> + Send + 'static,
{
    Lane { queue: queue(name), concurrency, prefetch, handler: Arc::new(handler) as Arc<dyn JobHandler> }
}

/// Time passes, and whoever waited for it goes on.
pub(crate) async fn pass(ms: u64) {
    // sleep: the clock stands still, so this is what makes it go on.
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// See the module.
pub(crate) struct Port {
    store: Embedded,
    down: AtomicBool,
    feed_down: AtomicBool,
    /// Turns that are taken, and whose answer is lost.
    lost: AtomicU32,
    /// How long submissions are on their way.
    submits_take_ms: AtomicU64,
    in_order: AtomicBool,
    claims_best: AtomicU32,
    /// How long answers to what people ask are on their way.
    asks_take_ms: AtomicU64,
    /// How long turns are on their way, and how many there were.
    turns_take_ms: AtomicU64,
    /// How long their answers are.
    answers_take_ms: AtomicU64,
    turns: AtomicU32,
    ways: Mutex<Ways>,
    submits: AtomicU32,
    /// Jobs that were read.
    loads: AtomicU32,
    /// Calls and answers that are lost by chance, and until when all of them are.
    rough: Mutex<Option<(fastrand::Rng, Instant)>>,
    /// What comes late is passed on as if it did not.
    spoiled: AtomicBool,
}

/// Turns that were on their way at the same time.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ways {
    now: u32,
    pub(crate) most: u32,
    /// The most jobs that one of them asked for.
    pub(crate) asked: u32,
    /// Those with heartbeats, and those of them that met another.
    beats_now: u32,
    pub(crate) beats: u32,
    pub(crate) beats_met: u32,
}

/// What becomes of a call.
enum Way {
    Clear,
    Lost,
    AnswerLost,
}

impl Port {
    pub(crate) fn over(store: Embedded) -> Port {
        Port {
            store,
            down: AtomicBool::new(false),
            feed_down: AtomicBool::new(false),
            lost: AtomicU32::new(0),
            submits_take_ms: AtomicU64::new(0),
            in_order: AtomicBool::new(false),
            claims_best: AtomicU32::new(CLAIM_MAX),
            asks_take_ms: AtomicU64::new(0),
            turns_take_ms: AtomicU64::new(0),
            answers_take_ms: AtomicU64::new(0),
            ways: Mutex::default(),
            turns: AtomicU32::new(0),
            submits: AtomicU32::new(0),
            loads: AtomicU32::new(0),
            rough: Mutex::new(None),
            spoiled: AtomicBool::new(false),
        }
    }

    /// From now on some calls are lost, and some answers.
    pub(crate) fn rough(&self, seed: u64, spoiled: bool) {
        *self.rough.lock().unwrap() = Some((fastrand::Rng::with_seed(seed), Instant::now()));
        self.spoiled.store(spoiled, Ordering::SeqCst);
    }

    pub(crate) fn calm(&self) {
        *self.rough.lock().unwrap() = None;
    }

    fn way(&self) -> Way {
        let mut rough = self.rough.lock().unwrap();
        let Some((rng, away_until)) = rough.as_mut() else { return Way::Clear };
        match rng.u32(..30) {
            _ if Instant::now() < *away_until => Way::Lost,
            0 => {
                *away_until = Instant::now() + Duration::from_millis(rng.u64(..4_000));
                Way::Lost
            }
            1 => Way::AnswerLost,
            _ => Way::Clear,
        }
    }

    /// The call on its way.
    async fn over_the_way<T>(&self, call: impl Future<Output = Result<T, PortError>>) -> Result<T, PortError> {
        match self.way() {
            Way::Clear => call.await,
            Way::Lost => Err(gone()),
            Way::AnswerLost => {
                drop(call.await);
                Err(gone())
            }
        }
    }

    /// Answers under an old fence, as if they were under the newest.
    async fn spoil(&self, turns: &[Turn]) -> Vec<Turn> {
        let mut turns = turns.to_vec();
        for (delivery, _) in turns.iter_mut().flat_map(|turn| &mut turn.settle) {
            if let Some(job) = Jobs::load(&self.store, &[delivery.job]).await.unwrap().remove(0) {
                delivery.fence = job.fence;
            }
        }
        turns
    }

    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn set_feed_down(&self, down: bool) {
        self.feed_down.store(down, Ordering::SeqCst);
    }

    pub(crate) fn lose(&self, turns: u32) {
        self.lost.store(turns, Ordering::SeqCst);
    }

    pub(crate) fn submits_take(&self, ms: u64) {
        self.submits_take_ms.store(ms, Ordering::SeqCst);
    }

    pub(crate) fn asks_take(&self, ms: u64) {
        self.asks_take_ms.store(ms, Ordering::SeqCst);
    }

    pub(crate) fn set_claims_best(&self, n: u32) {
        self.claims_best.store(n, Ordering::SeqCst);
    }

    pub(crate) fn set_in_order(&self, in_order: bool) {
        self.in_order.store(in_order, Ordering::SeqCst);
    }

    pub(crate) fn turns_take(&self, ms: u64) {
        self.turns_take_ms.store(ms, Ordering::SeqCst);
    }

    pub(crate) fn answers_take(&self, ms: u64) {
        self.answers_take_ms.store(ms, Ordering::SeqCst);
    }

    pub(crate) fn ways(&self) -> Ways {
        *self.ways.lock().unwrap()
    }

    fn goes(&self, beats: bool, asked: u32) {
        let mut ways = self.ways.lock().unwrap();
        ways.asked = ways.asked.max(asked);
        ways.now += 1;
        ways.most = ways.most.max(ways.now);
        ways.beats += u32::from(beats);
        ways.beats_now += u32::from(beats);
        ways.beats_met += u32::from(ways.now > 1 && ways.beats_now > 0);
    }

    fn came(&self, beats: bool) {
        let mut ways = self.ways.lock().unwrap();
        ways.now -= 1;
        ways.beats_now -= u32::from(beats);
    }

    pub(crate) fn turns(&self) -> u32 {
        self.turns.load(Ordering::SeqCst)
    }

    pub(crate) fn submits(&self) -> u32 {
        self.submits.load(Ordering::SeqCst)
    }

    pub(crate) fn loads(&self) -> u32 {
        self.loads.load(Ordering::SeqCst)
    }

    fn up(&self) -> Result<&Embedded, PortError> {
        match self.down.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => Ok(&self.store),
        }
    }
}

fn gone() -> PortError {
    PortError::Unavailable("it was told to be".to_owned())
}

#[async_trait]
impl Jobs for Port {
    async fn submit(&self, groups: &[Vec<NewJob>]) -> Each<Vec<Submitted>> {
        // sleep: the way is what the test is about.
        tokio::time::sleep(Duration::from_millis(self.submits_take_ms.load(Ordering::SeqCst))).await;
        self.submits.fetch_add(1, Ordering::SeqCst);
        self.over_the_way(self.up()?.submit(groups)).await
    }

    async fn turn(&self, turns: &[Turn]) -> Result<Vec<Turned>, PortError> {
        let beats = turns.iter().any(|turn| !turn.beat.is_empty());
        let asked = turns.iter().flat_map(|turn| &turn.want).map(|(_, n)| *n).sum();
        self.goes(beats, asked);
        // sleep: the way is what the test is about.
        tokio::time::sleep(Duration::from_millis(self.turns_take_ms.load(Ordering::SeqCst))).await;
        self.turns.fetch_add(1, Ordering::SeqCst);
        let answer = match self.spoiled.load(Ordering::SeqCst) {
            true => {
                let turns = self.spoil(turns).await;
                self.over_the_way(self.up()?.turn(&turns)).await
            }
            false => self.over_the_way(self.up()?.turn(turns)).await,
        };
        // sleep: the way is what the test is about.
        tokio::time::sleep(Duration::from_millis(self.answers_take_ms.load(Ordering::SeqCst))).await;
        self.came(beats);
        let settles = turns.iter().any(|turn| !turn.settle.is_empty());
        let lost = self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        match settles && lost.is_ok() {
            true => Err(gone()),
            false => answer,
        }
    }

    async fn ask(&self, jobs: &[JobId], ask: JobAsk, asker: &Asker) -> Each<Asked> {
        let answer = self.over_the_way(self.up()?.ask(jobs, ask, asker)).await;
        // sleep: the way is what the test is about.
        tokio::time::sleep(Duration::from_millis(self.asks_take_ms.load(Ordering::SeqCst))).await;
        answer
    }

    async fn load(&self, jobs: &[JobId]) -> Result<Vec<Option<Job>>, PortError> {
        self.loads.fetch_add(u32::try_from(jobs.len()).unwrap(), Ordering::SeqCst);
        self.over_the_way(Jobs::load(self.up()?, jobs)).await
    }

    async fn list(&self, filter: &JobFilter, after: Option<&Cursor>, limit: u32) -> Result<Page<Job>, PortError> {
        Jobs::list(self.up()?, filter, after, limit).await
    }

    async fn queues(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
        self.up()?.queues(after, limit).await
    }

    async fn set_rules(&self, rules: &[Rule]) -> Result<(), PortError> {
        self.up()?.set_rules(rules).await
    }

    async fn rules(&self, scopes: &[Scope]) -> Result<Vec<Rule>, PortError> {
        self.up()?.rules(scopes).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        Jobs::changed(self.up()?, since, wait_ms).await
    }

    async fn ended(&self, since: Mark, wait_ms: u64) -> Result<Ended, PortError> {
        match self.feed_down.load(Ordering::SeqCst) {
            true => Err(gone()),
            false => self.over_the_way(self.up()?.ended(since, wait_ms)).await,
        }
    }

    async fn sweep(&self, limit: u32) -> Result<u32, PortError> {
        self.up()?.sweep(limit).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        Jobs::purge(self.up()?, before, limit).await
    }

    fn in_order(&self) -> bool {
        self.in_order.load(Ordering::SeqCst)
    }

    fn claims_best(&self) -> u32 {
        self.claims_best.load(Ordering::SeqCst)
    }
}
