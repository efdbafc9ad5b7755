//! One seed: a store, a few engines, people, and what happens to them.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use windlass_core::id::InstanceId;
use windlass_core::json::Json;
use windlass_core::port::job::Jobs;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;
use windlass_core::port::trigger::Triggers;
use windlass_core::time::Ms;
use windlass_engine::job::Queues;
use windlass_engine::stage::actions::{Actions, Setup};
use windlass_engine::stage::{Told, Trouble};
use windlass_engine::{Engine, OnOutage, Options, Parts};
use windlass_store_embedded::kv::memory::Memory as Kv;
use windlass_store_embedded::{Clock, Embedded};

use super::has_works;
use super::net::{Mode, Net, Way, Weather};
use super::people::{self, Asked, Memory};
use super::spoil::{Rule, Spoiled};
use super::spoil_works::SpoiledWorks;
use super::truth::Truth;
use super::wants::{self, Wanted};
use super::witness::Witness;

/// When the world begins, in milliseconds since 1970.
const BEGIN_MS: u64 = 1_700_000_000_000;

pub(super) struct World {
    pub(super) dice: fastrand::Rng,
    pub(super) truth: Arc<Truth>,
    pub(super) state: Arc<dyn State>,
    pub(super) locks: Arc<dyn Locks>,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) triggers: Arc<dyn Triggers>,
    /// Whether there are jobs and triggers too.
    pub(super) works: bool,
    pub(super) options: Options,
    pub(super) nodes: Vec<Node>,
    pub(super) memory: Arc<Mutex<Memory>>,
    script: Arc<Mutex<Script>>,
    weather: Weather,
    born: u32,
    pub(super) wanted: Wanted,
}

/// A running instance.
pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) queues: Option<Queues>,
    pub(super) way: Arc<Way>,
    /// What people asked of it and have no answer to yet.
    pub(super) asked: Vec<JoinHandle<()>>,
}

/// How stages go.
pub(super) struct Script {
    pub(super) dice: fastrand::Rng,
    /// Runs in a thousand that fail.
    pub(super) fails: u32,
    /// How long they take, at most.
    pub(super) ms: u64,
}

impl World {
    /// `spoiled`: without this rule.
    pub(super) fn new(seed: u64, told: bool, spoiled: Option<Rule>) -> World {
        let mut dice = fastrand::Rng::with_seed(seed);
        let began = Instant::now();
        let clock = Clock::new(move || BEGIN_MS * 1_000 + u64::try_from(began.elapsed().as_micros()).unwrap());
        let store = Embedded::inline(Arc::new(Kv::default()), clock).unwrap();
        let (mut state, mut locks): (Arc<dyn State>, Arc<dyn Locks>) =
            (Arc::new(store.clone()), Arc::new(store.clone()));
        let mut jobs: Arc<dyn Jobs> = Arc::new(store.clone());
        let mut triggers: Arc<dyn Triggers> = Arc::new(store);
        if let Some(rule) = spoiled {
            let store = Arc::new(Spoiled { rule, state, locks, ops: AtomicU64::new(0) });
            (state, locks) = (store.clone(), store);
            let works = Arc::new(SpoiledWorks { rule, jobs, triggers, newest: Mutex::default() });
            (jobs, triggers) = (works.clone(), works);
        }
        let lock_ms = [120_000, 9_000][dice.usize(..2)];
        let options = Options {
            lease_ms: 3_000,
            beat_ms: 1_000,
            lock_ms,
            lock_renew_ms: lock_ms / 3,
            tasks_max: [1, 3, 1_000][dice.usize(..3)],
            scan_ms: 2_000,
            janitor_ms: 10_000,
            retention_ms: 3_600_000,
            retry_limit: [0, 1, 3][dice.usize(..3)],
            outage: [OnOutage::Degrade, OnOutage::Degrade, OnOutage::Hold, OnOutage::Fail][dice.usize(..4)],
            drain_ms: [0, 500, 3_000][dice.usize(..3)],
            ..Options::default()
        };
        let weather = Weather {
            lost: [0, 5, 30][dice.usize(..3)],
            slow: [0, 20, 200][dice.usize(..3)],
            slow_ms: [20, 300, 1_500][dice.usize(..3)],
        };
        let script = Script {
            fails: [0, 100, 300][dice.usize(..3)],
            ms: [0, 500, 4_000, 10_000][dice.usize(..4)],
            dice: dice.fork(),
        };
        let truth = Arc::new(Truth::new(told));
        truth.note(format_args!("{options:?} {weather:?}"));
        World {
            dice,
            truth,
            state,
            locks,
            jobs,
            triggers,
            works: has_works(seed),
            options,
            nodes: Vec::new(),
            memory: Arc::default(),
            script: Arc::new(Mutex::new(script)),
            weather,
            born: 0,
            wanted: Wanted::default(),
        }
    }

