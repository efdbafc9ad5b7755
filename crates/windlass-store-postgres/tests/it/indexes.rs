//! A list or a claim costs what it answers, not what is stored: with many rows there, PostgreSQL reads none of the large tables as a
//! whole. What it does is taken from its own log (`auto_explain`), under the statements that the store sends.

use std::sync::Arc;

use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::Draft;
use windlass_conformance::world::{Rival, id};
use windlass_core::id::JobId;
use windlass_core::job::NewJob;
use windlass_core::job::rules::Outcome;
use windlass_core::json::Json;
use windlass_core::plan::PlanStatus;
use windlass_core::port::job::{Delivery, Jobs, Turn};
use windlass_core::port::state::{Filter, State};
use windlass_core::port::trigger::{Claim, Save, TriggerFilter, Triggers};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;
use windlass_core::trigger::Made;
use windlass_core::trigger::TriggerStatus;
use windlass_core::trigger::rules::{create, fired};
use windlass_store_postgres::{Options, Postgres};

use crate::server::{self, Server};

/// Rows of each table.
const ROWS: u32 = 30_000;
/// Everything that grows.
const LARGE: [&str; 3] = ["triggers", "task_state_projection", "plan_state_projection"];

/// Many of what is there once, each of its own time, spread over tenants and statuses.
fn fill() -> String {
    let many = |table: &str, one: &str, new: &str| {
        format!(
            "INSERT INTO {table} SELECT (jsonb_populate_record(t, jsonb_build_object({new}))).* \
             FROM {table} t, generate_series(1, {ROWS}) n WHERE {one};"
        )
    };
    let at = |from: &str| format!("to_char({from} + n * interval '1 second', 'YYYY-MM-DD HH24:MI:SSOF')");
    let triggers = format!(
        "'id', 't' || n, 'tenant_id', 'tenant-' || n % 1000, 'trigger_at', {0}, 'try_at', {0},
         'status', CASE WHEN n % 3 = 0 THEN 'COMPLETED' ELSE 'PENDING' END,
         'ended_at', CASE WHEN n % 3 = 0 THEN {1} END,
         'wake_at', CASE WHEN n % 3 > 0 THEN {0} END",
        at("timestamptz '2100-01-01'"),
        at("timestamptz '2020-01-01'")
    );
    let created = at("timestamptz '2020-01-01'");
    let status = "CASE WHEN n % 100 = 0 THEN 'RUNNING' ELSE 'COMPLETED' END";
    let plans = format!("'plan_id', 'p' || n, 'created_at', {created}, 'status', {status}");
    let tasks = format!(
        "'task_id', 'p' || n || '-0', 'plan_id', 'p' || n, 'tenant_id', 'tenant-' || n % 1000, 'created_at', {created},
         'status', {status}, 'owner', NULL"
    );
    many("triggers", "id = 'seed'", &triggers)
        + &many("plan_state_projection", "plan_id = 'seed'", &plans)
        + &many("task_state_projection", "task_id = 'seed-0'", &tasks)
        + "ANALYZE"
}

#[tokio::test]
async fn lists_and_claims_of_many_rows_go_by_an_index() {
    let server = Server::start();
    let plain = server.url();
    let store = Postgres::open(&plain, &Options::default()).await.unwrap();
    seed(&store).await;
    server::execute(&plain, &fill()).await;
    store.close().await;

    let log = &explained(&server, ask).await;
    for table in LARGE {
        let read = log.lines().any(|line| line.contains("Index") && line.contains(&format!(" on {table} ")));
        assert!(read, "nothing was read of {table}:\n{log}");
        let whole = log.lines().find(|line| line.contains(&format!("Seq Scan on {table}")));
        assert!(whole.is_none(), "all of {table} was read: {whole:?}\n{log}");
    }
}

/// A server whose last VACUUM found its tables empty believes that they hold next to nothing, whatever has been written since. It
/// must go by the keys it is given even so: walking a whole table, whose rows it would then compare with them, looks cheaper to it.
#[tokio::test]
async fn what_has_a_key_is_looked_up_in_tables_that_were_empty_at_the_last_vacuum() {
    let server = Server::start();
    let store = Postgres::open(&server.url(), &Options::default()).await.unwrap();
    server::execute(&server.url(), "VACUUM ANALYZE").await;
    store.close().await;
    let log = explained(&server, work).await;
    let lines: Vec<&str> = log.lines().collect();
    for table in
        ["plan_state_projection", "task_state_projection", "task_checkpoint", "tenant_lock", "async_tasks", "triggers"]
    {
        let by_key = format!("Index Scan using {table}_pkey on {table} ");
        let mut looks = lines.windows(2).filter(|lines| lines[0].contains(&by_key)).peekable();
        assert!(looks.peek().is_some(), "nothing was looked up in {table}:\n{log}");
        let walk = looks.find(|lines| !lines[1].contains("Index Cond"));
        assert!(walk.is_none(), "all of {table} was walked: {walk:?}\n{log}");
    }
}

/// What the server has logged of its plans while `does` was done.
async fn explained(server: &Server, does: impl AsyncFnOnce(&Postgres)) -> String {
    let explain = "&options=-csession_preload_libraries%3Dauto_explain%20-cauto_explain.log_min_duration%3D0\
                   %20-cauto_explain.log_nested_statements%3Don";
    let store = Postgres::open(&format!("{}{explain}", server.url()), &Options::default()).await.unwrap();
    let before = std::fs::read_to_string(server.file("log")).unwrap().len();
    does(&store).await;
    store.close().await;
    std::fs::read_to_string(server.file("log")).unwrap().split_off(before)
}

