//! What people read with the `mariadb` client: the page `docs/storage/mysql.md` is what this test finds in a server, with what differs
//! from run to run left out. A layout that changes is a promise that is broken: it shows here.

use std::process::Command;

use windlass_store_mysql::{MySql, Options};

use crate::server::{Server, database_on};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/storage/mysql.md");

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
    windlass_conformance::sample::fill(&store).await;
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
