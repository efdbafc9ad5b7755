use super::*;
use proptest::prelude::*;

fn at(stages: u32, completed: u32, started: bool) -> Progress {
    Progress { stages, completed, started }
}

#[test]
fn the_ranges_of_the_specification() {
    assert_eq!(Range::first(5), Range { from: 0, to: 5 });
    assert_eq!(Range::retry(at(5, 2, true), From::Checkpoint), Ok(Range { from: 2, to: 5 }));
    assert_eq!(Range::retry(at(5, 2, true), From::Start), Ok(Range { from: 0, to: 5 }));
    assert_eq!(Range::retry(at(5, 2, true), From::Stage(2)), Ok(Range { from: 2, to: 5 }));
    assert_eq!(Range::retry(at(5, 2, true), From::Stage(1)), Ok(Range { from: 1, to: 5 }));
    assert_eq!(Range::retry(at(5, 2, true), From::Stage(3)), Err(Beyond { asked: 3, latest: 2 }));
}

#[test]
fn a_rollback_includes_the_stage_whose_effect_is_unknown() {
    assert_eq!(Range::rollback(at(5, 2, false)), Range { from: 0, to: 2 });
    assert_eq!(Range::rollback(at(5, 2, true)), Range { from: 0, to: 3 });
    assert_eq!(Range::rollback(at(5, 5, false)), Range { from: 0, to: 5 });
    assert_eq!(Range::rollback(at(5, 5, true)), Range { from: 0, to: 5 });
    assert!(Range::rollback(at(5, 0, false)).is_empty());
}

proptest! {
    #[test]
    fn no_retry_leaves_out_a_stage_that_is_not_done(stages in 1u32..100, done in 0u32..100, asked in 0u32..120, started: bool) {
        let progress = at(stages, done.min(stages), started);
        for from in [From::Checkpoint, From::Start, From::Stage(asked)] {
            if let Ok(range) = Range::retry(progress, from) {
                prop_assert!(range.from <= progress.completed);
                prop_assert_eq!(range.to, stages);
            }
        }
    }

    #[test]
    fn a_rollback_covers_all_that_ran_and_nothing_that_did_not(stages in 1u32..100, done in 0u32..100, started: bool) {
        let progress = at(stages, done.min(stages), started);
        let range = Range::rollback(progress);
        prop_assert_eq!(range.from, 0);
        prop_assert!(range.to >= progress.completed && range.to <= stages);
        prop_assert!(range.to <= progress.completed + u32::from(started));
    }
}
