//! After a day off.

use windlass_core::trigger::{Made, Noted};

use super::*;

/// Saves a trigger of every six hours, is away for a day and a bit, and looks what fired within a minute.
async fn after_a_day(more: &str) -> (Hall, Desk) {
    let hall = Hall::new();
    let first = hall.desk().await;
    first.save("t", &job(r#"{"every": "6h"}"#, more)).await;
    first.engine.stop().await;
    pass(DAY_MS + HOUR_MS).await;
    let desk = hall.desk().await;
    pass(60_000).await;
    (hall, desk)
}

const HOUR_MS: u64 = 3_600_000;

fn hours(hours: &[u64]) -> Vec<u64> {
    hours.iter().map(|hour| hour * HOUR_MS).collect()
}

async fn missed(hall: &Hall) -> Vec<(u64, u64, u64)> {
    let notes = hall.notes("t").await.into_iter();
    notes
        .filter_map(|(first, what)| match what {
            Noted::Missed { count, last } => Some((first / HOUR_MS, count, last.since(BEGIN) / HOUR_MS)),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn once_fires_the_newest() {
    let (hall, _desk) = after_a_day("").await;
    assert_eq!(hall.times().await, hours(&[24]));
    assert_eq!(missed(&hall).await, [(6, 3, 18)]);
    assert_eq!(hall.get("t").await.run.trigger_at, BEGIN.plus(30 * HOUR_MS));
    pass(6 * HOUR_MS).await;
    assert_eq!(hall.times().await, hours(&[24, 30]));
}

#[tokio::test(start_paused = true)]
async fn skip_fires_what_comes() {
    let (hall, _desk) = after_a_day(r#", "misfire": "skip""#).await;
    assert_eq!(hall.times().await, [] as [u64; 0]);
    assert_eq!(missed(&hall).await, [(6, 4, 24)]);
    pass(6 * HOUR_MS).await;
    assert_eq!(hall.times().await, hours(&[30]));
}

#[tokio::test(start_paused = true)]
async fn catch_up_fires_the_newest_few_in_their_order() {
    let (hall, _desk) = after_a_day(r#", "misfire": {"catch_up": {"max": 3}}"#).await;
    assert_eq!(hall.times().await, hours(&[12, 18, 24]));
    assert_eq!(missed(&hall).await, [(6, 1, 6)]);
    let submitted: Vec<_> = hall.jobs().await.iter().map(|job| job.submitted_at).collect();
    assert!(submitted.iter().all(|at| at.since(BEGIN.plus(DAY_MS + HOUR_MS)) < 100), "one after another, at once");
}

#[tokio::test(start_paused = true)]
async fn what_is_held_waits_for_a_person_who_fires_it() {
    let (hall, desk) = after_a_day(r#", "recovery": "held""#).await;
    assert_eq!(hall.times().await, [] as [u64; 0]);
    assert_eq!(desk.inbox().await, [(Kind::HeldOccurrence, "t".parse().unwrap())]);
    assert_eq!(hall.notes("t").await, [(6 * HOUR_MS, Noted::Held)]);
    pass(12 * HOUR_MS).await;
    assert_eq!(hall.times().await, [] as [u64; 0], "nothing moves by itself");
    desk.fire("t").await;
    pass(100).await;
    let jobs = hall.jobs().await;
    assert_eq!(hall.times().await, hours(&[6]), "the occurrence that was held");
    assert!(hall.notes("t").await.contains(&(6 * HOUR_MS, Noted::Fired(Made::Job(jobs[0].id)))));
    // The next one fell due while no scheduler lived, too.
    assert_eq!(desk.inbox().await, [(Kind::HeldOccurrence, "t".parse().unwrap())]);
    assert_eq!(hall.get("t").await.run.trigger_at, BEGIN.plus(12 * HOUR_MS));
}

#[tokio::test(start_paused = true)]
async fn what_is_held_waits_for_a_person_who_skips_it() {
    let (hall, desk) = after_a_day(r#", "recovery": "held""#).await;
    desk.engine.triggers().unwrap().skip(&"t".parse().unwrap(), &by("bob")).await.unwrap();
    assert_eq!(desk.inbox().await, []);
    pass(6 * HOUR_MS).await;
    assert_eq!(hall.times().await, hours(&[30]));
}
