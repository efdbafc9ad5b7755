//! `windlass plan check`.

use super::{text, windlass};

#[test]
fn the_example_plan_is_valid() {
    let output = windlass(&["plan", "check", "examples/switch-blue-green.yaml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("plan switch-blue-green with 1 task is valid"), "{}", text(&output.stdout));
}

#[test]
fn a_broken_plan_fails_with_its_place_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.yaml");
    std::fs::write(&file, "plan: p\nstages:\n  - name: a\n    sleep: 1s\n    timout: 3s\ntasks:\n  - tenant: acme\n")
        .unwrap();
    let output = windlass(&["plan", "check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let out = text(&output.stdout);
    assert!(out.contains("WL-1007 at line 5, column 5 (/stages/0/timout)") && out.contains("`timeout`"), "{out}");
}

#[test]
fn a_wrong_call_says_what_is_possible() {
    let output = windlass(&["pln"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("'plan'"), "{}", text(&output.stderr));
    let unknown = windlass(&["plan", "check", "README.md"]);
    assert!(text(&unknown.stderr).contains(".yaml"), "{}", text(&unknown.stderr));
}

#[test]
fn help_fits_a_screen() {
    let output = windlass(&["--help"]);
    let help = text(&output.stdout);
    assert!(help.lines().count() <= 24 && help.contains("docs/"), "{help}");
}
