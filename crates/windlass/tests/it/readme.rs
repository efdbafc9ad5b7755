//! What the README tells people to type works, read from its text.

use std::process::Command;

use super::{root, text};

/// The commands of every `sh` block, in order.
fn commands(readme: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside && !command.is_empty() && !command.starts_with('#') => commands.push(command.to_owned()),
            _ => {}
        }
    }
    commands
}

/// This test is part of what that command runs.
const TEST_COMMAND: &str = "cargo xtask test";

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
fn the_test_command_is_what_the_build_server_runs() {
    let run = std::fs::read_to_string(root().join(".ci/run")).unwrap();
    assert!(run.lines().any(|line| line == TEST_COMMAND), "{run}");
}
