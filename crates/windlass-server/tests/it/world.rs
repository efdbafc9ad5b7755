//! A server on a store in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use windlass_core::port::job::Jobs;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;
use windlass_core::port::trigger::Triggers;
use windlass_core::time::Ms;
use windlass_engine::clock::{Clock, SystemClock};
use windlass_engine::job::{JobOptions, Queues};
use windlass_engine::stage::actions::{Actions, Setup as Stages};
use windlass_engine::stage::handler::Handlers;
use windlass_engine::{Engine, Options, Parts};
use windlass_server::metrics::Metrics;
use windlass_server::metrics::store::Measured;
use windlass_server::{Limits, Server, Setup};
use windlass_store_embedded::Embedded;

use crate::flaky::Flaky;

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) engine: Engine,
    pub(crate) http: reqwest::Client,
    /// What requests carry.
    pub(crate) key: Option<String>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) body: Value,
}

impl Got {
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }

    /// A refusal: its status and its code, and that it is a whole problem.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(self.kind, "application/problem+json");
        assert_eq!(self.body["type"], format!("/docs/errors/{code}"));
        assert_eq!(self.body["status"], status);
        assert!(!self.body["title"].as_str().unwrap().is_empty(), "{code} has no page");
        self.body
    }
}

/// A clock that tests move.
#[derive(Default)]
pub(crate) struct Moved(AtomicU64);

impl Moved {
    pub(crate) fn forward(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Moved {
    fn now(&self) -> Ms {
        SystemClock.now().plus(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) async fn engine(metrics: &Arc<Metrics>) -> (Engine, Queues) {
    let store = Embedded::memory();
    let ports = (Arc::new(store.clone()) as _, Arc::new(store.clone()) as _);
    engine_over(ports, &store, metrics, Arc::new(SystemClock), Options::default()).await
}

async fn engine_over(
    (state, locks): (Arc<dyn State>, Arc<dyn Locks>),
    store: &Embedded,
    metrics: &Arc<Metrics>,
    clock: Arc<dyn Clock>,
    options: Options,
) -> (Engine, Queues) {
    let jobs: Arc<dyn Jobs> = Arc::new(store.clone());
    let triggers: Arc<dyn Triggers> = Arc::new(store.clone());
    let queues = Queues::start(Arc::new(Measured::new(jobs, metrics)), Arc::clone(&clock), JobOptions::default(), 7);
    let handlers = Handlers::new();
    let actions = Actions::new(Stages { handlers, queues: Some(queues.clone()), ..Stages::default() }).unwrap();
    let parts = Parts {
        instance: Engine::new_instance(),
        state: Arc::new(Measured::new(state, metrics)),
        locks: Arc::new(Measured::new(locks, metrics)),
        queues: Some(queues.clone()),
        triggers: Some(Arc::new(Measured::new(triggers, metrics))),
        actions,
        clock,
        options: Options { scan_ms: 200, ..options },
        seed: 7,
    };
    (Engine::start(parts).await.unwrap(), queues)
}

impl World {
    pub(crate) async fn new() -> World {
        World::with(None, Limits::default()).await
    }

    pub(crate) async fn with(keys: Option<PathBuf>, limits: Limits) -> World {
        let metrics = Arc::new(Metrics::default());
        let (engine, queues) = engine(&metrics).await;
        let (listen, clock) = ("127.0.0.1:0".parse().unwrap(), Arc::new(SystemClock));
        let setup = Setup { engine: engine.clone(), queues, listen, keys, limits, clock, metrics, batches: None };
        World::over(engine, setup).await
    }

    /// Over a store that fails on command, with a clock that is moved. How long a lease is decides how soon a loop is missed.
    pub(crate) async fn flaky(lease_ms: u64) -> (World, Arc<Flaky>, Arc<Moved>) {
        let metrics = Arc::new(Metrics::default());
        let store = Embedded::memory();
        let flaky = Arc::new(Flaky::over(Arc::new(store.clone()), Arc::new(store.clone())));
        let clock = Arc::new(Moved::default());
        let options = Options { beat_ms: 100, lease_ms, ..Options::default() };
        let ports = (Arc::clone(&flaky) as _, Arc::clone(&flaky) as _);
        let made = engine_over(ports, &store, &metrics, Arc::clone(&clock) as _, options).await;
        let listen = "127.0.0.1:0".parse().unwrap();
        let (engine, queues) = made;
        let (limits, batches) = (Limits::default(), Some(store.batches()));
        let clocked = Arc::clone(&clock) as _;
        let setup =
            Setup { engine: engine.clone(), queues, listen, keys: None, limits, clock: clocked, metrics, batches };
        let world = World::over(engine, setup).await;
        (world, flaky, clock)
    }

    async fn over(engine: Engine, setup: Setup) -> World {
        let server = Server::start(setup).await.unwrap();
        let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).build().unwrap();
        World { server, engine, http, key: None }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, self.url(path));
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Got {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type").map_or("", |kind| kind.to_str().unwrap()).to_owned();
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Got { status, kind, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Got {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Got {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Got {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Got {
        self.send(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn plan(&self, yaml: &str, query: &str) -> Got {
        let request = self.request(Method::POST, &format!("/v1/plans{query}"));
        self.send(request.header("content-type", "application/yaml").body(yaml.to_owned())).await
    }
}

/// A plan of tenants, each of whose tasks waits for an approval.
pub(crate) fn approvals(id: &str, tenants: &[&str]) -> String {
    let tasks: String = tenants.iter().map(|tenant| format!("  - tenant: {tenant}\n    config: {{}}\n")).collect();
    format!(
        "plan: p\nid: {id}\nstages:\n  - name: ask\n    approval: {{ message: \"Well?\" }}\n  - name: rest\n    sleep: 1ms\ntasks:\n{tasks}"
    )
}

/// Waits until it is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let reached = async {
        while !is_so().await {
            // sleep: a poll with a bound, not a guess at how long something takes.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), reached).await.is_ok(), "it never came true: {what}");
}
