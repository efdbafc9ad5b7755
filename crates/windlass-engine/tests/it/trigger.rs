//! Triggers, carried out by engines on a store in memory whose clock stands still until everybody waits.

mod failing;
mod fires;
mod people;
mod recovering;
mod shaky;
mod together;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::id::TriggerId;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::port::job::JobFilter;
use windlass_core::port::trigger::Triggers;
use windlass_core::time::Ms;
use windlass_core::trigger::{Noted, Trigger, TriggerSpec, TriggerStatus};
use windlass_engine::job::{JobOptions, Queues};
use windlass_engine::query::inbox::{Item, Kind};
use windlass_engine::stage::Told;
use windlass_engine::stage::actions::{Actions, Setup};
use windlass_engine::stage::guard::Guard;
use windlass_engine::{Engine, Options, Parts};
use windlass_store_embedded::kv::memory::Memory;
use windlass_store_embedded::{Clock, Embedded};

use crate::script::Script;
use crate::world::by;
use shaky::Shaky;

/// When the clock begins: 2023-11-14T22:13:20Z, in milliseconds since 1970.
const BEGIN: Ms = Ms::new(1_700_000_000_000);
const DAY_MS: u64 = 86_400_000;

/// A store and its clock.
struct Hall {
    store: Embedded,
    began: Instant,
    script: Arc<Script>,
    options: Options,
}

/// An engine in it, and what it may be cut off from.
struct Desk {
    engine: Engine,
    queues: Queues,
    ports: Arc<Shaky>,
}

fn options() -> Options {
    Options {
        lease_ms: 3_000,
        beat_ms: 500,
        scan_ms: 5_000,
        misfire_grace_ms: 1_000,
        drain_ms: 1_000,
        ..Options::default()
    }
}

impl Hall {
    fn new() -> Hall {
        let began = Instant::now();
        let clock = Clock::new(move || BEGIN.get() * 1_000 + u64::try_from(began.elapsed().as_micros()).unwrap());
        let store = Embedded::inline(Arc::new(Memory::default()), clock).unwrap();
        Hall { store, began, script: Arc::default(), options: options() }
    }

    fn now(&self) -> Ms {
        BEGIN.plus(u64::try_from(self.began.elapsed().as_millis()).unwrap())
    }

    async fn desk(&self) -> Desk {
        self.desk_with(Shaky::over(&self.store), 1).await
    }

    async fn desk_with(&self, ports: Arc<Shaky>, seed: u64) -> Desk {
        let began = self.began;
        let clock = Arc::new(move || BEGIN.plus(u64::try_from(began.elapsed().as_millis()).unwrap()));
        let queues = Queues::start(ports.clone(), clock.clone(), JobOptions::default(), seed);
        let mut setup = Setup { guard: Guard::Off, ..Setup::default() };
        setup.environment.insert("WINDLASS_SECRET_HOOK".into(), "Bearer tungsten-tango".into());
        let script = Arc::clone(&self.script);
        setup.handlers.insert("do".into(), Arc::new(move |it: Told, _: Json| Arc::clone(&script).run(it, "")));
        let parts = Parts {
            instance: Engine::new_instance(),
            state: Arc::new(self.store.clone()),
            locks: Arc::new(self.store.clone()),
            queues: Some(queues.clone()),
            triggers: Some(ports.clone()),
            actions: Actions::new(setup).unwrap(),
            clock,
            options: self.options.clone(),
            seed,
        };
        Desk { engine: Engine::start(parts).await.unwrap(), queues, ports }
    }

    /// All jobs, in the order of submission.
    async fn jobs(&self) -> Vec<Job> {
        use windlass_core::port::job::Jobs;
        let page = Jobs::list(&self.store, &JobFilter::default(), None, 1_000).await.unwrap();
        assert_eq!(page.next, None);
        let mut jobs = page.items;
        jobs.sort_by_key(|job| job.seq);
        jobs
    }

    /// The occurrence of every job, by what is after the `@` of its key, in milliseconds since the beginning.
    async fn times(&self) -> Vec<u64> {
        self.jobs().await.iter().map(|job| occurrence(job.key.as_deref().unwrap())).collect()
    }

    async fn notes(&self, id: &str) -> Vec<(u64, Noted)> {
        let notes = Triggers::notes(&self.store, &id.parse().unwrap()).await.unwrap();
        notes.into_iter().map(|note| (note.occurrence.since(BEGIN), note.what)).collect()
    }

    async fn get(&self, id: &str) -> Trigger {
        Triggers::load(&self.store, &[id.parse().unwrap()]).await.unwrap().remove(0).unwrap()
    }

    async fn status(&self, id: &str) -> TriggerStatus {
        self.get(id).await.run.status
    }
}

impl Desk {
    async fn save(&self, id: &str, spec: &str) -> Trigger {
        self.engine.triggers().unwrap().save(Some(id.parse().unwrap()), parse(spec), &by("ann")).await.unwrap()
    }

    async fn fire(&self, id: &str) -> Trigger {
        self.engine.triggers().unwrap().fire(&id.parse().unwrap(), &by("bob")).await.unwrap()
    }

    async fn inbox(&self) -> Vec<(Kind, TriggerId)> {
        let items: Vec<Item> = self.engine.inbox().await.unwrap().0;
        items.into_iter().filter_map(|item| Some((item.kind, item.trigger?))).collect()
    }
}

fn parse(spec: &str) -> TriggerSpec {
    serde_json::from_str(spec).unwrap_or_else(|error| panic!("{spec}: {error}"))
}

/// A trigger of jobs of the queue `q`, and what else is said of it.
fn job(schedule: &str, more: &str) -> String {
    format!(r#"{{"schedule": {schedule}, "target": {{"job": {{"queue": "q"}}}}{more}}}"#)
}

/// A trigger of plans with one stage, for the tenant `acme`.
fn plan(schedule: &str, more: &str) -> String {
    let plan = r#"{"plan":"p","stages":[{"name":"a","handler":{"name":"do"}}],
        "tasks":[{"tenant":"acme","config":"new"}]}"#;
    format!(r#"{{"schedule": {schedule}, "target": {{"plan": {plan}}}{more}}}"#)
}

fn occurrence(key: &str) -> u64 {
    let at: u64 = key.rsplit_once('@').unwrap().1.parse().unwrap();
    Ms::new(at).since(BEGIN)
}

/// Time passes, and everything that falls into it happens at its moment.
async fn pass(ms: u64) {
    // sleep: the clock is paused, and jumps from one thing that somebody waits for to the next.
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
