//! What is interrupted: plans, and what their stages do. The same in the process that dies and in those that come after it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use tokio::sync::watch;
use windlass::core::id::{PlanId, TaskId};
use windlass::core::json::Json;
use windlass::engine::Options;
use windlass::engine::command::{Caller, IdempotencyKey};
use windlass::engine::stage::{Told, Trouble};
use windlass::open::{OpenError, StoreUrl, Stores, open};
use windlass::settings::Settings;
use windlass::{SubmitError, Windlass};
use windlass_store_embedded as embedded;

/// A plan that people steer.
pub(crate) struct Script {
    pub(crate) name: &'static str,
    yaml: &'static str,
    /// The tenants in the order of their tasks, and those of their stages that have an effect.
    pub(crate) tenants: &'static [(&'static str, &'static [(u32, &'static str)])],
    /// Whether everything is taken back in the end, and which tenant's stages in reverse order.
    pub(crate) taken_back: Option<&'static str>,
}

/// One tenant runs through, one asks for an approval, one fails at first.
pub(crate) const FORTH: Script = Script {
    name: "forth",
    yaml: "
plan: kill-points
id: kill-points
tasks:
  - tenant: hums
    stages:
      - { name: a, handler: { name: effect } }
      - { name: b, handler: { name: effect } }
      - { name: c, handler: { name: effect } }
  - tenant: asks
    stages:
      - { name: a, handler: { name: effect } }
      - { name: b, approval: { message: 'Go on?' } }
      - { name: c, handler: { name: effect } }
  - tenant: fails
    stages:
      - { name: a, handler: { name: effect } }
      - { name: b, handler: { name: effect, args: { fails: true } } }
      - { name: c, handler: { name: effect } }
",
    tenants: &[
        ("hums", &[(0, "a"), (1, "b"), (2, "c")]),
        ("asks", &[(0, "a"), (2, "c")]),
        ("fails", &[(0, "a"), (1, "b"), (2, "c")]),
    ],
    taken_back: None,
};

/// One tenant gets back what it had, the other's stages are undone; all of them, when they have come to their end.
pub(crate) const BACK: Script = Script {
    name: "back",
    yaml: "
plan: kill-points
id: kill-points
tasks:
  - tenant: returns
    config: { mark: done }
    previous: { mark: undone }
    stages:
      - { name: a, handler: { name: effect, args: { mark: '{{ config.mark }}' } } }
      - { name: b, handler: { name: effect, args: { mark: '{{ config.mark }}' } } }
  - tenant: undoes
    stages:
      - name: a
        handler: { name: effect }
        undo: { handler: { name: effect, args: { mark: undone } } }
      - name: b
        handler: { name: effect }
        undo: { handler: { name: effect, args: { mark: undone } } }
",
    tenants: &[("returns", &[(0, "a"), (1, "b")]), ("undoes", &[(0, "a"), (1, "b")])],
    taken_back: Some("undoes"),
};

/// One tenant is paused by itself in its first stage, and both with their plan in their second; stages that `wait` end when
/// that was asked for.
pub(crate) const PAUSE: Script = Script {
    name: "pause",
    yaml: "
plan: kill-points
id: kill-points
tasks:
  - tenant: rests
    stages:
      - { name: a, handler: { name: effect, args: { wait: 1 } } }
      - { name: b, handler: { name: effect, args: { wait: 2 } } }
      - { name: c, handler: { name: effect } }
  - tenant: goes
    stages:
      - { name: a, handler: { name: effect } }
      - { name: b, handler: { name: effect, args: { wait: 2 } } }
      - { name: c, handler: { name: effect } }
",
    tenants: &[("rests", &[(0, "a"), (1, "b"), (2, "c")]), ("goes", &[(0, "a"), (1, "b"), (2, "c")])],
    taken_back: None,
};

pub(crate) const ALL: [&Script; 3] = [&FORTH, &BACK, &PAUSE];

impl Script {
    /// Creates and starts the plan, or answers as before if that was done.
    pub(crate) async fn create(&self, windlass: &Windlass) -> Result<PlanId, SubmitError> {
        let key = Some(IdempotencyKey { credential: "tests".to_owned(), key: "create".to_owned() });
        let caller = Caller { key, ..ann() };
        Ok(windlass.submit(self.yaml, &caller).await?.plan)
    }
}

pub(crate) fn plan_id() -> PlanId {
    "kill-points".parse().unwrap()
}

pub(crate) fn task_id(position: u32) -> TaskId {
    TaskId::of(&plan_id(), position)
}

pub(crate) fn ann() -> Caller {
    Caller::new("ann".parse().unwrap())
}

/// With few connections: many processes share a server.
pub(crate) async fn opened(url: &str) -> Stores {
    let url: StoreUrl = url.parse().unwrap();
    let mut settings = Settings::default();
    settings.postgres.connections = 2;
    loop {
        match open(&url, &settings).await {
            // A test starts processes from many threads, and for a moment each of them has every file of the test, locked
            // ones too.
            Err(OpenError::Embedded(embedded::OpenError::Locked(_))) => tokio::task::yield_now().await,
            stores => return stores.unwrap(),
        }
    }
}

/// An instance, and the hand that lets its stages go on: up to which gate.
pub(crate) struct Stage {
    pub(crate) windlass: Windlass,
    pub(crate) gate: watch::Sender<u64>,
}

impl Stage {
    /// An engine over `stores`, whose stages write their effects to this file.
    pub(crate) async fn set(stores: Stores, effects: &Path, lease_ms: u64) -> Stage {
        let effects: PathBuf = effects.into();
        let gate = watch::Sender::new(0);
        let gates = gate.clone();
        let effect = move |told: Told, args: Json| {
            let done = effect(&effects, &told, &args);
            let mut gates = gates.subscribe();
            async move {
                let wait = done?;
                drop(gates.wait_for(|open| *open >= wait).await);
                Ok(None)
            }
        };
        let builder = Windlass::builder().stores(stores).options(options(lease_ms)).handler("effect", effect);
        Stage { windlass: builder.start().await.unwrap(), gate }
    }
}

/// Quick to look, so that a test need not wait long to see that nothing is taken.
fn options(lease_ms: u64) -> Options {
    Options {
        lease_ms,
        beat_ms: lease_ms / 6,
        scan_ms: 50,
        lock_renew_ms: 100,
        janitor_ms: 100,
        retry_limit: 0,
        ..Options::default()
    }
}

/// One line, whole, and on its way to the disk before the stage is done: what a target does. Answers the gate that the stage
/// waits for.
fn effect(effects: &Path, told: &Told, args: &Json) -> Result<u64, Trouble> {
    let args: serde_json::Value = serde_json::from_str(&args.to_string()).unwrap();
    if args["fails"].as_bool() == Some(true) && told.attempt == 1 {
        return Err(Trouble { again: false, ..Trouble::stage("it is not ready yet") });
    }
    let (key, mark) = (told.idempotency_key(), args["mark"].as_str().unwrap_or("done"));
    let line = format!("{} {} {} {} {key} {mark}\n", told.tenant, told.stage, told.pass, told.fence);
    let mut file = OpenOptions::new().append(true).create(true).open(effects).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    Ok(args["wait"].as_u64().unwrap_or(0))
}
