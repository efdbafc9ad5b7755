use super::*;
use crate::failure::FailureKind;
use proptest::prelude::*;

fn names(list: &[&str]) -> Vec<StageName> {
    list.iter().map(|name| name.parse().unwrap()).collect()
}

fn at(last: i32, done: &[&str]) -> Checkpoint {
    Checkpoint { last_completed_stage_index: last, completed_stages: names(done), ..Checkpoint::new(1, Ms::ZERO) }
}

#[test]
fn each_rule_of_validity_is_named_when_broken() {
    let stages = names(&["a", "b", "c"]);
    let check = |c: Checkpoint| c.resume_point(&stages, None, Ms::ZERO);
    assert_eq!(check(at(-1, &[])), Ok(0));
    assert_eq!(check(at(1, &["a", "b"])), Ok(2));
    assert_eq!(check(at(-2, &[])), Err(BrokenRule::Index { last: -2, stages: 3 }));
    assert_eq!(check(at(3, &["a", "b", "c", "d"])), Err(BrokenRule::Index { last: 3, stages: 3 }));
    assert_eq!(check(at(1, &["a"])), Err(BrokenRule::Count { names: 1, last: 1 }));
    let swapped = at(1, &["b", "a"]);
    assert!(matches!(check(swapped), Err(BrokenRule::Name { index: 0, .. })));
}

#[test]
fn a_checkpoint_of_an_ended_task_is_valid_until_its_retention_runs_out() {
    let stages = names(&["a", "b"]);
    let until = Ms::new(100);
    assert_eq!(at(0, &["a"]).resume_point(&stages, Some(until), Ms::new(99)), Ok(1));
    assert_eq!(at(0, &["a"]).resume_point(&stages, Some(until), until), Err(BrokenRule::Expired { until }));
}

#[test]
fn the_names_of_both_source_documents_are_read_and_the_first_are_written() {
    let old = r#"{"lastCompletedStageIndex":0,"completedStageNames":["a"],"customData":{"k":1},"timestamp":"2025-11-23T10:10:00"}"#;
    let read: Checkpoint = serde_json::from_str(old).unwrap();
    assert_eq!(read.completed(), 1);
    let written = serde_json::to_string(&read).unwrap();
    let new = r#"{"lastCompletedStageIndex":0,"completedStages":["a"],"contextData":{"k":1},"savedAt":"2025-11-23T10:10:00.000Z","version":0,"fence":0,"pass":1}"#;
    assert_eq!(written, new);
    assert_eq!(serde_json::from_str::<Checkpoint>(new).unwrap(), read);
}

#[test]
fn an_unknown_field_is_refused() {
    let text = r#"{"lastCompletedStageIndex":-1,"completedStages":[],"contextData":{},"savedAt":"2025-11-23T10:10:00Z","colour":1}"#;
    assert!(serde_json::from_str::<Checkpoint>(text).unwrap_err().to_string().contains("colour"));
}

#[test]
fn context_grows_by_stage_up_to_its_bound() {
    let mut checkpoint = Checkpoint::new(1, Ms::ZERO);
    let output = Json::parse("18446744073709551615").unwrap();
    checkpoint.complete(&"a".parse().unwrap(), Some(&output), 7).unwrap();
    assert_eq!(checkpoint.context_data.as_str(), r#"{"a":18446744073709551615}"#);
    let huge = Json::of(&"x".repeat(CONTEXT_BYTES_MAX)).unwrap();
    let before = checkpoint.clone();
    assert!(matches!(checkpoint.complete(&"b".parse().unwrap(), Some(&huge), 1), Err(BadContext::TooLarge(_))));
    assert_eq!(checkpoint, before, "a refused output leaves the checkpoint as it was");
}

#[test]
fn the_newest_failures_are_kept() {
    let mut checkpoint = Checkpoint::new(1, Ms::ZERO);
    for n in 0..30 {
        checkpoint.remember(Failure::new(FailureKind::Stage, "no", "a".parse().unwrap(), n, Ms::ZERO));
    }
    let kept: Vec<u32> = checkpoint.failure_history.iter().map(|f| f.attempt).collect();
    assert_eq!(kept, (10..30).collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn completing_stages_in_order_always_leaves_a_valid_checkpoint(stages in 1usize..20, done in 0usize..20, back in 0u32..20) {
        let list: Vec<StageName> = (0..stages).map(|i| format!("s{i}").parse().unwrap()).collect();
        let mut checkpoint = Checkpoint::new(1, Ms::ZERO);
        for stage in list.iter().take(done.min(stages)) {
            checkpoint.complete(stage, None, 1).unwrap();
        }
        if done < stages {
            prop_assert_eq!(checkpoint.resume_point(&list, None, Ms::ZERO), Ok(done as u32));
        }
        checkpoint.truncate(back);
        let expected = (done.min(stages) as u32).min(back);
        prop_assert_eq!(checkpoint.completed(), expected);
    }
}
