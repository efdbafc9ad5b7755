//! A little of everything, for the pages in `docs/storage` that show what a store keeps: a plan with one task that has done the
//! first of its stages, the lock of its tenant, a job that a worker has, a trigger.

use std::sync::Arc;

use windlass_core::id::JobId;
use windlass_core::job::NewJob;
use windlass_core::json::Json;
use windlass_core::port::job::{Jobs, Turn};
use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;
use windlass_core::port::trigger::{Save, Triggers};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::create;

use crate::harness::Ports;
use crate::world::step::Draft;
use crate::world::{Rival, id};

const JOB: &str = "550e8400-e29b-41d4-a716-446655440000";

/// Puts it into an empty store.
pub async fn fill<S: State + Locks + Jobs + Triggers + Clone + 'static>(store: &S) {
    let ports = Ports { state: Arc::new(store.clone()), locks: Arc::new(store.clone()) };
    let one = Rival { ports, me: id("one") };
    one.beat(30_000).await;
    let draft = Draft::new("switch-1", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.stage(&attempt).await;
    let job: JobId = JOB.parse().expect("an id");
    let payload = Json::parse(r#"{"to":"somebody@example.org"}"#).expect("JSON");
    let new = NewJob { tenant: Some(id("acme")), ..NewJob::new(job, id("mail"), Some(payload)) };
    store.submit(&[vec![new]]).await.expect("submit").remove(0).expect("taken");
    let want = vec![(id("mail"), 1)];
    let turn = Turn { worker: id("worker-1"), lease_ms: 30_000, settle: Vec::new(), beat: Vec::new(), want };
    assert_eq!(store.turn(&[turn]).await.expect("turn")[0].claimed.len(), 1);
    let spec =
        r#"{"schedule": {"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"}, "target": {"job": {"queue": "mail"}}}"#;
    let spec = Json::parse(spec).expect("JSON").to().expect("a trigger");
    let trigger = create(id("report"), spec, Ms::new(1_800_000_000_000)).expect("a trigger");
    let saved = Triggers::save(store, &[Save { trigger, notes: Vec::new() }]).await.expect("save");
    assert_eq!(saved, [Ok(1)]);
}
