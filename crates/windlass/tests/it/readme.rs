//! What the README tells people to type works, read from its text.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use super::demo::{Talker, Town};
use super::{mysql_server, redis_server, root, server, setting, transcript};

/// The release may have to be built first.
const BUILT_WITHIN: Duration = Duration::from_secs(20 * 60);

/// Every block of this language, in order.
fn blocks<'a>(readme: &'a str, language: &str) -> Vec<&'a str> {
    let begins = format!("```{language}\n");
    readme.split(&begins).skip(1).map(|rest| rest.split("```").next().unwrap()).collect()
}

/// The commands of every `sh` block, in order.
fn commands(readme: &str) -> Vec<String> {
    let lines = blocks(readme, "sh").into_iter().flat_map(str::lines).map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// This test is part of what that command runs.
const TEST_COMMAND: &str = "cargo xtask test";
const DEMO_COMMAND: &str = "cargo run --release -- demo";

#[test]
fn the_readme_has_one_command_to_run_it_and_one_to_test_it() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert_eq!(commands(&readme), [DEMO_COMMAND, TEST_COMMAND]);
}

#[test]
fn the_first_command_of_the_readme_runs_a_plan_until_it_waits_for_a_person() {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {DEMO_COMMAND}")]).current_dir(root());
    // On a port that is free here.
    let process = Talker::start(command.env("WINDLASS_SERVER_LISTEN", "127.0.0.1:0"));
    let mut town = Town::of(process, BUILT_WITHIN);
    town.settled();
    assert!(town.ask(&["inbox"]).len() > 2);
    assert!(town.process.end(Signal::TERM).success());
}

/// The same walk, on a store that others share.
fn on_a_server(store: &str, environment: &[(&str, &str)]) {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let walk = blocks(&readme, "console").remove(0);
    let dir = tempfile::tempdir().unwrap();
    let mut town = Town::demo_on(store, dir.path(), environment);
    town.settled();
    let now = transcript::typed(&town, walk);
    assert!(*walk == now, "the README says\n{walk}\nand this is printed\n{now}");
}

#[test]
fn the_walk_of_the_readme_prints_the_same_on_redis() {
    let space = redis_server::space();
    on_a_server(&space.url, &[("WINDLASS_REDIS_PREFIX", &space.prefix)]);
}

#[test]
fn the_walk_of_the_readme_prints_the_same_on_postgres() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    on_a_server(&runtime.block_on(server::schema()).url, &[]);
}

#[test]
fn the_walk_of_the_readme_prints_the_same_on_mysql() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(mysql_server::database());
    on_a_server(&database.url, &[]);
}

#[test]
fn the_walk_of_the_readme_prints_what_it_says() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let walk = blocks(&readme, "console");
    let [walk] = walk.as_slice() else { panic!("one walk, not {}", walk.len()) };
    let dir = tempfile::tempdir().unwrap();
    let mut town = Town::demo(dir.path());
    town.settled();
    let now = transcript::typed(&town, walk);
    if setting("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, readme.replace(*walk, &now)).unwrap();
    } else {
        assert!(*walk == now, "the README says\n{walk}\nand this is printed\n{now}");
    }
}

#[test]
fn the_program_of_the_readme_is_the_example_and_prints_what_it_says() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let example = std::fs::read_to_string(root().join("crates/windlass/examples/handlers.rs")).unwrap();
    // Before it are what it is about and a lint.
    let program = &example[example.find("\nuse ").unwrap() + 1..];
    assert_eq!(blocks(&readme, "rust"), [program]);
    let printed: Vec<_> = blocks(&readme, "text").into_iter().flat_map(str::lines).collect();
    assert_eq!(printed, super::examples::run("handlers"));
}

#[test]
fn the_test_command_is_what_the_build_server_runs() {
    let run = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(run.lines().any(|line| line == TEST_COMMAND), "{run}");
}
