//! What the README tells people to type works, read from its text.

use std::process::Command;

use super::{root, text};

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

#[test]
fn the_readme_has_one_command_to_run_it_and_one_to_test_it() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert_eq!(commands(&readme), ["cargo run --release -- bench store --quick", TEST_COMMAND]);
}

#[test]
fn every_command_of_the_readme_works() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let commands = commands(&readme);
    assert!(commands.iter().any(|command| command == TEST_COMMAND), "the README has no test command: {commands:?}");
    let others: Vec<_> = commands.iter().filter(|command| *command != TEST_COMMAND).collect();
    assert!(!others.is_empty(), "the README has nothing to run");
    for command in others {
        let output = Command::new("sh").args(["-euc", command]).current_dir(root()).output().unwrap();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{command}\n{out}\n{err}");
        assert!(!out.trim().is_empty(), "{command} prints nothing");
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
