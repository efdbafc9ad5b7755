use super::*;

const SOURCE: (&str, &str) = (
    "crates/windlass-core/src/task.rs",
    "/// Not to be confused with WL-0001.\nfn code() -> &'static str {\n    \"WL-0007\"\n}\n",
);

#[test]
fn a_code_with_its_page_passes() {
    let tree =
        Tree::of(&[SOURCE, ("docs/errors/WL-0007.md", "# WL-0007: no such move\n"), ("docs/errors/README.md", "")]);
    assert_eq!(check(&tree), []);
}

#[test]
fn a_code_without_a_page_is_refused_with_its_place() {
    let problems = check(&Tree::of(&[SOURCE]));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].at, "crates/windlass-core/src/task.rs:3");
    assert_eq!(problems[0].what, "WL-0007 has no page");
    assert!(problems[0].fix.contains("docs/errors/WL-0007.md"));
}

#[test]
fn a_page_that_explains_nothing_is_refused() {
    let only_said_in_a_test = ("crates/windlass-core/src/task/tests.rs", "\"WL-0008\"");
    let problems = check(&Tree::of(&[only_said_in_a_test, ("docs/errors/WL-0008.md", "# WL-0008: gone\n")]));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].at, "docs/errors/WL-0008.md");
    assert!(problems[0].what.contains("nothing in crates/*/src says WL-0008"));
}

#[test]
fn a_page_that_explains_another_code_is_refused() {
    let problems = check(&Tree::of(&[SOURCE, ("docs/errors/WL-0007.md", "# WL-0070: copied\n")]));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].what.contains("no heading with WL-0007"));
}
