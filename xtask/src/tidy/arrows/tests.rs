use super::*;

const ROOT: &str = "[workspace.dependencies]\nhidden = { package = \"windlass-store-embedded\", path = \"x\" }\n";

fn package(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n{rest}")
}

/// A small workspace in which one crate's manifest is what the test says.
fn with(name: &str, rest: &str) -> Vec<Problem> {
    let names = ["windlass", "windlass-core", "windlass-conformance", "windlass-store-embedded", "windlass-engine"];
    let mut files = vec![("Cargo.toml".to_owned(), ROOT.to_owned())];
    for other in names {
        files.push((format!("crates/{other}/Cargo.toml"), package(other, if other == name { rest } else { "" })));
    }
    files.push(("xtask/Cargo.toml".to_owned(), package("xtask", if name == "xtask" { rest } else { "" })));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    check(&Tree::of(&files))
}

#[track_caller]
fn refused(problems: &[Problem], at: &str, what: &str) {
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].at, at);
    assert!(problems[0].what.contains(what), "{}", problems[0].what);
    assert!(!problems[0].fix.is_empty());
}

#[test]
fn the_arrows_of_the_house_pass() {
    let store = "[dependencies]\nwindlass-core.workspace = true\nfjall = \"3\"\n\
                 [dev-dependencies]\nwindlass-conformance.workspace = true\n";
    assert_eq!(with("windlass-store-embedded", store), []);
    assert_eq!(with("windlass", "[dependencies]\nwindlass-core = \"1\"\nwindlass-store-embedded = \"1\"\n"), []);
    assert_eq!(with("windlass-core", "[dependencies]\nserde = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n"), []);
}

#[test]
fn the_core_may_know_none_of_ours() {
    let problems = with("windlass-core", "[dependencies]\nwindlass-engine.workspace = true\n");
    refused(&problems, "crates/windlass-core/Cargo.toml", "windlass-core may not depend on windlass-engine");
    assert!(problems[0].what.contains("it depends on none of our crates"));
}

#[test]
fn the_core_may_not_bring_a_runtime_a_store_or_randomness_not_even_for_its_tests() {
    for name in ["tokio", "fjall", "reqwest", "rand"] {
        for table in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let problems = with("windlass-core", &format!("[{table}]\n{name} = \"1\"\n"));
            refused(&problems, "crates/windlass-core/Cargo.toml", &format!("windlass-core may not use {name}"));
        }
    }
}

#[test]
fn what_the_core_may_use_in_tests_it_may_not_use_in_code() {
    let problems = with("windlass-core", "[dependencies]\nproptest = \"1\"\n");
    refused(&problems, "crates/windlass-core/Cargo.toml", "in its tests only");
}

#[test]
fn the_contract_knows_no_store_and_no_engine() {
    for to in ["windlass-store-embedded", "windlass-engine"] {
        for table in ["dependencies", "dev-dependencies"] {
            let problems = with("windlass-conformance", &format!("[{table}]\n{to}.workspace = true\n"));
            refused(&problems, "crates/windlass-conformance/Cargo.toml", "of our crates it knows only windlass-core");
        }
    }
}

#[test]
fn a_store_may_use_the_contract_in_its_tests_only() {
    let problems = with("windlass-store-embedded", "[dependencies]\nwindlass-conformance.workspace = true\n");
    refused(&problems, "crates/windlass-store-embedded/Cargo.toml", "in its tests only");
}

#[test]
fn the_engine_knows_no_store_and_the_tasks_know_nobody() {
    let problems = with("windlass-engine", "[dependencies]\nwindlass-store-embedded.workspace = true\n");
    refused(&problems, "crates/windlass-engine/Cargo.toml", "in its tests only");
    let problems = with("xtask", "[dependencies]\nwindlass-core.workspace = true\n");
    refused(&problems, "xtask/Cargo.toml", "xtask may not depend on windlass-core");
}

#[test]
fn an_arrow_under_another_name_or_for_one_target_only_is_still_an_arrow() {
    for rest in [
        "[dependencies]\nquiet = { package = \"windlass-store-embedded\", path = \"x\" }\n",
        "[dependencies]\nhidden.workspace = true\n",
        "[target.'cfg(unix)'.dependencies]\nwindlass-store-embedded.workspace = true\n",
    ] {
        let problems = with("windlass-conformance", rest);
        refused(&problems, "crates/windlass-conformance/Cargo.toml", "may not depend on windlass-store-embedded");
    }
}

#[test]
fn a_manifest_that_cannot_be_read_is_refused() {
    let tree = Tree::of(&[
        ("Cargo.toml", ROOT),
        ("crates/windlass-core/Cargo.toml", "[package]\nname = \"windlass-core\"\n"),
        ("crates/b/Cargo.toml", "[package\n"),
    ]);
    refused(&check(&tree), "crates/b/Cargo.toml", "not TOML");
    refused(&check(&Tree::of(&[])), "Cargo.toml", "there is no such file");
    refused(&check(&Tree::of(&[("Cargo.toml", ROOT)])), "crates", "there is no windlass-core");
}
