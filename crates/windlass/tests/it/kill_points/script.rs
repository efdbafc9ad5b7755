//! What is interrupted: a plan, what its stages do, and a person who sees it through. The same in the process that dies and
//! in the one that comes after it.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass::core::id::PlanId;
use windlass::core::json::Json;
use windlass::core::task::command::{Command, Retry, RetryFrom};
use windlass::engine::command::plan::Verb;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::command::{Caller, IdempotencyKey};
use windlass::engine::query::inbox::{Item, Kind};
use windlass::engine::stage::{Told, Trouble};
use windlass::engine::{Error, Options};
use windlass::{Builder, SubmitError, Windlass};

use crate::fault::Watched;

/// Three tenants: one runs through, one asks for an approval, one fails at first.
pub(crate) const PLAN: &str = "
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
";

pub(crate) fn plan_id() -> PlanId {
    "kill-points".parse().unwrap()
}

/// Quick to look, so that a test need not wait long to see that nothing is taken.
pub(crate) fn options(lease_ms: u64) -> Options {
    Options { lease_ms, beat_ms: lease_ms / 6, scan_ms: 20, lock_renew_ms: 100, janitor_ms: 100, ..Options::default() }
}

/// An engine over `store`, whose stages write their effects to this file.
pub(crate) fn builder(store: &Arc<Watched>, effects: &Path, lease_ms: u64) -> Builder {
    let effects: PathBuf = effects.into();
    let effect = move |told: Told, args: Json| {
        let done = effect(&effects, &told, &args);
        async move { done }
    };
    Windlass::builder().stores(store.stores()).options(options(lease_ms)).handler("effect", effect)
}

/// One line, whole, and on its way to the disk before the stage is done: what a target does.
fn effect(effects: &Path, told: &Told, args: &Json) -> Result<Option<Json>, Trouble> {
    if args.to_string().contains("true") && told.attempt == 1 {
        return Err(Trouble { again: false, ..Trouble::stage("it is not ready yet") });
    }
    let key = told.idempotency_key();
    let line = format!("{} {} {} {} {key}\n", told.tenant, told.stage, told.pass, told.fence);
    let mut file = OpenOptions::new().append(true).create(true).open(effects).unwrap();
    file.write_all(line.as_bytes()).unwrap();
    Ok(None)
}

/// Creates and starts the plan, or answers as before if that was done.
pub(crate) async fn create(windlass: &Windlass) -> Result<PlanId, SubmitError> {
    let key = Some(IdempotencyKey { credential: "tests".to_owned(), key: "create".to_owned() });
    let caller = Caller { key, ..ann() };
    Ok(windlass.submit(PLAN, &caller).await?.plan)
}

pub(crate) fn ann() -> Caller {
    Caller::new("ann".parse().unwrap())
}

/// Sees the plan to its end: answers what waits, of these kinds, until nothing does and no tenant is locked any more.
pub(crate) async fn see_through(windlass: &Windlass, plan: &PlanId, kinds: &[Kind]) {
    let mut news = windlass.subscribe();
    loop {
        let items = windlass.inbox().await.unwrap().0;
        for item in items.iter().filter(|item| kinds.contains(&item.kind)) {
            answer(windlass, item).await;
        }
        let ended = windlass.view_plan(plan).await.unwrap().plan.status.is_final();
        if ended && windlass.stores().locks.list(None, 10).await.unwrap().items.is_empty() {
            return;
        }
        // Locks are given back without an event, and a lease ends without one: look again now and then.
        drop(tokio::time::timeout(Duration::from_millis(20), news.recv()).await);
    }
}

/// What a person does about it. What the engine refuses has changed since it was listed.
async fn answer(windlass: &Windlass, item: &Item) {
    let task = |command| Order { which: Which::Task(item.task.clone().unwrap()), command, config: None };
    let retry = Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false });
    let done = match item.kind {
        Kind::InterruptedPlan | Kind::PausedPlan => windlass.plan(&item.plan, Verb::Resume, &ann()).await,
        Kind::InterruptedTask | Kind::Failure => windlass.task(&task(retry), &ann()).await,
        Kind::Approval => windlass.task(&task(Command::Approve), &ann()).await,
        Kind::PausedTask | Kind::FailedRollback | Kind::FrozenTask => panic!("{item:?} is not in the script"),
    };
    assert!(matches!(done, Ok(_) | Err(Error::Refused(_) | Error::Store(_))), "{item:?}: {done:?}");
}
