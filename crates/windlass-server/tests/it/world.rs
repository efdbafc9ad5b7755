//! A server on a store in memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use windlass_core::port::job::Jobs;
use windlass_core::port::state::State;
use windlass_engine::clock::{Clock, SystemClock};
use windlass_engine::job::{JobOptions, Queues};
use windlass_engine::stage::actions::{Actions, Setup as Stages};
use windlass_engine::stage::handler::Handlers;
use windlass_engine::{Engine, Options, Parts};
use windlass_server::metrics::Metrics;
use windlass_server::metrics::store::Measured;
use windlass_server::{Limits, Server, Setup};
use windlass_store_embedded::Embedded;

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

pub(crate) async fn engine(metrics: &Arc<Metrics>) -> (Engine, Queues) {
    let store = Arc::new(Embedded::memory());
    let state: Arc<dyn State> = Arc::clone(&store) as _;
    let jobs: Arc<dyn Jobs> = Arc::clone(&store) as _;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let queues = Queues::start(Arc::new(Measured::new(jobs, metrics)), Arc::clone(&clock), JobOptions::default(), 7);
    let handlers = Handlers::new();
    let actions = Actions::new(Stages { handlers, queues: Some(queues.clone()), ..Stages::default() }).unwrap();
    let parts = Parts {
        instance: Engine::new_instance(),
        state: Arc::new(Measured::new(state, metrics)),
        locks: Arc::clone(&store) as _,
        queues: Some(queues.clone()),
        triggers: Some(store),
        actions,
        clock,
        options: Options { scan_ms: 200, ..Options::default() },
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
        let setup = Setup {
            engine: engine.clone(),
            queues,
            listen: "127.0.0.1:0".parse().unwrap(),
            keys,
            limits,
            clock: Arc::new(SystemClock),
            metrics,
        };
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
