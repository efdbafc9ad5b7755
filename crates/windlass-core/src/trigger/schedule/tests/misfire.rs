use super::*;

/// A schedule every second from 1970 on, so that a millisecond says which occurrence it is.
fn every_second() -> Schedule {
    Schedule::Every { every_ms: 1_000, from: Some(Ms::ZERO) }
}

fn judged(schedule: &Schedule, misfire: Misfire, due: u64, now: u64, grace_ms: u64) -> Verdict {
    judge(schedule, misfire, Ms::new(due), Ms::new(now), grace_ms, Ms::ZERO)
}

fn verdict(fire: Option<u64>, missed: Option<(u64, u64, u64)>, next: Option<u64>) -> Verdict {
    let missed = missed.map(|(count, first, last)| Missed { count, first: Ms::new(first), last: Ms::new(last) });
    Verdict { fire: fire.map(Ms::new), missed, next: next.map(Ms::new) }
}

const POLICIES: [Misfire; 3] = [Misfire::Once, Misfire::Skip, Misfire::CatchUp { max: 3 }];

#[test]
fn nothing_happens_before_an_occurrence_is_due() {
    for misfire in POLICIES {
        assert_eq!(judged(&every_second(), misfire, 5_000, 4_999, 0), verdict(None, None, Some(5_000)));
    }
}

#[test]
fn late_within_the_grace_is_on_time_whatever_the_policy() {
    for misfire in POLICIES {
        assert_eq!(judged(&every_second(), misfire, 5_000, 5_000, 0), verdict(Some(5_000), None, Some(6_000)));
        assert_eq!(judged(&every_second(), misfire, 5_000, 8_500, 3_500), verdict(Some(5_000), None, Some(6_000)));
    }
}

#[test]
fn once_fires_the_newest_for_all_of_them() {
    let judged = |now, grace| judged(&every_second(), Misfire::Once, 5_000, now, grace);
    assert_eq!(judged(5_100, 99), verdict(Some(5_000), None, Some(6_000)), "it is the newest itself");
    assert_eq!(judged(8_501, 3_500), verdict(Some(8_000), Some((3, 5_000, 7_000)), Some(9_000)));
    assert_eq!(judged(9_000, 0), verdict(Some(9_000), Some((4, 5_000, 8_000)), Some(10_000)));
}

#[test]
fn skip_goes_on_with_the_first_that_has_not_misfired() {
    let judged = |now, grace| judged(&every_second(), Misfire::Skip, 5_000, now, grace);
    assert_eq!(judged(8_501, 0), verdict(None, Some((4, 5_000, 8_000)), Some(9_000)));
    assert_eq!(judged(8_501, 501), verdict(Some(8_000), Some((3, 5_000, 7_000)), Some(9_000)));
    assert_eq!(judged(8_501, 2_000), verdict(Some(7_000), Some((2, 5_000, 6_000)), Some(8_000)));
}

#[test]
fn catch_up_fires_the_newest_one_by_one() {
    let judged = |due, now| judged(&every_second(), Misfire::CatchUp { max: 3 }, due, now, 100);
    assert_eq!(judged(5_000, 7_500), verdict(Some(5_000), None, Some(6_000)), "three are due, three are kept");
    assert_eq!(judged(5_000, 8_500), verdict(Some(6_000), Some((1, 5_000, 5_000)), Some(7_000)));
    assert_eq!(judged(7_000, 8_500), verdict(Some(7_000), None, Some(8_000)));
    assert_eq!(judged(8_000, 8_500), verdict(Some(8_000), None, Some(9_000)));
    assert_eq!(judged(7_000, 12_500), verdict(Some(10_000), Some((3, 7_000, 9_000)), Some(11_000)), "it was too slow");
}

