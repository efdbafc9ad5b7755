//! What people read with redis-cli: the page `docs/storage/redis.md` is what this test finds in a server, with numbers
//! that differ from run to run left out. A layout that changes is a promise that is broken: it shows here.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use windlass_conformance::harness::Ports;
use windlass_store_redis::{Options, Redis};

use crate::server::Server;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/storage/redis.md");

#[test]
fn the_page_shows_what_is_stored() {
    let server = Server::start(&["--appendonly", "no"]);
    windlass_conformance::harness::block_on(fill(&server));
    let mut found = String::new();
    for (what, asked) in QUESTIONS {
        found += &format!("{what}\n\n```console\n");
        for words in *asked {
            found += &format!("$ redis-cli {words}\n{}", answer(&server, words));
        }
        found += "```\n\n";
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, shown) = page.split_once("<!-- found by a test -->\n\n").unwrap();
    assert!(
        shown.trim_end() == found.trim_end(),
        "docs/storage/redis.md is to be:\n{head}<!-- found by a test -->\n\n{found}"
    );
}

const QUESTIONS: &[(&str, &[&str])] = &[
    (
        "A plan with one task, which has done the first of its stages:",
        &[
            "hgetall windlass:executor:plan:switch-1",
            "hgetall windlass:executor:task:switch-1-0",
            "get windlass:executor:index:tenant:acme",
            "get windlass:executor:ckpt:switch-1-0",
            "hgetall windlass:executor:ckpt:meta:switch-1-0",
            "lrange windlass:executor:history:task:switch-1-0 -1 -1",
        ],
    ),
    (
        "The lock of its tenant:",
        &["get windlass:executor:lock:tenant:acme", "hgetall windlass:executor:lock:meta:acme"],
    ),
    (
        "A job that a worker has:",
        &[
            "get windlass:task:550e8400-e29b-41d4-a716-446655440000:status",
            "get windlass:task:550e8400-e29b-41d4-a716-446655440000:payload",
            "get windlass:task:550e8400-e29b-41d4-a716-446655440000:submitted_at",
            "get windlass:task:550e8400-e29b-41d4-a716-446655440000:started_at",
            "get windlass:task:550e8400-e29b-41d4-a716-446655440000:meta",
            "zrange windlass:queue:running:mail 0 -1",
        ],
    ),
    ("A trigger:", &["zrange windlass:triggers:due 0 -1 withscores", "hgetall windlass:trigger:report"]),
];

pub(crate) async fn fill(server: &Server) {
    let store = Redis::open(&server.url(), &Options::default()).await.unwrap();
    windlass_conformance::sample::fill(&store).await;
    store.close().await;
}

pub(crate) fn ports(store: &Redis) -> Ports {
    Ports { state: Arc::new(store.clone()), locks: Arc::new(store.clone()) }
}

/// What redis-cli says, with the fields of a hash in order and without what another run has otherwise.
fn answer(server: &Server, words: &str) -> String {
    let port = server.port().to_string();
    let output = Command::new("redis-cli").args(["-p", &port]).args(words.split(' ')).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    let text = if words.starts_with("hgetall") {
        let fields: BTreeMap<&str, &str> = lines.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let wide = fields.keys().map(|name| name.len()).max().unwrap_or(0);
        fields.iter().map(|(name, value)| format!("{name:wide$}  {value}").trim_end().to_owned() + "\n").collect()
    } else {
        lines.iter().map(|line| format!("{line}\n")).collect::<String>()
    };
    plain(&text)
}

/// Times and fences of this run, and digests, as dots.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().chain([' ']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        // A time of this century that is not one of the test's own, a fence, or a digest.
        let differs = digits.len() >= 13 && !digits.starts_with("16000") && !digits.starts_with("1800");
        out += if differs { "…" } else { &digits };
        digits.clear();
        out.push(c);
    }
    out.pop();
    out
}
