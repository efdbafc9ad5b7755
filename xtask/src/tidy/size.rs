//! Files stay short enough to read in one go. Generated ones and golden files are exempt: nobody reads them.

use super::tree::Tree;
use super::{Problem, rust};

const LINES_MAX: usize = 500;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    if tree.rust().next().is_none() {
        return vec![Problem::new(".", "there is no Rust file to measure", "run this in the repository")];
    }
    tree.rust()
        .filter(|(path, text)| !path.contains("/golden/") && !is_generated(text))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| {
            Problem::new(
                path,
                format!("{lines} lines, {LINES_MAX} at most"),
                "split it where a reader would pause; tests go to `<module>/tests.rs`",
            )
        })
        .collect()
}

/// The mark must be a comment on the first line; a file that only mentions it is not generated.
fn is_generated(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.contains("@generated") && rust::without_comments(first).trim().is_empty()
}

#[cfg(test)]
mod tests;
