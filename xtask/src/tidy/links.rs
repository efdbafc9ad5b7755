//! A link in a document to a file of the repository leads to a file of the repository.

use super::Problem;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    if tree.text("README.md").is_none() {
        problems.push(Problem::new("README.md", "there is no README", "put it back"));
    }
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        for (line, target) in links(text) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !resolved(path, target).is_some_and(|to| tree.holds(&to)) {
                problems.push(Problem::new(
                    format!("{path}:{line}"),
                    format!("the link to {target} leads nowhere"),
                    "correct it; links are relative to the file they are in",
                ));
            }
        }
    }
    problems
}

/// The targets of `[text](target)` and `[name]: target` with their lines, outside code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence = None;
    for (number, line) in text.lines().enumerate() {
        let mark = line.trim_start().get(..3).filter(|mark| ["```", "~~~"].contains(mark));
        match (fence, mark) {
            (None, Some(open)) => fence = Some(open),
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => found.extend(targets(line).map(|target| (number + 1, target))),
        }
    }
    found
}

fn targets(line: &str) -> impl Iterator<Item = String> {
    // Every second piece between backticks is code.
    let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let inline: Vec<String> = prose
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
        .filter_map(|inside| inside.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect();
    let reference = prose
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("]: "))
        .and_then(|(_, target)| target.split_whitespace().next())
        .map(str::to_owned);
    inline.into_iter().chain(reference)
}

/// The path from the root, or nothing when the link leaves the repository.
fn resolved(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    // A leading `/` means the web server's root, which is not ours.
    (!target.starts_with('/')).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests;
