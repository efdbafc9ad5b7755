//! What is for tests is in no release: the feature `fault`, with which a process ends itself, is nobody's default and nobody's
//! dependency, and its code refuses to be compiled without debug assertions, which no profile turns on for a release.

use toml::{Table, Value};

use super::Problem;
use super::tree::Tree;

const FEATURE: &str = "fault";
const CODE: &str = "crates/windlass/src/fault.rs";
const GUARD: &str = "#[cfg(not(debug_assertions))]\ncompile_error!(";

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !tree.text(CODE).is_some_and(|code| code.contains(GUARD)) {
        let fix = "keep `compile_error!` under `#[cfg(not(debug_assertions))]`, or tell this check where it has gone";
        problems.push(Problem::new(CODE, "nothing keeps it out of a release build", fix));
    }
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let Ok(manifest) = text.parse::<Table>() else { continue };
        let default = manifest.get("features").and_then(|features| features.get("default"));
        if names_it(default) {
            problems.push(Problem::new(path, "`fault` is a default feature", "take it out: tests ask for it by name"));
        }
        for (name, _) in dependencies(&manifest).filter(|(_, dependency)| names_it(dependency.get("features"))) {
            let what = format!("the dependency {name} is taken with `fault`");
            problems.push(Problem::new(path, what, "take it without: tests ask for it by name"));
        }
        for (name, profile) in manifest.get("profile").and_then(Value::as_table).into_iter().flatten() {
            if name != "dev" && name != "test" && profile.get("debug-assertions").and_then(Value::as_bool) == Some(true)
            {
                let what = format!("the profile {name} has debug assertions, so `fault` could be in it");
                problems.push(Problem::new(path, what, "leave them to dev and test"));
            }
        }
    }
    problems
}

fn names_it(features: Option<&Value>) -> bool {
    let is_it = |feature: &Value| {
        feature.as_str().is_some_and(|name| name == FEATURE || name.ends_with(&format!("/{FEATURE}")))
    };
    features.and_then(Value::as_array).is_some_and(|list| list.iter().any(is_it))
}

/// Every dependency of every sort.
fn dependencies(manifest: &Table) -> impl Iterator<Item = (&String, &Value)> {
    let workspace = manifest.get("workspace").and_then(Value::as_table);
    let tables = [Some(manifest), workspace].into_iter().flatten();
    let sorts = tables.flat_map(|table| ["dependencies", "dev-dependencies"].map(|sort| table.get(sort)));
    sorts.flatten().filter_map(Value::as_table).flatten()
}

#[cfg(test)]
mod tests;
