//! What people read with psql: the page `docs/storage/postgres.md` is what this test finds in a server, with what differs from run to
//! run left out. A layout that changes is a promise that is broken: it shows here.

use windlass_store_postgres::{Options, Postgres};

use crate::server::Server;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/storage/postgres.md");

const QUESTIONS: &[(&str, &[&str])] = &[
    (
        "A plan with one task, which has done the first of its stages:",
        &[
            "SELECT * FROM plan_state_projection",
            "SELECT * FROM task_state_projection",
            "SELECT * FROM tenant_state",
            "SELECT * FROM task_checkpoint",
            "SELECT * FROM task_event ORDER BY seq DESC LIMIT 1",
        ],
    ),
    ("The lock of its tenant:", &["SELECT * FROM tenant_lock"]),
    ("A job that a worker has:", &["SELECT * FROM async_tasks"]),
    ("A trigger:", &["SELECT * FROM triggers"]),
];

#[tokio::test]
async fn the_page_shows_what_is_stored() {
    let server = Server::start();
    let store = Postgres::open(&server.url(), &Options::default()).await.unwrap();
    windlass_conformance::sample::fill(&store).await;
    store.close().await;
    let mut found = String::new();
    for (what, asked) in QUESTIONS {
        found += &format!("{what}\n\n```console\n");
        for sql in *asked {
            found += &format!("$ psql -x -c '{sql}'\n{}", answer(&server, sql));
        }
        found += "```\n\n";
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, shown) = page.split_once("<!-- found by a test -->\n\n").unwrap();
    assert!(
        shown.trim_end() == found.trim_end(),
        "docs/storage/postgres.md is to be:\n{head}<!-- found by a test -->\n\n{found}"
    );
}

/// What psql says, without what another run has otherwise: times of today, fences, digests.
fn answer(server: &Server, sql: &str) -> String {
    let said = server.psql(&["-x", "-A", "-F", "|", "-c", &format!("SET TIME ZONE 'UTC'; {sql}")]);
    let rows: Vec<(&str, &str)> = said.lines().filter_map(|line| line.split_once('|')).collect();
    let wide = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, value)| format!("{name:wide$} | {}", plain(name, value)).trim_end().to_owned() + "\n")
        .collect()
}

fn plain(name: &str, value: &str) -> String {
    // The times of the plan and of the trigger are the test's own; the others are of the day it runs.
    let own = ["2020-09-13", "2027-01-", "1970-01-01"].iter().any(|day| value.starts_with(day));
    if !own && !value.is_empty() && (name == "at" || name.ends_with("_at") || name.ends_with("_until")) {
        return "…".to_owned();
    }
    let mut out = String::new();
    let mut digits = String::new();
    for c in value.chars().chain([' ']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out += if digits.len() >= 13 { "…" } else { &digits };
        digits.clear();
        out.push(c);
    }
    out.pop();
    out
}
