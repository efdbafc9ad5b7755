//! Every key that is written, with its type and its fields: `tests/data/layout.txt`. What is stored under an older version must be
//! read by a newer one, so a difference here is a change of format and is meant or is a mistake.
//! `WINDLASS_BLESS=1` writes the file.

use std::collections::BTreeSet;

use redis::Connection;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Rival, id};
use windlass_core::job::limit::{Limits, Rule, Scope};
use windlass_core::job::rules::{JobAsk, Outcome};
use windlass_core::job::{Asker, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::job::{Delivery, Jobs, Turn};
use windlass_core::port::lock::Force;
use windlass_core::port::trigger::{Claim, Save, Triggers};
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;
use windlass_core::trigger::rules;
use windlass_store_redis::{Options, Redis};

use crate::layout;
use crate::server::Server;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/layout.txt");

#[test]
fn every_key_has_the_type_and_the_fields_that_it_had() {
    let server = Server::start(&["--appendonly", "no"]);
    let mut client = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    windlass_conformance::harness::block_on(async {
        layout::fill(&server).await;
        let store = Redis::open(&server.url(), &Options::default()).await.unwrap();
        let one = Rival { ports: layout::ports(&store), me: id("one") };
        one.beat(30_000).await;
        plans(&one).await;
        sealed(&one, &mut client).await;
        jobs(&store).await;
        triggers(&store).await;
        store.close().await;
    });
    let found = described(&mut client);
    #[expect(clippy::disallowed_methods, reason = "how the file is written")]
    if std::env::var("WINDLASS_BLESS").is_ok() {
        std::fs::write(GOLDEN, &found).unwrap();
    }
    let kept = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(kept == found, "{GOLDEN} says\n{kept}\nand this is stored\n{found}");
}

/// A plan that ended, one that is asked for things, a tenant that is frozen.
async fn plans(one: &Rival) {
    let ended = Draft::new("over-1", &["blue"]);
    one.run(&ended).await;
    let attempt = one.begin(&ended.task(0)).await;
    one.stage(&attempt).await;
    one.fail(&attempt).await;
    one.end(&ended.id(), Ms::new(1_600_000_000_000)).await;
    let again = Draft::new("again-1", &["blue"]);
    one.run(&again).await;
    let attempt = one.begin(&again.task(0)).await;
    one.fail(&attempt).await;
    one.done(&step::asks("start", &again.task(0), &[TaskStatus::Failed], step::retry())).await;
    let asked = Draft::new("asked-1", &["cyan", "dune"]);
    one.run(&asked).await;
    let attempt = one.begin(&asked.task(0)).await;
    one.stage(&attempt).await;
    for (op, request) in [("pause", step::pause()), ("cancel", step::cancel())] {
        one.done(&step::asks(op, &asked.task(0), &[TaskStatus::Running], request)).await;
    }
    one.take(&asked.task(1)).await.unwrap();
    let by = id("eve");
    let forced = one.ports.locks.force(&id("frozen"), Force::Freeze, &by, Some(&id("a fire")), None).await;
    forced.unwrap().unwrap();
    one.ports.locks.force(&id("blue"), Force::Release, &by, None, None).await.unwrap().unwrap();
}

/// A task whose boundaries go straight in.
async fn sealed(one: &Rival, server: &mut Connection) {
    let draft = Draft::new("sealed-1", &["fern"]).stages(900);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    while !redis::cmd("EXISTS").arg("windlass:executor:seal:one").query::<bool>(server).unwrap() {
        one.stage(&attempt).await;
    }
}

/// One for each status, with and without a tenant and a key; a rule of each sort.
async fn jobs(store: &Redis) {
    let number = |n: u128| windlass_core::id::JobId::random(n);
    let new = |n| NewJob { tenant: Some(id("acme")), ..NewJob::new(number(n), id("format"), None) };
    let keyed = NewJob { key: Some("k".to_owned()), priority: 3, ..new(1) };
    let later = NewJob { when: When::At(Ms::new(4_000_000_000_000)), tenant: None, ..new(2) };
    store.submit(&[vec![keyed, later, new(3), new(4), new(5)]]).await.unwrap().remove(0).unwrap();
    let turn = |settle, want| Turn { worker: id("w"), lease_ms: 30_000, settle, beat: Vec::new(), want };
    let claimed = store.turn(&[turn(Vec::new(), vec![(id("format"), 3)])]).await.unwrap().remove(0).claimed;
    let error = serde_json::from_str(r#"{"class":"Oops","message":"no","code":"7","previous":{"message":"why"}}"#);
    let outcomes = [
        Outcome::Completed(Json::parse("null").unwrap()),
        Outcome::Failed { error: Box::new(error.unwrap()), retry: false, spread: 0 },
    ];
    let deliveries = claimed.iter().map(|job| Delivery { job: job.id, fence: job.fence });
    let settle: Vec<_> = deliveries.zip(outcomes).collect();
    store.turn(&[turn(settle, Vec::new())]).await.unwrap();
    let asker = Asker { by: id("eve"), reason: Some(id("enough")), at: Ms::new(1) };
    let all: Vec<_> = (1..6).map(number).collect();
    Jobs::ask(store, &all, JobAsk::Cancel, &asker).await.unwrap();
    let limits = Limits { running: Some(2), waiting: Some(5) };
    let rule = |scope, held| Rule { scope, limits, held };
    let rules = [
        rule(Scope::Queue(id("format")), Some(asker)),
        rule(Scope::Tenant(id("acme")), None),
        rule(Scope::EachTenant, None),
    ];
    store.set_rules(&rules).await.unwrap();
}

/// One that waits, one that is carried out, one that fired, one that is dead, one that is paused.
async fn triggers(store: &Redis) {
    let begin = Ms::new(1_600_000_000_000);
    let spec = r#"{"schedule": {"at": "2020-09-13T12:26:40Z"}, "target": {"job": {"queue": "mail"}}, "payload": 7,
        "tenant": "acme", "maxRetries": 0, "overlap": "skip", "recovery": "held", "misfire": "skip"}"#;
    let asker = Asker { by: id("eve"), reason: None, at: begin };
    let made = |name: &str| rules::create(id(name), serde_json::from_str(spec).unwrap(), begin).unwrap();
    let paused = rules::pause(&made("paused"), &asker);
    let saves: Vec<_> = ["runs", "fired", "dead"].map(made).into_iter().chain([paused]).collect();
    let saves: Vec<_> = saves.into_iter().map(|trigger| Save { trigger, notes: Vec::new() }).collect();
    Triggers::save(store, &saves).await.unwrap();
    for trigger in store.claim_due(&id("one"), 30_000, 10).await.unwrap().claimed {
        let claim = Claim { trigger: trigger.id.clone(), fence: trigger.run.fence };
        let outcome = match trigger.id.as_str() {
            "fired" => rules::fired(&trigger, windlass_core::trigger::Made::Called(200), begin),
            "dead" => rules::failed(&trigger, "it does not work", 0, begin),
            _ => continue,
        };
        store.settle(&[(claim, outcome)]).await.unwrap().remove(0).unwrap();
    }
}

/// A line for each sort of key: what differs from run to run is left out, and what there is many of is there once.
fn described(server: &mut Connection) -> String {
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(server).unwrap();
    let mut lines = BTreeSet::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(server).unwrap();
        let fields: Vec<String> = match kind.as_str() {
            "hash" => redis::cmd("HKEYS").arg(&key).query(server).unwrap(),
            "string" => members(&redis::cmd("GET").arg(&key).query::<String>(server).unwrap()),
            "list" => members(&redis::cmd("LINDEX").arg(&key).arg(-1).query::<String>(server).unwrap()),
            _ => Vec::new(),
        };
        let mut fields: Vec<String> = fields.into_iter().map(|field| layout::plain(&field)).collect();
        fields.sort();
        lines.insert(format!("{} {kind} {}", ids(&layout::plain(&key)), fields.join(" ")).trim_end().to_owned());
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The members of a JSON object, how long an array is, or nothing.
fn members(text: &str) -> Vec<String> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(map)) => map.keys().cloned().collect(),
        Ok(serde_json::Value::Array(items)) => vec![format!("[{}]", items.len())],
        _ => Vec::new(),
    }
}

/// The id of a job is as long as any other's.
fn ids(key: &str) -> String {
    let part = |part: &str| match part.len() == 36 && part.matches('-').count() == 4 {
        true => "<job>".to_owned(),
        false => part.to_owned(),
    };
    key.split(':').map(part).collect::<Vec<_>>().join(":")
}
