//! The executable as people use it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "these are tests from end to end, and campaigns say what they came to"
)]

mod bench;
mod demo;
mod examples;
mod faults;
mod kill_points;
mod kill_works;
#[expect(dead_code, reason = "the store's own tests need more of it")]
#[path = "../../../windlass-store-mysql/tests/it/server.rs"]
mod mysql_server;
mod plan;
mod readme;
#[expect(dead_code, reason = "the store's own tests need more of it")]
#[path = "../../../windlass-store-redis/tests/it/server.rs"]
mod redis_server;
#[expect(dead_code, reason = "the store's own tests need more of it")]
#[path = "../../../windlass-store-postgres/tests/it/server.rs"]
mod server;
mod serving;
mod several;
mod stopped_holder;
mod transcript;
mod up;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn windlass(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass")).args(args).current_dir(root()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The example stands beside the tests: `cargo test` and `cargo nextest run` build it with them.
fn puppet() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples/puppet");
    assert!(program.exists(), "{} is not there; is the example built?", program.display());
    program
}

#[expect(clippy::disallowed_methods, reason = "how a long campaign is asked for")]
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
