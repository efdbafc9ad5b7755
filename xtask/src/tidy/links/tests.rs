use super::*;

fn with(readme: &str) -> Vec<Problem> {
    check(&Tree::of(&[
        ("README.md", readme),
        ("docs/errors/WL-0001.md", "[up](../../README.md) [beside](./WL-0002.md)\n"),
        ("docs/errors/WL-0002.md", "# WL-0002\n"),
    ]))
}

#[test]
fn links_to_files_folders_parts_and_the_outside_pass() {
    let readme = "[a](docs/errors/WL-0001.md), [b](docs/errors/), [c](#here), [d](docs/errors/WL-0002.md#part)\n\
                  [e](https://example.org/x.md) [f](mailto:a@example.org)\n\n[g]: docs/errors/WL-0001.md\n";
    assert_eq!(with(readme), []);
}

#[test]
fn a_link_that_leads_nowhere_is_refused_with_its_line() {
    for broken in
        ["[a](docs/nothing.md)", "[a](docs/nothing.md#part)", "[a]: docs/nothing.md", "[a](<docs/nothing.md>)"]
    {
        let problems = with(&format!("# Title\n\n{broken}\n"));
        assert_eq!(problems.len(), 1, "{broken}: {problems:?}");
        assert_eq!(problems[0].at, "README.md:3");
        assert_eq!(problems[0].what, "the link to docs/nothing.md leads nowhere");
    }
}

#[test]
fn a_link_out_of_the_repository_is_refused() {
    for outside in ["[a](../elsewhere.md)", "[a](/docs/errors/WL-0001.md)"] {
        assert_eq!(with(outside).len(), 1, "{outside}");
    }
}

#[test]
fn code_has_no_links() {
    assert_eq!(with("`[a](x.md)`\n```sh\n[a](x.md)\n```\n"), []);
    assert_eq!(with("```sh\n```\n[a](x.md)\n").len(), 1);
}

#[test]
fn a_tree_without_a_readme_is_refused() {
    let problems = check(&Tree::of(&[]));
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].at, "README.md");
}
