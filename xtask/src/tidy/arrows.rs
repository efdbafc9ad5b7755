//! Who may know whom. Cargo refuses a cycle and nothing else; these tables refuse every arrow that nobody gave a
//! reason for, between our crates and out of the core.

use toml::{Table, Value};

use super::Problem;
use super::tree::Tree;

/// `from` may depend on `to`. A `*` at the end stands for any ending.
struct Arrow {
    from: &'static str,
    to: &'static str,
    uses: Uses,
    why: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Uses {
    /// Its code and its tests.
    Code,
    /// Its tests only.
    Tests,
}

const ARROWS: &[Arrow] = &[
    Arrow {
        from: "windlass-conformance",
        to: "windlass-core",
        uses: Uses::Code,
        why: "the contract is about the ports, and the ports are in the core",
    },
    Arrow {
        from: "windlass-store-*",
        to: "windlass-core",
        uses: Uses::Code,
        why: "a store implements the ports and applies the rules",
    },
    Arrow {
        from: "windlass-store-*",
        to: "windlass-conformance",
        uses: Uses::Tests,
        why: "every store is held to the one contract",
    },
    Arrow {
        from: "windlass-engine",
        to: "windlass-core",
        uses: Uses::Code,
        why: "the engine carries out what the rules decide, through the ports",
    },
    Arrow {
        from: "windlass-engine",
        to: "windlass-store-*",
        uses: Uses::Tests,
        why: "what the engine promises is seen on real stores",
    },
    Arrow {
        from: "windlass-server",
        to: "windlass-core",
        uses: Uses::Code,
        why: "requests and answers are made of the core's words",
    },
    Arrow {
        from: "windlass-server",
        to: "windlass-engine",
        uses: Uses::Code,
        why: "a request becomes a command or a query of the engine",
    },
    Arrow {
        from: "windlass-server",
        to: "windlass-store-*",
        uses: Uses::Tests,
        why: "what the API promises is seen with a whole server over a real store",
    },
    Arrow {
        from: "windlass",
        to: "windlass-*",
        uses: Uses::Code,
        why: "the front door: it puts everything together and chooses the store",
    },
];

/// What the core may use from outside: nothing that does I/O, reads a clock, draws randomness or brings a runtime.
const CORE_USES: &[(&str, Uses, &str)] = &[
    ("async-trait", Uses::Code, "ports are used as `Arc<dyn …>`"),
    ("jiff", Uses::Code, "RFC 3339 text; its clock is not used"),
    ("saphyr-parser", Uses::Code, "plan files in YAML, with line and column"),
    ("serde", Uses::Code, "records and plan files are serde types"),
    ("serde_json", Uses::Code, "users' JSON is kept as they wrote it"),
    ("thiserror", Uses::Code, "refusals are values that callers match on"),
    ("toml", Uses::Code, "plan files in TOML, with line and column"),
    ("toml_parser", Uses::Code, "bounds the depth of a TOML file before it is read"),
    ("uuid", Uses::Code, "the form of job ids; their bits come from outside"),
    ("proptest", Uses::Tests, "rules are tested over generated values"),
];

const CORE: &str = "windlass-core";
const TABLES: &str = "xtask/src/tidy/arrows.rs";

struct Dependency {
    name: String,
    uses: Uses,
}

pub(super) fn check(tree: &Tree) -> Vec<Problem> {
    let root = match manifest(tree, "Cargo.toml") {
        Ok(root) => root,
        Err(problem) => return vec![problem],
    };
    let mut problems = Vec::new();
    let mut crates = Vec::new();
    for (path, _) in tree.texts().filter(|(path, _)| is_member(path)) {
        match manifest(tree, path) {
            Ok(table) => crates.push((path, name_of(&table, path), table)),
            Err(problem) => problems.push(problem),
        }
    }
    if !crates.iter().any(|(_, name, _)| name == CORE) {
        problems.push(Problem::new("crates", format!("there is no {CORE}"), "the rules live in a crate of that name"));
    }
    for (path, from, table) in &crates {
        for dependency in dependencies(table, &root) {
            if crates.iter().any(|(_, name, _)| *name == dependency.name) {
                problems.extend(refused_arrow(path, from, &dependency));
            } else if from == CORE {
                problems.extend(refused_in_core(path, &dependency));
            }
        }
    }
    problems
}

fn refused_arrow(path: &str, from: &str, dependency: &Dependency) -> Option<Problem> {
    let to = &dependency.name;
    let known: Vec<_> = ARROWS.iter().filter(|arrow| fits(arrow.from, from) && fits(arrow.to, to)).collect();
    if known.iter().any(|arrow| arrow.uses == Uses::Code || arrow.uses == dependency.uses) {
        return None;
    }
    Some(match known.first() {
        Some(arrow) => Problem::new(
            path,
            format!("{from} may depend on {to} in its tests only ({})", arrow.why),
            "move it to [dev-dependencies]",
        ),
        None => Problem::new(
            path,
            format!("{from} may not depend on {to}: {}", rule_of(from)),
            format!("turn the arrow round (a port in {CORE}), or add it with its reason to ARROWS in {TABLES}"),
        ),
    })
}

/// What is allowed instead, so that the refusal explains itself.
fn rule_of(from: &str) -> String {
    let allowed: Vec<_> = ARROWS.iter().filter(|arrow| fits(arrow.from, from)).map(|arrow| arrow.to).collect();
    if allowed.is_empty() {
        "it depends on none of our crates".to_owned()
    } else {
        format!("of our crates it knows only {}", allowed.join(", "))
    }
}

fn refused_in_core(path: &str, dependency: &Dependency) -> Option<Problem> {
    let name = &dependency.name;
    let known = CORE_USES.iter().find(|(allowed, _, _)| allowed == name);
    match known {
        Some((_, uses, _)) if *uses == Uses::Code || *uses == dependency.uses => None,
        Some((_, _, why)) => Some(Problem::new(
            path,
            format!("{CORE} may use {name} in its tests only ({why})"),
            "move it to [dev-dependencies]",
        )),
        None => Some(Problem::new(
            path,
            format!("{CORE} may not use {name}: the core has no I/O, no runtime, no clock and no randomness"),
            format!("hand the core a value instead, or add {name} with its reason to CORE_USES in {TABLES}"),
        )),
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

fn is_member(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    matches!(parts[..], ["crates", _, "Cargo.toml"] | ["xtask", "Cargo.toml"])
}

fn manifest(tree: &Tree, path: &str) -> Result<Table, Problem> {
    let text = tree.text(path).ok_or_else(|| Problem::new(path, "there is no such file", "put it back"))?;
    text.parse().map_err(|error: toml::de::Error| Problem::new(path, format!("not TOML: {error}"), "correct it"))
}

fn name_of(table: &Table, path: &str) -> String {
    let name = table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str);
    name.unwrap_or(path).to_owned()
}

/// Every dependency of a manifest, under its real name, also those for one target or one build step only.
fn dependencies(table: &Table, root: &Table) -> Vec<Dependency> {
    let targets = table.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let places = std::iter::once(table).chain(targets.filter_map(Value::as_table));
    let mut found = Vec::new();
    for place in places {
        let kinds =
            [("dependencies", Uses::Code), ("build-dependencies", Uses::Code), ("dev-dependencies", Uses::Tests)];
        for (kind, uses) in kinds {
            for (key, value) in place.get(kind).and_then(Value::as_table).into_iter().flatten() {
                found.push(Dependency { name: real_name(key, value, root), uses });
            }
        }
    }
    found
}

/// A dependency may be renamed, here or in the workspace's table.
fn real_name(key: &str, value: &Value, root: &Table) -> String {
    let inherited = value.get("workspace").and_then(Value::as_bool) == Some(true);
    let shared = root.get("workspace").and_then(|w| w.get("dependencies")).and_then(|d| d.get(key));
    let described = if inherited { shared.unwrap_or(value) } else { value };
    described.get("package").and_then(Value::as_str).unwrap_or(key).to_owned()
}

#[cfg(test)]
mod tests;
