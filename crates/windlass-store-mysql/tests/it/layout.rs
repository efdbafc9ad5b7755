//! What people read with the `mariadb` client: the page `docs/storage/mysql.md` is what this test finds in a server, with what differs
//! from run to run left out. A layout that changes is a promise that is broken: it shows here.

use std::process::Command;
use std::sync::Arc;

use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::Draft;
use windlass_conformance::world::{Rival, id};
use windlass_core::id::JobId;
use windlass_core::job::NewJob;
use windlass_core::json::Json;
use windlass_core::port::job::{Jobs, Turn};
use windlass_core::port::trigger::{Save, Triggers};
use windlass_core::time::Ms;
use windlass_core::trigger::rules::create;
use windlass_store_mysql::{MySql, Options};

use crate::server::{Server, database_on};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/storage/mysql.md");
const JOB: &str = "550e8400-e29b-41d4-a716-446655440000";

const QUESTIONS: &[(&str, &[&str])] = &[
    (
        "A plan with one task, which has done the first of its stages:",
        &[
            r"SELECT * FROM plan_state_projection\G",
            r"SELECT * FROM task_state_projection\G",
            r"SELECT * FROM tenant_state\G",
            r"SELECT * FROM task_checkpoint\G",
            r"SELECT * FROM task_event ORDER BY seq DESC LIMIT 1\G",
        ],
    ),
    ("The lock of its tenant:", &[r"SELECT * FROM tenant_lock\G"]),
    ("A job that a worker has:", &[r"SELECT * FROM async_tasks\G"]),
    ("A trigger:", &[r"SELECT * FROM triggers\G"]),
];

#[tokio::test]
async fn the_page_shows_what_is_stored() {
    let server = Server::start();
    let database = database_on(&server.url()).await;
    fill(&database.url).await;
    let mut found = String::new();
    for (what, asked) in QUESTIONS {
        found += &format!("{what}\n\n```console\n");
        for sql in *asked {
            found += &format!("$ mariadb windlass -e '{sql}'\n{}", answer(&server, &database.name, sql));
        }
        found += "```\n\n";
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, shown) = page.split_once("<!-- found by a test -->\n\n").unwrap();
    assert!(
        shown.trim_end() == found.trim_end(),
        "docs/storage/mysql.md is to be:\n{head}<!-- found by a test -->\n\n{found}"
    );
}

async fn fill(url: &str) {
    let store = MySql::open(url, &Options::default()).await.unwrap();
    let ports = Ports { state: Arc::new(store.clone()), locks: Arc::new(store.clone()) };
    let one = Rival { ports, me: id("one") };
    one.beat(30_000).await;
    let draft = Draft::new("switch-1", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    one.stage(&attempt).await;
    let job: JobId = JOB.parse().unwrap();
    let payload = Json::parse(r#"{"to":"somebody@example.org"}"#).unwrap();
    let new = NewJob { tenant: Some(id("acme")), ..NewJob::new(job, id("mail"), Some(payload)) };
    store.submit(&[vec![new]]).await.unwrap().remove(0).unwrap();
    let want = vec![(id("mail"), 1)];
    let turn = Turn { worker: id("worker-1"), lease_ms: 30_000, settle: Vec::new(), beat: Vec::new(), want };
    assert_eq!(store.turn(&[turn]).await.unwrap()[0].claimed.len(), 1);
    let spec =
        r#"{"schedule": {"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"}, "target": {"job": {"queue": "mail"}}}"#;
    let trigger = create(id("report"), serde_json::from_str(spec).unwrap(), Ms::new(1_800_000_000_000)).unwrap();
    Triggers::save(&store, &[Save { trigger, notes: Vec::new() }]).await.unwrap().remove(0).unwrap();
    store.close();
}

/// What the client says, without what another run has otherwise: times of today, fences, digests.
fn answer(server: &Server, database: &str, sql: &str) -> String {
    let socket = format!("--socket={}", server.socket().display());
    let client = Command::new("mariadb").args(["--no-defaults", "-uroot", &socket, database, "-e", sql]).output();
    let said = String::from_utf8(client.unwrap().stdout).unwrap();
    said.lines().filter(|line| !line.starts_with("***")).map(|line| plain(line) + "\n").collect()
}

fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in line.chars().chain([' ']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out += if digits.len() >= 13 { "…" } else { &digits };
        digits.clear();
        out.push(c);
    }
    out.pop();
    // The times of the plan and of the trigger are the test's own; the others are of the day it runs.
    match out.split_once(": ") {
        Some((name, value)) if name.ends_with("_at") || name.ends_with("_until") => {
            let own = value.starts_with("2020-09-13") || value.starts_with("2027-01-") || value == "NULL";
            let own = own || value.starts_with("1970-01-01");
            if own { out } else { format!("{name}: …") }
        }
        _ => out,
    }
}