    /// One more instance.
    pub(super) async fn begin(&mut self, weather: Weather) {
        self.born += 1;
        let instance: InstanceId = format!("i{}", self.born).parse().unwrap();
        let (truth, way) = (Arc::clone(&self.truth), Arc::new(Way::new(weather, self.dice.u64(..))));
        let (state, locks) = (Arc::clone(&self.state), Arc::clone(&self.locks));
        let (jobs, triggers) = (Arc::clone(&self.jobs), Arc::clone(&self.triggers));
        let to = Witness { state, locks, jobs, triggers, truth, instance: instance.clone() };
        let net = Arc::new(Net { to, way: Arc::clone(&way) });
        let (truth, script, gate) = (Arc::clone(&self.truth), Arc::clone(&self.script), Arc::clone(&way));
        let mut setup = Setup::default();
        let run = move |told: Told, _: Json| stage(told, Arc::clone(&truth), Arc::clone(&script), Arc::clone(&gate));
        setup.handlers.insert("do".into(), Arc::new(run));
        let began = Instant::now();
        // Clocks of machines differ a little.
        let now = self.now().plus(self.dice.u64(..2_000)).minus(1_000);
        let clock = Arc::new(move || now.plus(u64::try_from(began.elapsed().as_millis()).unwrap()));
        let queues = self.works.then(|| Queues::start(net.clone(), clock.clone(), wants::options(), self.dice.u64(..)));
        let parts = Parts {
            instance,
            state: net.clone(),
            locks: net.clone(),
            queues: queues.clone(),
            triggers: self.works.then_some(net as _),
            actions: Actions::new(setup).unwrap(),
            clock,
            options: self.options.clone(),
            seed: self.dice.u64(..),
        };
        // One that does not reach the store does not begin, and nothing of it stays.
        let Ok(engine) = Engine::start(parts).await else {
            queues.iter().for_each(Queues::kill);
            return;
        };
        if let Some(queues) = &queues {
            wants::work(queues, &self.truth, &self.script, &way);
        }
        self.truth.note(format_args!("{} begins", engine.instance()));
        self.nodes.push(Node { engine, queues, way, asked: Vec::new() });
    }

    pub(super) fn now(&self) -> Ms {
        let facts = self.truth.facts();
        Ms::new(BEGIN_MS + u64::try_from(facts.age().as_millis()).unwrap())
    }

    /// The time in which everything goes wrong.
    pub(super) async fn storm(&mut self) {
        for _ in 0..self.dice.u32(1..=3) {
            self.begin(self.weather).await;
        }
        for _ in 0..self.dice.u32(10..35) {
            self.happen().await;
            let pause = [5, 200, 1_500][self.dice.usize(..3)];
            sleep(Duration::from_millis(self.dice.u64(..pause))).await;
            if self.truth.is_wrong() {
                return;
            }
        }
    }

    /// One thing.
    async fn happen(&mut self) {
        if self.nodes.is_empty() {
            return self.begin(self.weather).await;
        }
        let n = self.dice.usize(..self.nodes.len());
        match self.dice.u32(..100) {
            0..66 => self.person(n),
            66..70 => self.away(n).await,
            70..74 if self.nodes.len() < 3 => self.begin(self.weather).await,
            74..79 => self.crash(n),
            79..82 => self.stop(n).await,
            82..84 => self.restart_all().await,
            84..93 => self.bad_way(n),
            _ => self.outage(),
        }
    }

    /// Somebody asks for something, and does not wait for the answer.
    fn person(&mut self, n: usize) {
        if self.works && self.dice.bool() {
            return self.want(n);
        }
        let asked = people::wish(&mut self.dice, &self.truth, &mut self.memory.lock().unwrap());
        self.ask(n, asked);
    }

    fn ask(&mut self, n: usize, asked: Asked) {
        self.truth.person();
        let (engine, truth, memory) = (self.nodes[n].engine.clone(), Arc::clone(&self.truth), Arc::clone(&self.memory));
        let answers = Arc::clone(memory.lock().unwrap().answers());
        self.nodes[n].asked.push(tokio::spawn(async move { people::ask(engine, asked, truth, &answers).await }));
    }

    /// One instance is away for longer than its lease, while its stages go on; others take up what it runs.
    async fn away(&mut self, n: usize) {
        if self.nodes.len() < 2 || self.nodes[n].engine.running() == 0 {
            return self.person(n);
        }
        let mode = [Mode::Cut, Mode::Mute, Mode::Still][self.dice.usize(..3)];
        let ms = self.dice.u64(4_000..9_000);
        self.trouble(&self.nodes[n], mode, ms);
        sleep(Duration::from_millis(self.options.lease_ms + 200)).await;
        let other = (n + 1) % self.nodes.len();
        for asked in people::take_up(&self.truth, self.nodes[n].engine.instance()) {
            self.ask(other, asked);
        }
    }

