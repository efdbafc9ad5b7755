use super::*;
use proptest::prelude::*;

/// Read against the specification: READY → RUNNING ⇄ PAUSED → COMPLETED | FAILED | CANCELLED, and
/// RUNNING again when a task is retried. RUNNING resumes when its conductor is lost.
const TABLE: &str = "\
          Start   Pause  Resume  Complete  Fail   Cancel    Reopen
READY     RUNNING -      -       -         -      CANCELLED -
RUNNING   -       PAUSED RUNNING COMPLETED FAILED CANCELLED RUNNING
PAUSED    -       -      RUNNING COMPLETED FAILED CANCELLED -
COMPLETED -       -      -       -         -      -         RUNNING
FAILED    -       -      -       -         -      -         RUNNING
CANCELLED -       -      -       -         -      -         RUNNING
";

#[test]
fn the_life_of_a_plan_is_the_table_of_the_specification() {
    let expected: Vec<Vec<String>> =
        TABLE.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    let mut found = vec![PlanMove::ALL.iter().map(|by| format!("{by:?}")).collect::<Vec<_>>()];
    for from in PlanStatus::ALL {
        let to = PlanMove::ALL.map(|by| after(from, by).map_or("-".to_owned(), |to| to.to_string()));
        found.push([vec![from.to_string()], to.to_vec()].concat());
    }
    assert_eq!(found, expected);
}

#[test]
fn a_plan_that_has_ended_only_runs_again() {
    for from in PlanStatus::ALL {
        let may: Vec<_> = PlanStatus::ALL.into_iter().filter(|to| from.may_become(*to)).collect();
        let expected = match from {
            Ready => vec![Ready, Running, Cancelled],
            Running | Paused => vec![Running, Paused, Completed, Failed, Cancelled],
            Completed | Failed | Cancelled => vec![Running],
        };
        assert_eq!((may, from.is_final()), (expected.clone(), expected == [Running]), "{from}");
    }
}

fn tally(counts: &[(TaskStatus, u32)]) -> Tally {
    let mut tally = Tally::default();
    counts.iter().for_each(|(status, n)| tally.add(*status, *n));
    tally
}

#[test]
fn a_plan_ends_when_nothing_is_active_and_how_its_tasks_say() {
    use TaskStatus as T;
    let cases: [(&[(TaskStatus, u32)], _, _); 9] = [
        (&[(T::Completed, 3)], Some(PlanMove::Complete), Some(PlanMove::Cancel)),
        (&[(T::Completed, 3), (T::Failed, 1)], Some(PlanMove::Fail), Some(PlanMove::Cancel)),
        (&[(T::Completed, 3), (T::Cancelled, 1)], Some(PlanMove::Fail), Some(PlanMove::Cancel)),
        (&[(T::RolledBack, 1)], Some(PlanMove::Fail), Some(PlanMove::Cancel)),
        (&[(T::RollbackFailed, 1)], Some(PlanMove::Fail), Some(PlanMove::Cancel)),
        (&[(T::Completed, 3), (T::Pending, 1)], None, None),
        (&[(T::Completed, 3), (T::Running, 1)], None, None),
        (&[(T::Cancelled, 3), (T::Paused, 1)], None, None),
        (&[(T::Failed, 3), (T::RollingBack, 1)], None, None),
    ];
    for (counts, left, cancelled) in cases {
        assert_eq!(outcome(&tally(counts), false), left, "{counts:?}");
        assert_eq!(outcome(&tally(counts), true), cancelled, "{counts:?}, cancelled");
    }
}

#[test]
fn only_an_instance_that_was_up_when_the_conductor_died_takes_a_plan_over() {
    let may = |recovery, until, up, now| may_conduct(recovery, Ms::new(until), Ms::new(up), Ms::new(now));
    let cases = [
        ("the conductor lives", 100, 0, 99, false, false),
        ("it died, this one was up", 100, 50, 100, true, true),
        ("up in the last moment", 100, 99, 100, true, true),
        ("up just after", 100, 100, 100, false, true),
        ("a restart long after", 100, 5000, 6000, false, true),
    ];
    for (name, until, up, now, manual, auto) in cases {
        assert_eq!(may(Recovery::Manual, until, up, now), manual, "{name}");
        assert_eq!(may(Recovery::Auto, until, up, now), auto, "{name}, auto");
    }
}

proptest! {
    #[test]
    fn a_tally_counts_what_was_added(added in prop::collection::vec((0usize..9, 0u32..1000), 0..50)) {
        let mut tally = Tally::default();
        for (i, n) in &added {
            tally.add(TaskStatus::ALL[*i], *n);
        }
        let of = |status: TaskStatus| added.iter().filter(|(i, _)| TaskStatus::ALL[*i] == status).map(|(_, n)| n).sum::<u32>();
        for status in TaskStatus::ALL {
            prop_assert_eq!(tally.of(status), of(status));
        }
        prop_assert_eq!(tally.total(), added.iter().map(|(_, n)| n).sum::<u32>());
        prop_assert!(tally.active() <= tally.total());
        let json = serde_json::to_string(&tally).unwrap();
        prop_assert_eq!(serde_json::from_str::<Tally>(&json).unwrap(), tally);
    }
}