fn rival(store: &Postgres) -> Rival {
    let ports = Ports { state: Arc::new(store.clone()), locks: Arc::new(store.clone()) };
    Rival { ports, me: id("one") }
}

/// A task, a job and a trigger, from their beginning to their end.
async fn work(store: &Postgres) {
    let one = rival(store);
    one.beat(30_000).await;
    let draft = Draft::new("p", &["acme"]).stages(3);
    one.run(&draft).await;
    assert_eq!(one.ready(None, 1).await.len(), 1);
    let attempt = one.begin(&draft.task(0)).await;
    one.stage(&attempt).await;
    one.stage(&attempt).await;
    one.renew(&attempt.held(), 30_000).await.unwrap();
    one.fail(&attempt).await;

    let job = NewJob::new(JobId::random(1), id("work"), Some(Json::null()));
    store.submit(&[vec![job]]).await.unwrap().remove(0).unwrap();
    let (worker, lease_ms) = (id("w"), 30_000);
    let mut turn = Turn { worker, lease_ms, settle: Vec::new(), beat: Vec::new(), want: vec![(id("work"), 1)] };
    let job = store.turn(std::slice::from_ref(&turn)).await.unwrap().remove(0).claimed.remove(0);
    let delivery = Delivery { job: job.id, fence: job.fence };
    turn.beat = vec![delivery];
    store.turn(std::slice::from_ref(&turn)).await.unwrap();
    (turn.beat, turn.settle) = (Vec::new(), vec![(delivery, Outcome::Completed(Json::null()))]);
    assert!(store.turn(&[turn]).await.unwrap().remove(0).settled.remove(0).is_ok());

    let spec = r#"{"schedule": {"every": "1h"}, "target": {"job": {"queue": "mail"}}}"#;
    let trigger = create(id("t"), serde_json::from_str(spec).unwrap(), Ms::new(1)).unwrap();
    Triggers::save(store, &[Save { trigger, notes: Vec::new() }]).await.unwrap().remove(0).unwrap();
    let due = store.claim_due(&id("one"), 30_000, 10).await.unwrap();
    let claim = Claim { trigger: id("t"), fence: due.claimed[0].run.fence };
    Triggers::renew(store, std::slice::from_ref(&claim), 30_000).await.unwrap().remove(0).unwrap();
    let outcome = fired(&due.claimed[0], Made::Called(200), due.at);
    Triggers::settle(store, &[(claim, outcome)]).await.unwrap().remove(0).unwrap();
}

async fn seed(store: &Postgres) {
    let one = rival(store);
    one.beat(30_000).await;
    one.run(&Draft::new("seed", &["acme"])).await;
    let spec = r#"{"schedule": {"at": "2100-01-01T00:00:00Z"}, "target": {"job": {"queue": "mail"}}}"#;
    let trigger = create(id("seed"), serde_json::from_str(spec).unwrap(), Ms::new(1)).unwrap();
    Triggers::save(store, &[Save { trigger, notes: Vec::new() }]).await.unwrap().remove(0).unwrap();
}

/// Every list, its first page and a later one; what is due; claims; retention of what ended.
async fn ask(store: &Postgres) {
    let tasks = |plan: Option<&str>, tenant: Option<&str>, statuses: &[TaskStatus], interrupted| Filter::Tasks {
        plan: plan.map(id),
        tenant: tenant.map(id),
        statuses: Statuses::of(statuses),
        interrupted,
    };
    let filters = [
        Filter::Plans { statuses: Vec::new() },
        Filter::Plans { statuses: vec![PlanStatus::Running] },
        tasks(None, None, &[], false),
        tasks(None, None, &[TaskStatus::Running], false),
        tasks(None, None, &[], true),
        tasks(None, Some("tenant-7"), &[], false),
        tasks(Some("p77"), None, &[], false),
        tasks(Some("p77"), Some("tenant-77"), &[], false),
    ];
    for filter in filters {
        let first = State::list(store, &filter, None, 10).await.unwrap();
        if first.next.is_some() {
            assert_eq!(State::list(store, &filter, first.next.as_ref(), 10).await.unwrap().items.len(), 10);
        }
    }
    let filters = [
        TriggerFilter::default(),
        TriggerFilter { statuses: vec![TriggerStatus::Pending], ..TriggerFilter::default() },
        TriggerFilter { waiting: true, ..TriggerFilter::default() },
    ];
    for filter in filters {
        let first = Triggers::list(store, &filter, None, 10).await.unwrap();
        Triggers::list(store, &filter, first.next.as_ref(), 10).await.unwrap();
    }
    assert_eq!(store.find_due(Ms::new(4_200_000_000_000), 10).await.unwrap().len(), 10);
    assert_eq!(store.claim_due(&id("one"), 1_000, 10).await.unwrap().claimed.len(), 0);
    assert_eq!(Triggers::load(store, &[id("t5"), id("nobody")]).await.unwrap().iter().flatten().count(), 1);
    assert_eq!(Triggers::purge(store, Ms::new(1_600_000_000_000), 10).await.unwrap(), 10);
}
