//! Words that have no place in the tree: paths of one person's machine, tests that do not run, unfinished code, silenced
//! lints without a reason, tests that sleep instead of waiting for something.

use super::Problem;
use super::rust::{bracketed, line_of, without_comments};
use super::tree::{Tree, is_test};

/// These two files name the words in order to refuse them.
const EXEMPT: &[&str] = &["xtask/src/tidy/words.rs", "xtask/src/tidy/words/tests.rs"];

const MACHINE_PATHS: &[&str] = &["/work/", "/root/", "/home/"];

/// In the comment above a sleep that nothing can replace.
const SLEEP_REASON: &str = "// sleep: ";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !EXEMPT.contains(path)) {
        machine_paths(path, text, &mut problems);
        if path.ends_with(".rs") {
            let code = without_comments(text);
            unfinished(path, &code, &mut problems);
            silenced(path, &code, &mut problems);
            if is_test(path) {
                sleeps(path, text, &code, &mut problems);
            }
        }
    }
    problems
}

fn machine_paths(path: &str, text: &str, problems: &mut Vec<Problem>) {
    for word in MACHINE_PATHS {
        for (at, _) in text.match_indices(word) {
            // `docs/work/` and `https://example.org/home/` are no paths of a machine.
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || "_-.~/}".contains(c)) {
                continue;
            }
            problems.push(Problem::new(
                format!("{path}:{}", line_of(text, at)),
                format!("`{word}` is a path of one machine"),
                "write it relative to the repository, or ask the system for a temporary folder",
            ));
        }
    }
}

fn unfinished(path: &str, code: &str, problems: &mut Vec<Problem>) {
    let words = [
        ("#[ignore", "a test that does not run proves nothing", "make it run, or remove it"),
        ("todo!(", "unfinished code", "finish it, or answer with a refusal that says so"),
    ];
    for (word, what, fix) in words {
        for (at, _) in code.match_indices(word) {
            problems.push(Problem::new(
                format!("{path}:{}", line_of(code, at)),
                format!("`{}`: {what}", word.trim_end_matches('(')),
                fix,
            ));
        }
    }
}

fn silenced(path: &str, code: &str, problems: &mut Vec<Problem>) {
    for start in ["#[allow(", "#![allow("] {
        for (at, _) in code.match_indices(start) {
            let inside = bracketed(&code[at + start.len() - 1..]).unwrap_or_default();
            if !inside.contains("reason") {
                problems.push(Problem::new(
                    format!("{path}:{}", line_of(code, at)),
                    "a lint is silenced without a reason",
                    "put the cause right, or write `#[expect(lint, reason = \"…\")]`",
                ));
            }
        }
    }
}

fn sleeps(path: &str, text: &str, code: &str, problems: &mut Vec<Problem>) {
    let lines: Vec<&str> = text.lines().collect();
    for word in ["thread::sleep", "time::sleep"] {
        for (at, _) in code.match_indices(word) {
            let line = line_of(code, at);
            let around = &lines[line.saturating_sub(2)..line.min(lines.len())];
            if around.iter().any(|line| line.contains(SLEEP_REASON)) {
                continue;
            }
            problems.push(Problem::new(
                format!("{path}:{line}"),
                format!("`{word}`: a test that sleeps is slow, and fails on a slow machine"),
                format!(
                    "use the injected clock or a barrier; if neither can work, say why above it: `{SLEEP_REASON}…`"
                ),
            ));
        }
    }
}

#[cfg(test)]
mod tests;
