use super::*;

#[test]
fn a_problem_says_where_what_and_what_to_do() {
    let problem = Problem::new("a.rs:3", "too long", "split it");
    assert_eq!(problem.to_string(), "a.rs:3: too long\n    to do: split it");
}

#[test]
fn an_empty_tree_is_refused_by_every_check_that_has_inputs_of_its_own() {
    let empty = Tree::of(&[]);
    let refusing: Vec<_> = CHECKS.iter().filter(|c| !(c.run)(&empty).is_empty()).map(|c| c.name).collect();
    assert_eq!(refusing, ["crate arrows", "file sizes", "scenario list", "settings", "features", "links"]);
}
