//! The contract is one list and every store runs it. A scenario that is written and not listed would run nowhere; a
//! store without a test of the contract would promise nothing.

use std::collections::BTreeSet;

use super::Problem;
use super::rust::{bracketed, line_of, without_comments};
use super::tree::Tree;

/// A part of the contract: its folder of scenarios, and the list of them.
struct Part {
    scenarios: &'static str,
    list: &'static str,
}

const PARTS: [Part; 3] = [
    Part { scenarios: "crates/windlass-conformance/src/scenario/", list: "crates/windlass-conformance/src/list.rs" },
    Part {
        scenarios: "crates/windlass-conformance/src/job/scenario/",
        list: "crates/windlass-conformance/src/job/list.rs",
    },
    Part {
        scenarios: "crates/windlass-conformance/src/trigger/scenario/",
        list: "crates/windlass-conformance/src/trigger/list.rs",
    },
];

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems: Vec<Problem> = PARTS.iter().flat_map(|part| unlisted(tree, part)).collect();
    problems.extend(stores_without_contract(tree));
    problems
}

fn unlisted(tree: &Tree, part: &Part) -> Vec<Problem> {
    let Some(list) = tree.text(part.list) else {
        return vec![Problem::new(part.list, "there is no list of scenarios", "list them in `scenarios! { … }` there")];
    };
    let listed = listed(list);
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for name in &listed {
        if !seen.insert(name) {
            problems.push(Problem::new(part.list, format!("{name} is listed twice"), "remove one of them"));
        }
    }
    let mut found = 0;
    for (path, text) in tree.rust().filter(|(path, _)| path.starts_with(part.scenarios)) {
        let module = path[part.scenarios.len()..].trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        for (name, line) in scenarios(text) {
            found += 1;
            let name = format!("{module}::{name}");
            if !seen.contains(&name) {
                problems.push(Problem::new(
                    format!("{path}:{line}"),
                    format!("the scenario {name} is not in the list, so no store runs it"),
                    format!("add it to {}", part.list),
                ));
            }
        }
    }
    if found == 0 {
        problems.push(Problem::new(
            part.scenarios,
            "there is no scenario",
            "write them as `pub async fn name(h: &dyn Harness)`",
        ));
    }
    problems
}

/// The entries of `scenarios! { theme::{ name, … } … }`, as `theme::name`. What is commented out is not listed.
fn listed(list: &str) -> Vec<String> {
    let code = without_comments(list);
    let mut names = Vec::new();
    for (at, call) in code.match_indices("scenarios!") {
        let body = bracketed(code[at + call.len()..].trim_start()).unwrap_or_default();
        for (at, colons) in body.match_indices("::") {
            let theme = body[..at].rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default();
            let group = bracketed(&body[at + colons.len()..]).unwrap_or_default();
            let entries = group.split(',').map(str::trim).filter(|name| !name.is_empty());
            names.extend(entries.map(|name| format!("{theme}::{name}")));
        }
    }
    names
}

/// The scenarios of one file with their lines: public asynchronous functions whose first parameter is the harness `h`.
fn scenarios(text: &str) -> Vec<(String, usize)> {
    let code = without_comments(text);
    let mut found = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let Some(rest) = after_visibility(line).and_then(|rest| rest.strip_prefix("async fn ")) else { continue };
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let signature = &code[start + line.len() - rest.len() + name.len()..];
        if takes_harness(signature) {
            found.push((name, line_of(&code, start)));
        }
    }
    found
}

/// What follows `pub ` or `pub(…) ` at the beginning of a line.
fn after_visibility(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub")?;
    let rest = match bracketed(rest) {
        Some(inner) => &rest[inner.len() + 2..],
        None => rest,
    };
    rest.strip_prefix(' ')
}

fn takes_harness(signature: &str) -> bool {
    let signature = match bracketed(signature) {
        Some(generics) if signature.starts_with('<') => &signature[generics.len() + 2..],
        _ => signature,
    };
    let first = bracketed(signature).unwrap_or_default().split(',').next().unwrap_or_default();
    let first: String = first.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(kind) = first.strip_prefix("h: &") else { return false };
    kind == "H" || kind.split(|c: char| !c.is_alphanumeric()).any(|word| word.ends_with("Harness"))
}

fn stores_without_contract(tree: &Tree) -> Vec<Problem> {
    let stores: BTreeSet<&str> = tree
        .texts()
        .filter_map(|(path, _)| path.strip_prefix("crates/"))
        .filter(|path| path.starts_with("windlass-store-"))
        .filter_map(|path| path.split('/').next())
        .collect();
    let runs_it = |store: &&str| {
        let tests = format!("crates/{store}/tests/");
        tree.rust()
            .filter(|(path, _)| path.starts_with(&tests))
            .any(|(_, text)| without_comments(text).contains("windlass_conformance::"))
    };
    stores
        .into_iter()
        .filter(|store| !runs_it(store))
        .map(|store| {
            Problem::new(
                format!("crates/{store}/tests"),
                format!("{store} is not held to the contract"),
                "run the list of `windlass_conformance::` in tests/it/main.rs or tests/conformance.rs",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests;
