//! Several schedulers on one store: one job for each time, whoever dies when.

use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Filter, State};
use windlass_core::trigger::Noted;

use super::*;

#[tokio::test(start_paused = true)]
async fn two_schedulers_submit_one_job_for_each_time() {
    let hall = Hall::new();
    let one = hall.desk().await;
    let _two = hall.desk_with(Shaky::over(&hall.store), 2).await;
    for n in 0..20 {
        one.save(&format!("t{n}"), &job(r#"{"every": "1s"}"#, "")).await;
    }
    pass(10_500).await;
    let mut keys: Vec<_> = hall.jobs().await.into_iter().map(|job| job.key.unwrap()).collect();
    assert_eq!(keys.len(), 200);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 200, "each time once");
}

#[tokio::test(start_paused = true)]
async fn who_dies_between_claim_and_settle_is_followed_by_the_other_under_the_same_key() {
    let hall = Hall::new();
    let one = hall.desk().await;
    one.save("t", &job(r#"{"after": "1s"}"#, "")).await;
    one.save("p", &plan(r#"{"after": "1s"}"#, "")).await;
    one.ports.refuse_settles();
    pass(1_050).await;
    assert_eq!(hall.times().await, [1_000], "the job is there, and nobody has written that");
    assert_eq!(hall.status("t").await, TriggerStatus::Processing);
    one.engine.kill();
    let _two = hall.desk_with(Shaky::over(&hall.store), 2).await;
    pass(1_000).await;
    assert_eq!(hall.status("t").await, TriggerStatus::Processing, "its lease runs");
    pass(8_000).await;
    let run = hall.get("t").await.run;
    assert_eq!((run.status, hall.times().await), (TriggerStatus::Completed, vec![1_000]));
    assert_eq!(run.made, Some(windlass_core::trigger::Made::Job(hall.jobs().await[0].id)), "the one that was there");
    assert_eq!(hall.status("p").await, TriggerStatus::Completed);
    assert_eq!(hall.script.of("acme").len(), 1, "one plan, and it ran once");
}

/// Idempotency keys are kept for a day, and a person may fire a dead occurrence later than that.
#[tokio::test(start_paused = true)]
async fn an_occurrence_makes_one_plan_also_when_its_key_is_forgotten() {
    let hall = Hall::new();
    let one = hall.desk().await;
    let waits =
        plan(r#"{"after": "1s"}"#, "").replace(r#""handler":{"name":"do"}"#, r#""approval":{"message":"Well?"}"#);
    one.save("p", &waits).await;
    one.ports.refuse_settles();
    pass(1_500).await;
    one.engine.kill();
    pass(10_000).await;
    assert!(State::purge(&hall.store, hall.now(), 1_000).await.unwrap() > 0, "the key is forgotten");
    let _two = hall.desk_with(Shaky::over(&hall.store), 2).await;
    pass(1_000).await;
    assert_eq!(hall.status("p").await, TriggerStatus::Completed);
    let statuses = vec![PlanStatus::Ready, PlanStatus::Running, PlanStatus::Paused];
    let plans = State::list(&hall.store, &Filter::Plans { statuses }, None, 100).await.unwrap().items;
    assert_eq!(plans.len(), 1, "{plans:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_hands_occurrences_back_at_once() {
    let hall = Hall::new();
    let one = hall.desk().await;
    one.save("t", &job(r#"{"after": "1s"}"#, r#", "maxRetries": 0"#)).await;
    one.ports.refuse_jobs(true);
    pass(1_050).await;
    one.engine.stop().await;
    let run = hall.get("t").await.run;
    assert_eq!((run.status, run.retry_count, run.owner), (TriggerStatus::Pending, 0, None));
    let _two = hall.desk_with(Shaky::over(&hall.store), 2).await;
    pass(200).await;
    assert_eq!(hall.times().await, [1_000]);
}

/// A person fires, the timer fires, a person removes, in an order that a seed decides.
#[tokio::test(start_paused = true)]
async fn fire_against_timer_against_remove_has_one_winner() {
    let (mut fired, mut removed) = (0, 0);
    for seed in 0..200 {
        let hall = Hall::new();
        let one = hall.desk_with(Shaky::over(&hall.store), seed).await;
        let two = hall.desk_with(Shaky::over(&hall.store), seed + 1_000).await;
        let mut dice = fastrand::Rng::with_seed(seed);
        one.save("t", &job(r#"{"after": "10ms"}"#, "")).await;
        let id: TriggerId = "t".parse().unwrap();
        let (fire_at, remove_at) = (dice.u64(8..13), dice.u64(8..13));
        let fire = async {
            pass(fire_at).await;
            one.engine.triggers().unwrap().fire(&id, &by("ann")).await.is_ok()
        };
        let remove = async {
            pass(remove_at).await;
            two.engine.triggers().unwrap().remove(&id).await.unwrap()
        };
        let (by_hand, gone) = tokio::join!(fire, remove);
        pass(5_000).await;
        let times = hall.times().await;
        assert!(times.len() <= 1, "seed {seed}: {times:?}");
        assert!(gone, "seed {seed}: it was there to be removed");
        // Removed before its time and before anybody fired it, it fires never; else it fired, or was just about to.
        if remove_at < fire_at.min(10) {
            assert_eq!(times, [] as [u64; 0], "seed {seed}");
            removed += 1;
        } else if fire_at.min(10) < remove_at {
            assert_eq!(times, [fire_at.min(10)], "seed {seed}");
            fired += 1;
        }
        assert!(!by_hand || fire_at <= 10.max(remove_at), "seed {seed}");
        one.engine.kill();
        two.engine.kill();
    }
    assert!(fired > 10 && removed > 10, "both happened: {fired}, {removed}");
}

#[tokio::test(start_paused = true)]
async fn a_recurring_one_survives_schedulers_that_come_and_go() {
    for seed in 0..20 {
        let hall = Hall::new();
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut desk = hall.desk_with(Shaky::over(&hall.store), seed).await;
        desk.save("t", &job(r#"{"every": "1s"}"#, r#", "misfire": "catch_up", "maxRetries": 50"#)).await;
        for round in 1..10 {
            pass(dice.u64(500..3_000)).await;
            match dice.bool() {
                true => desk.engine.kill(),
                false => drop(desk.engine.stop().await),
            }
            desk = hall.desk_with(Shaky::over(&hall.store), seed + round * 100).await;
        }
        let end = hall.now().since(BEGIN) / 1_000;
        pass(12_000).await;
        let times = hall.times().await;
        let wanted: Vec<u64> = (1..=end).map(|s| s * 1_000).collect();
        assert_eq!(times[..wanted.len()], wanted, "seed {seed}");
        let notes = hall.notes("t").await;
        assert!(notes.iter().all(|(_, what)| matches!(what, Noted::Fired(_))), "seed {seed}: {notes:?}");
    }
}
