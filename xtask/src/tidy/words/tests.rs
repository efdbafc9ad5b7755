use super::*;

#[track_caller]
fn refused(path: &str, text: &str, line: usize, what: &str) {
    let problems = check(&Tree::of(&[(path, text)]));
    assert_eq!(problems.len(), 1, "{text}: {problems:?}");
    assert_eq!(problems[0].at, format!("{path}:{line}"));
    assert!(problems[0].what.contains(what), "{}", problems[0].what);
}

#[track_caller]
fn passes(path: &str, text: &str) {
    assert_eq!(check(&Tree::of(&[(path, text)])), []);
}

#[test]
fn paths_of_a_machine_are_refused_in_every_kind_of_file() {
    refused("README.md", "First\nsee /home/me/notes\n", 2, "/home/");
    refused("Cargo.toml", "path = \"/work/x\"\n", 1, "/work/");
    refused("crates/a/src/lib.rs", "// in /root/x\n", 1, "/root/");
}

#[test]
fn a_path_that_only_ends_like_one_passes() {
    passes("README.md", "docs/work/a, https://example.org/home/, ./work/a, {dir}/work/, ~/work/a, /var/lib/windlass\n");
}

#[test]
fn tests_that_do_not_run_and_unfinished_code_are_refused() {
    refused("crates/a/src/lib.rs", "#[test]\n#[ignore]\nfn a() {}\n", 2, "#[ignore");
    refused("crates/a/src/lib.rs", "#[ignore = \"slow\"]\nfn a() {}\n", 1, "#[ignore");
    refused("crates/a/src/lib.rs", "fn a() {\n    todo!()\n}\n", 2, "todo!");
}

#[test]
fn talking_about_them_in_a_comment_passes() {
    passes("crates/a/src/lib.rs", "// no #[ignore], no todo!(), no #[allow(x)]\n");
}

#[test]
fn a_lint_silenced_without_a_reason_is_refused() {
    refused("crates/a/src/lib.rs", "#[allow(dead_code)]\nfn a() {}\n", 1, "without a reason");
    refused("crates/a/src/lib.rs", "\n#![allow(\n    dead_code\n)]\n", 2, "without a reason");
    passes("crates/a/src/lib.rs", "#[allow(dead_code, reason = \"used by one target only\")]\nfn a() {}\n");
}

#[test]
fn a_test_that_sleeps_is_refused() {
    refused("crates/a/tests/it/lock.rs", "fn a() {\n    std::thread::sleep(x);\n}\n", 2, "thread::sleep");
    refused("crates/a/src/lock/tests.rs", "use tokio::time::sleep;\n", 1, "time::sleep");
}

#[test]
fn code_may_sleep_and_so_may_a_test_that_says_why() {
    passes("crates/a/src/lock.rs", "tokio::time::sleep(x).await;\n");
    passes("crates/a/tests/it/crash.rs", "// sleep: the child is killed at a random moment.\nstd::thread::sleep(x);\n");
}
