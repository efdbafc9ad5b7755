//! Every error code that a person can meet has a page, and no page explains a code that nothing says any more.

use std::collections::BTreeMap;

use super::Problem;
use super::rust::{line_of, without_comments};
use super::tree::{Tree, is_test};

const PAGES: &str = "docs/errors/";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let codes = codes_in_source(tree);
    let mut problems: Vec<_> = codes
        .iter()
        .filter(|(code, _)| tree.text(&page(code)).is_none())
        .map(|(code, at)| {
            Problem::new(
                at,
                format!("{code} has no page"),
                format!("write {}: what happened, why, what to do", page(code)),
            )
        })
        .collect();
    for (path, text) in tree.texts() {
        let Some(name) = path.strip_prefix(PAGES).and_then(|file| file.strip_suffix(".md")) else { continue };
        if !name.starts_with("WL-") {
            continue;
        }
        if !codes.contains_key(name) {
            problems.push(Problem::new(
                path,
                format!("nothing in crates/*/src says {name}"),
                "remove the page, or name it after the code it explains",
            ));
        }
        if !text.lines().next().is_some_and(|line| line.starts_with("# ") && line.contains(name)) {
            problems.push(Problem::new(path, format!("the first line is no heading with {name}"), "begin with one"));
        }
    }
    problems
}

fn page(code: &str) -> String {
    format!("{PAGES}{code}.md")
}

/// Each code with the first place that says it. Comments and tests say nothing to anybody.
fn codes_in_source(tree: &Tree) -> BTreeMap<String, String> {
    let mut codes = BTreeMap::new();
    for (path, text) in tree.rust().filter(|(path, _)| is_source(path)) {
        let code = without_comments(text);
        for (at, _) in code.match_indices("WL-") {
            let digits: String = code[at + 3..].chars().take_while(char::is_ascii_digit).collect();
            if digits.len() == 4 {
                codes.entry(format!("WL-{digits}")).or_insert_with(|| format!("{path}:{}", line_of(&code, at)));
            }
        }
    }
    codes
}

fn is_source(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "src", ..]) && !is_test(path)
}

#[cfg(test)]
mod tests;
