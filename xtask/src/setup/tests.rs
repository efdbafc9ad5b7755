use super::*;

#[test]
fn every_need_serves_a_step_that_exists() {
    let steps = crate::test::names();
    for need in NEEDS {
        assert!(!need.steps.is_empty(), "{} serves no step", need.name);
        for step in need.steps {
            assert!(steps.contains(step), "{} serves the unknown step {step}", need.name);
        }
    }
}
