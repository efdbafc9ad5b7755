use super::*;

#[test]
fn this_repository_is_read_without_its_build() {
    let tree = Tree::read(&crate::root()).unwrap();
    assert!(tree.text("xtask/src/tidy/tree.rs").unwrap().contains("struct Tree"));
    assert!(tree.texts().all(|(path, _)| !path.starts_with("target/") && !path.starts_with(".git/")));
}

#[test]
fn a_folder_is_held_when_something_is_in_it() {
    let tree = Tree::of(&[("docs/a.md", "")]);
    assert!(tree.holds("docs") && tree.holds("docs/a.md"));
    assert!(!tree.holds("doc") && !tree.holds("docs/a"));
}
