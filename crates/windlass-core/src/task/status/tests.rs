use super::*;

/// Read against the table of the specification, line by line. Where a row asks for more than a
/// status (interrupted, skipped by a conflict), `decide` and `apply` ask for it.
const TABLE: &str = "\
                Start   Pause  Resume  Complete  Fail   Cancel    Retry   Rollback     FinishRollback FailRollback
PENDING         RUNNING -      -       -         -      CANCELLED -       -            -              -
RUNNING         -       PAUSED -       COMPLETED FAILED CANCELLED RUNNING ROLLING_BACK -              -
PAUSED          -       -      RUNNING -         FAILED CANCELLED -       ROLLING_BACK -              -
COMPLETED       -       -      -       -         -      -         -       ROLLING_BACK -              -
FAILED          -       -      -       -         -      -         RUNNING ROLLING_BACK -              -
CANCELLED       -       -      -       -         -      -         RUNNING ROLLING_BACK -              -
ROLLING_BACK    -       -      -       -         -      -         RUNNING ROLLING_BACK ROLLED_BACK    ROLLBACK_FAILED
ROLLED_BACK     -       -      -       -         -      -         RUNNING -            -              -
ROLLBACK_FAILED -       -      -       -         -      -         RUNNING ROLLING_BACK -              -
";

#[test]
fn the_life_of_a_task_is_the_table_of_the_specification() {
    let expected: Vec<Vec<String>> =
        TABLE.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    let mut found = vec![Move::ALL.iter().map(|by| format!("{by:?}")).collect::<Vec<_>>()];
    for from in TaskStatus::ALL {
        let to = Move::ALL.map(|by| after(from, by).map_or("-".to_owned(), |to| to.to_string()));
        found.push([vec![from.to_string()], to.to_vec()].concat());
    }
    assert_eq!(found, expected);
}

#[test]
fn a_final_state_is_left_only_by_a_retry_or_a_rollback() {
    let may = |from: TaskStatus| TaskStatus::ALL.into_iter().filter(|to| from.may_become(*to)).collect::<Vec<_>>();
    assert_eq!(may(Completed), [Completed, RollingBack]);
    assert_eq!(may(RolledBack), [Running, RolledBack]);
    assert_eq!(may(Cancelled), [Running, Cancelled, RollingBack]);
    assert_eq!(may(Failed), [Running, Failed, RollingBack]);
    assert_eq!(may(RollbackFailed), [Running, RollingBack, RollbackFailed]);
    assert_eq!(may(Pending), [Pending, Running, Cancelled]);
    assert_eq!(may(Paused), [Running, Paused, Failed, Cancelled, RollingBack]);
    assert_eq!(may(Running), [Running, Paused, Completed, Failed, Cancelled, RollingBack]);
    assert_eq!(may(RollingBack), [Running, RollingBack, RolledBack, RollbackFailed]);
}

#[test]
fn what_is_active_holds_a_plan_open_and_what_runs_has_an_instance() {
    let active: Vec<_> = TaskStatus::ALL.into_iter().filter(|status| status.is_active()).collect();
    let running: Vec<_> = TaskStatus::ALL.into_iter().filter(|status| status.is_running()).collect();
    assert_eq!(active, [Pending, Running, Paused, RollingBack]);
    assert_eq!(running, [Running, RollingBack]);
}

#[test]
fn the_name_of_a_status_is_its_json() {
    for status in TaskStatus::ALL {
        let json = serde_json::to_string(&status).unwrap();
        assert_eq!(json, format!("\"{status}\""));
        assert_eq!(serde_json::from_str::<TaskStatus>(&json).unwrap(), status);
    }
    assert!(serde_json::from_str::<TaskStatus>("\"Running\"").is_err());
}

#[test]
fn a_set_of_statuses_holds_what_was_put_in() {
    assert_eq!(Statuses::ALL.iter().count(), TaskStatus::ALL.len());
    assert!(Statuses::NONE.is_empty() && !Statuses::ALL.is_empty());
    let some = Statuses::of(&[Failed, Pending]);
    assert_eq!(some.iter().collect::<Vec<_>>(), [Pending, Failed]);
    assert_eq!((some.to_string(), some.has(Running)), ("PENDING, FAILED".to_owned(), false));
    assert_eq!(format!("{some:?}"), "{Pending, Failed}");
    assert_eq!(Statuses::that_may(Move::Start), Statuses::of(&[Pending]));
    assert_eq!(Statuses::that_may(Move::Fail), Statuses::of(&[Running, Paused]));
}