    fn crash(&mut self, n: usize) {
        let node = self.nodes.swap_remove(n);
        self.truth.note(format_args!("{} crashes", node.engine.instance()));
        node.end();
    }

    /// Handed back in order; what people asked of it meanwhile has no answer.
    async fn stop(&mut self, n: usize) {
        let node = self.nodes.swap_remove(n);
        self.truth.note(format_args!("{} stops", node.engine.instance()));
        // One that stands still would never get to it.
        if node.way.mode() == Mode::Still {
            node.way.set(Mode::Up);
        }
        drop(tokio::time::timeout(Duration::from_secs(20), node.engine.stop()).await);
        node.end();
    }

    /// Everything stops, and begins again; nobody does anything for a while.
    async fn restart_all(&mut self) {
        let gently = self.dice.bool();
        let before = (0..=self.born).map(|n| format!("i{n}").parse().unwrap()).collect::<BTreeSet<_>>();
        while !self.nodes.is_empty() {
            match gently {
                true => self.stop(0).await,
                false => self.crash(0),
            }
        }
        self.truth.all_stopped(before);
        sleep(Duration::from_millis([0, 500, 4_000][self.dice.usize(..3)])).await;
        for _ in 0..self.dice.u32(1..=2) {
            self.begin(self.weather).await;
        }
        sleep(Duration::from_millis(self.dice.u64(1_000..10_000))).await;
    }

    /// One instance has trouble for a while.
    fn bad_way(&mut self, n: usize) {
        let mode = [Mode::Cut, Mode::Mute, Mode::Still][self.dice.usize(..3)];
        let ms = self.dice.u64(1..8_000);
        self.trouble(&self.nodes[n], mode, ms);
    }

    /// The store has.
    fn outage(&mut self) {
        let mode = [Mode::Cut, Mode::Mute][self.dice.usize(..2)];
        let ms = [200, 2_000, 12_000][self.dice.usize(..3)];
        let ms = self.dice.u64(1..ms);
        for node in &self.nodes {
            self.trouble(node, mode, ms);
        }
    }

    fn trouble(&self, node: &Node, mode: Mode, ms: u64) {
        self.truth.note(format_args!("{} is {mode:?} for {ms} ms", node.engine.instance()));
        let way = Arc::clone(&node.way);
        way.set(mode);
        tokio::spawn(async move {
            sleep(Duration::from_millis(ms)).await;
            way.set(Mode::Up);
        });
    }

    /// Nothing goes wrong any more.
    pub(super) async fn calm_down(&mut self) {
        self.truth.note(format_args!("the storm is over"));
        for node in &self.nodes {
            node.way.clear();
        }
        {
            let mut script = self.script.lock().unwrap();
            script.fails = 0;
            script.ms = script.ms.min(500);
        }
        if self.nodes.is_empty() {
            self.begin(Weather { lost: 0, slow: 0, slow_ms: 0 }).await;
        }
        for node in &mut self.nodes {
            for asked in std::mem::take(&mut node.asked) {
                if tokio::time::timeout(Duration::from_secs(60), asked).await.is_err() {
                    let instance = node.engine.instance();
                    self.truth.wrong(format_args!("{instance} never answered something that was asked of it"));
                }
            }
        }
    }

    /// All of it is gone.
    pub(super) fn end_all(&mut self) {
        while !self.nodes.is_empty() {
            self.crash(0);
        }
    }
}

impl Node {
    /// The process is gone.
    fn end(self) {
        self.way.set(Mode::Dead);
        self.engine.kill();
        for asked in self.asked {
            asked.abort();
        }
    }
}

/// What a stage does: something at the target, now and perhaps later, which takes time and may fail.
async fn stage(
    told: Told,
    truth: Arc<Truth>,
    script: Arc<Mutex<Script>>,
    way: Arc<Way>,
) -> Result<Option<Json>, Trouble> {
    way.flow().await;
    let (fails, ms, twice) = {
        let Script { dice, fails, ms } = &mut *script.lock().unwrap();
        (dice.u32(..1_000) < *fails, dice.u64(..=*ms), dice.bool())
    };
    let stale = || Err(Trouble::stage("the target has seen a higher fence"));
    if !truth.effect(&told, true) {
        return stale();
    }
    sleep(Duration::from_millis(ms)).await;
    way.flow().await;
    if twice && !truth.effect(&told, false) {
        return stale();
    }
    match fails {
        true => Err(Trouble::stage("it was told to fail")),
        false => Ok(Some(Json::parse("1").unwrap())),
    }
}
