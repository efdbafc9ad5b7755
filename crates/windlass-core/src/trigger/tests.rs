use super::rules::*;
use super::schedule::Schedule;
use super::*;

const NOW: Ms = Ms::new(10_000_000);

fn spec(schedule: &str) -> TriggerSpec {
    let text = format!(r#"{{"schedule": {schedule}, "target": {{"job": {{"queue": "q"}}}}}}"#);
    serde_json::from_str(&text).unwrap()
}

fn every() -> Trigger {
    create("t".parse().unwrap(), spec(r#"{"every": "10s"}"#), NOW).unwrap()
}

fn once() -> Trigger {
    create("t".parse().unwrap(), spec(r#"{"after": "10s"}"#), NOW).unwrap()
}

fn asker(at: Ms) -> Asker {
    Asker { by: "ann".parse().unwrap(), reason: None, at }
}

fn claimed(trigger: &Trigger, fence: u64, now: Ms) -> Trigger {
    let run = claim(&trigger.run, &"i".parse().unwrap(), Fence(fence), 1_000, now);
    Trigger { run, version: trigger.version + 1, ..trigger.clone() }
}

fn with(trigger: &Trigger, outcome: &Outcome) -> Trigger {
    Trigger { run: outcome.run.clone(), ..trigger.clone() }
}

fn made() -> Made {
    Made::Operation("ok".into())
}

#[test]
fn what_fired_goes_on_at_its_next_time_or_ends() {
    let due = NOW.plus(10_000);
    let trigger = claimed(&every(), 1, due);
    assert_eq!(judge_claimed(&trigger, NOW, 1_000, due), Judged::Fire(None));
    let after = with(&trigger, &fired(&trigger, made(), due));
    assert_eq!((after.run.status, after.run.trigger_at), (TriggerStatus::Pending, NOW.plus(20_000)));
    assert_eq!(after.wake_at(), Some(NOW.plus(20_000)));

    let single = claimed(&once(), 1, due);
    let after = with(&single, &fired(&single, made(), due));
    assert_eq!((after.run.status, after.run.ended_at, after.wake_at()), (TriggerStatus::Completed, Some(due), None));
}

#[test]
fn what_fails_is_tried_again_and_then_dead_and_the_next_still_comes() {
    let mut trigger = every();
    let mut now = NOW.plus(10_000);
    for tried in 1..=3 {
        trigger = claimed(&trigger, tried, now);
        let outcome = failed(&trigger, "no", 0, now);
        assert_eq!(
            (outcome.run.status, outcome.run.retry_count),
            (TriggerStatus::Pending, u32::try_from(tried).unwrap())
        );
        assert_eq!(outcome.run.trigger_at, NOW.plus(10_000), "the occurrence stays the same");
        trigger = with(&trigger, &outcome);
        now = trigger.run.try_at;
        assert_eq!(
            judge_claimed(&claimed(&trigger, 9, now), Ms::ZERO, 0, now),
            Judged::Fire(None),
            "tried, not judged"
        );
    }
    trigger = claimed(&trigger, 4, now);
    let outcome = failed(&trigger, "no", 0, now);
    let child = outcome.child.clone().unwrap();
    assert_eq!((child.run.status, child.key()), (TriggerStatus::Dead, format!("t@{}", NOW.plus(10_000).get())));
    assert_eq!(outcome.run.trigger_at, NOW.plus(20_000));
    assert_eq!(outcome.run.retry_count, 0);

    let (again, _) = fire(&child, &asker(now)).unwrap();
    assert_eq!((again.run.status, again.wake_at(), again.key()), (TriggerStatus::Pending, Some(now), child.key()));
}

#[test]
fn an_owner_that_was_lost_counts_as_a_try() {
    let due = NOW.plus(10_000);
    let mut trigger = claimed(&once(), 1, due);
    for fence in 2..=4 {
        trigger = claimed(&trigger, fence, due);
        assert_eq!(judge_claimed(&trigger, NOW, 0, due), Judged::Fire(None));
    }
    trigger = claimed(&trigger, 5, due);
    let Judged::Settle(outcome) = judge_claimed(&trigger, NOW, 0, due) else { panic!("fired again") };
    assert_eq!(outcome.run.status, TriggerStatus::Dead);
}

#[test]
fn a_misfire_names_its_occurrence_before_it_is_carried_out() {
    let late = NOW.plus(100_000);
    let trigger = claimed(&every(), 1, late);
    let Judged::Fire(Some(first)) = judge_claimed(&trigger, NOW, 1_000, late) else { panic!("not the newest") };
    assert_eq!((first.run.trigger_at, first.run.status), (late, TriggerStatus::Processing));
    assert_eq!(first.notes[0].what, Noted::Missed { count: 9, last: NOW.plus(90_000) });
}

#[test]
fn what_fell_due_while_no_scheduler_lived_is_held_if_it_says_so() {
    let mut trigger = every();
    trigger.spec.recovery = Recovery::Held;
    let late = NOW.plus(100_000);
    let owned = claimed(&trigger, 1, late);
    let Judged::Settle(outcome) = judge_claimed(&owned, late, 0, late) else { panic!("fired") };
    let held = with(&owned, &outcome);
    assert!(held.run.held && held.wake_at().is_none());
    let (fired, _) = fire(&held, &asker(late)).unwrap();
    assert_eq!((fired.run.trigger_at, fired.wake_at()), (NOW.plus(10_000), Some(late)));
    assert_eq!(judge_claimed(&claimed(&fired, 2, late), late, 0, late), Judged::Fire(None), "a person said so");
    let back = with(&fired, &put_back(&claimed(&fired, 2, late), late));
    assert_eq!(judge_claimed(&claimed(&back, 3, late), late, 0, late), Judged::Fire(None), "and that is not forgotten");
    let (resumed, noted) = resume(&pause(&fired, &asker(late)), late);
    assert_eq!((resumed.run.trigger_at, noted), (NOW.plus(10_000), None), "a pause does not skip it either");
    let (skipped, _) = skip(&held, &asker(late)).unwrap();
    assert_eq!(skipped.wake_at(), Some(NOW.plus(110_000)));
    assert_eq!(judge_claimed(&owned, NOW, 1_000_000, late), Judged::Fire(None), "somebody was there");
}

#[test]
fn a_person_fires_a_single_one_and_adds_to_a_recurring_one() {
    let (single, _) = fire(&once(), &asker(NOW)).unwrap();
    assert_eq!((single.id.as_str(), single.wake_at()), ("t", Some(NOW)));
    let (added, _) = fire(&every(), &asker(NOW)).unwrap();
    assert_eq!((added.parent.as_ref().unwrap().as_str(), added.wake_at(), added.version), ("t", Some(NOW), 0));
    assert_eq!(added.spec.schedule, Schedule::At(NOW));
    let done = with(&added, &fired(&claimed(&added, 1, NOW), made(), NOW));
    assert!(fire(&done, &asker(NOW)).is_err());
}

#[test]
fn a_single_one_that_is_due_is_fired_as_the_occurrence_it_is() {
    let due = once().run.trigger_at;
    let tried = with(&once(), &put_back(&claimed(&once(), 1, due), due.plus(100)));
    let (fired, _) = fire(&tried, &asker(due.plus(50))).unwrap();
    assert_eq!((fired.key(), fired.wake_at()), (once().key(), Some(due.plus(50))), "it may have made something before");
}

#[test]
fn a_dead_one_that_is_fired_late_fires_whatever_its_misfire_policy() {
    let mut single = once();
    single.spec.misfire = super::schedule::Misfire::Skip;
    single.spec.max_retries = 0;
    let due = single.run.trigger_at;
    let owned = claimed(&single, 1, due);
    let dead = pause(&with(&owned, &failed(&owned, "no", 0, due)), &asker(due));
    let late = due.plus(86_400_000);
    let (fired, _) = fire(&dead, &asker(late)).unwrap();
    assert_eq!((fired.wake_at(), fired.key()), (Some(late), once().key()));
    assert_eq!(judge_claimed(&claimed(&fired, 2, late), late, 0, late), Judged::Fire(None));
}

#[test]
fn a_pause_keeps_it_still_and_a_resume_looks_forward() {
    let paused = pause(&every(), &asker(NOW));
    assert_eq!(paused.wake_at(), None);
    let (resumed, noted) = resume(&paused, NOW.plus(35_000));
    assert_eq!((resumed.wake_at(), noted.is_some()), (Some(NOW.plus(40_000)), true));
    let (resumed, _) = resume(&pause(&once(), &asker(NOW)), NOW.plus(35_000));
    assert_eq!(resumed.wake_at(), Some(NOW.plus(10_000)), "a single one is not lost");
}

#[test]
fn a_person_writes_at_the_version_they_read_and_never_under_an_owner() {
    let stored = Trigger { version: 3, ..every() };
    let same = |version| may_save(Some(&stored), &Trigger { version, ..stored.clone() }, NOW);
    assert_eq!(same(3), Ok(()));
    assert_eq!(same(2), Err(Refusal::Version { given: 2, stored: 3 }));
    assert!(matches!(same(0), Err(Refusal::Exists(_))));
    assert!(matches!(may_save(None, &stored, NOW), Err(Refusal::NotFound(_))));
    let owned = claimed(&stored, 1, NOW);
    let changed = replace(&owned, spec(r#"{"every": "1m"}"#), NOW).unwrap();
    assert!(matches!(may_save(Some(&owned), &changed, NOW), Err(Refusal::Owned { .. })));
    assert_eq!(may_save(Some(&owned), &changed, NOW.plus(1_000)), Ok(()), "its owner was not heard of again");
    assert_eq!(may_save(Some(&owned), &pause(&owned, &asker(NOW)), NOW), Ok(()));
}

#[test]
fn only_the_newest_claim_may_settle_and_once() {
    let owned = claimed(&every(), 7, NOW);
    assert_eq!(holds(&owned.run, Fence(7)), Ok(true));
    assert_eq!(holds(&owned.run, Fence(6)), Err(Refusal::Stale { given: Fence(6), stored: Fence(7) }));
    assert_eq!(holds(&fired(&owned, made(), NOW).run, Fence(7)), Ok(false));
}

#[test]
fn a_settle_leaves_a_lease_that_goes_on_and_a_repeat_changes_nothing() {
    let owned = claimed(&every(), 7, NOW);
    let renewed = renew(&owned.run, Fence(7), 60_000, NOW).unwrap();
    assert_eq!(renewed.lease_until, NOW.plus(60_000));
    let first = Run { trigger_at: NOW.plus(5), ..owned.run.clone() };
    let written = settle(&renewed, Fence(7), &first).unwrap().unwrap();
    assert_eq!((written.trigger_at, written.lease_until), (NOW.plus(5), NOW.plus(60_000)));
    assert_eq!(settle(&written, Fence(7), &first), Ok(None), "a repeat of a first write");
    let owned = Trigger { run: written.clone(), ..owned };
    let done = settle(&written, Fence(7), &fired(&owned, made(), NOW).run).unwrap().unwrap();
    assert_eq!((done.owner.clone(), done.fence), (None, Fence(7)));
    assert_eq!(settle(&done, Fence(7), &first), Ok(None), "settled, and that stands");
    assert!(matches!(settle(&done, Fence(6), &first), Err(Refusal::Stale { .. })));
    assert!(matches!(renew(&done, Fence(7), 1, NOW), Err(Refusal::State { .. })));
    assert!(matches!(renew(&done, Fence(6), 1, NOW), Err(Refusal::Stale { .. })));
}

#[test]
fn what_is_taken_from_a_lost_owner_has_a_new_fence() {
    let owned = claimed(&Trigger { version: 1, ..every() }, 7, NOW);
    let later = NOW.plus(1_000);
    let changed = replace(&owned, spec(r#"{"every": "1m"}"#), later).unwrap();
    assert!(takes_away(Some(&owned), &changed));
    assert!(!takes_away(Some(&owned), &pause(&owned, &asker(NOW))) && !takes_away(None, &changed));
    let forged = Trigger { run: Run { fence: Fence(99), ..changed.run.clone() }, ..changed };
    let saved = save(Some(&owned), &forged, later).unwrap();
    assert_eq!((saved.run.fence, saved.version), (Fence(7), owned.version + 1), "fences are the store's");
}

#[test]
fn a_gap_is_where_no_lease_of_a_scheduler_ran() {
    let first = Alive::default().claims(1_000, NOW);
    assert_eq!(first, Alive { since: NOW, until: NOW.plus(1_000) });
    let second = first.claims(5_000, NOW.plus(1_000));
    assert_eq!(second, Alive { since: NOW, until: NOW.plus(6_000) });
    assert_eq!(second.claims(10, NOW.plus(2_000)), second, "a short lease does not end a longer one");
    assert_eq!(second.claims(10, NOW.plus(6_001)).since, NOW.plus(6_001));
}