#[test]
fn a_single_occurrence_that_misfired_is_fired_or_missed_for_good() {
    for single in [Schedule::At(Ms::new(5_000)), Schedule::After(5_000)] {
        for misfire in [Misfire::Once, Misfire::CatchUp { max: 1 }] {
            assert_eq!(judged(&single, misfire, 5_000, 9_000, 0), verdict(Some(5_000), None, None));
        }
        let missed = verdict(None, Some((1, 5_000, 5_000)), None);
        assert_eq!(judged(&single, Misfire::Skip, 5_000, 9_000, 0), missed);
        assert_eq!(judged(&single, Misfire::Skip, 5_000, 5_000, 0), verdict(Some(5_000), None, None));
    }
}

#[test]
fn what_is_stored_is_an_occurrence_also_beside_the_grid() {
    let judged = |misfire, now| judged(&every_second(), misfire, 5_300, now, 100);
    assert_eq!(judged(Misfire::Once, 5_900), verdict(Some(5_300), None, Some(6_000)));
    assert_eq!(judged(Misfire::Once, 7_500), verdict(Some(7_000), Some((2, 5_300, 6_000)), Some(8_000)));
    assert_eq!(judged(Misfire::Skip, 5_900), verdict(None, Some((1, 5_300, 5_300)), Some(6_000)));
    assert_eq!(judged(Misfire::CatchUp { max: 2 }, 6_500), verdict(Some(5_300), None, Some(6_000)));
    assert_eq!(judged(Misfire::CatchUp { max: 1 }, 6_500), verdict(Some(6_000), Some((1, 5_300, 5_300)), Some(7_000)));
}

/// A day off, with each policy, over a night when the clock is changed: exact occurrences.
#[test]
fn a_day_off_loses_no_occurrence() {
    let hourly = cron("0 * * * *", "Europe/Berlin");
    let (due, now) = (ms("2026-10-24T12:00:00Z"), ms("2026-10-25T12:30:00Z"));
    let judged = |misfire| judge(&hourly, misfire, due, now, 1_000, due);
    let missed = |count, last| Some(Missed { count, first: due, last: ms(last) });
    let newest = ms("2026-10-25T12:00:00Z");
    let next = Some(ms("2026-10-25T13:00:00Z"));
    assert_eq!(judged(Misfire::Once), Verdict { fire: Some(newest), missed: missed(24, "2026-10-25T11:00:00Z"), next });
    assert_eq!(judged(Misfire::Skip), Verdict { fire: None, missed: missed(25, "2026-10-25T12:00:00Z"), next });
    let mut stored = due;
    let mut fired = Vec::new();
    while stored <= now {
        let verdict = judge(&hourly, Misfire::CatchUp { max: 25 }, stored, now, 1_000, due);
        assert_eq!(verdict.missed, None);
        fired.extend(verdict.fire);
        stored = verdict.next.unwrap();
    }
    assert_eq!(fired.len(), 25);
    assert_eq!(fired, hourly.upcoming(due.minus(1), due, 25));
    assert_eq!(Some(stored), next);
}

/// The figures of ten years are exact, and found without looking at three hundred million occurrences: that would
/// take this test minutes.
#[test]
fn ten_years_off_are_judged_by_arithmetic() {
    let (due, now) = (ms("2026-01-01T00:00:00Z"), ms("2036-01-01T00:00:00.050Z"));
    let seconds = now.since(due) / 1_000;
    let fast = Schedule::Every { every_ms: 100, from: Some(due) };
    let second = cron("* * * * * *", "Africa/Casablanca");
    for misfire in [Misfire::Once, Misfire::Skip, Misfire::CatchUp { max: 1_000 }] {
        let kept = match misfire {
            Misfire::Once => 1,
            Misfire::Skip => 0,
            Misfire::CatchUp { max } => u64::from(max),
        };
        for (schedule, occurrences) in [(&fast, seconds * 10 + 1), (&second, seconds + 1)] {
            for _ in 0..20 {
                let verdict = judge(schedule, misfire, due, now, 0, due);
                assert_eq!(verdict.missed.map(|missed| missed.count), Some(occurrences - kept));
                assert_eq!(verdict.fire.is_some(), kept > 0);
            }
        }
    }
}
