//! `windlass.example.toml` is the documentation of every setting: each field of the settings is a key there with a comment
//! above it, and no key is there that is not a field. That the file parses and equals the defaults is a test of the
//! executable.

use std::collections::BTreeMap;

use super::Problem;
use super::tree::Tree;

mod code;
mod example;

const CODE: &str = "crates/windlass/src/settings.rs";
const EXAMPLE: &str = "windlass.example.toml";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let (Some(code), Some(example)) = (tree.text(CODE), tree.text(EXAMPLE)) else {
        return [CODE, EXAMPLE]
            .into_iter()
            .filter(|path| tree.text(path).is_none())
            .map(|path| Problem::new(path, "there is no such file", "settings live there and nowhere else"))
            .collect();
    };
    let known = match code::settings(code) {
        Ok(known) => known,
        Err(what) => return vec![Problem::new(CODE, what, "begin at `pub struct Settings`, tables are its fields")],
    };
    let mut written = BTreeMap::new();
    let mut problems = Vec::new();
    for entry in example::entries(example) {
        let at = format!("{EXAMPLE}:{}", entry.line);
        if !known.contains_key(&entry.name) {
            let what = format!("there is no setting `{}`", entry.name);
            problems.push(Problem::new(&at, what, format!("remove it, or add the field to {CODE}")));
        } else if !entry.documented {
            let what = format!("the setting `{}` is not explained", entry.name);
            problems.push(Problem::new(&at, what, "write a comment on the line above it"));
        }
        if let Some(before) = written.insert(entry.name.clone(), entry.line) {
            let what = format!("the setting `{}` is already on line {before}", entry.name);
            problems.push(Problem::new(&at, what, "remove one of them"));
        }
    }
    for (name, line) in &known {
        if !written.contains_key(name) {
            problems.push(Problem::new(
                format!("{CODE}:{line}"),
                format!("the setting `{name}` is not in {EXAMPLE}"),
                "add it there with its default and a comment above it; `# name = …` if it has no default",
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests;
