//! Several who hand out at once do not wait for each other, unless there is nothing else to have.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::Draft;
use windlass_conformance::world::{Rival, id};
use windlass_core::id::TaskId;
use windlass_store_mysql::{MySql, Options};

use crate::server::{client, database};

/// Longer than anything here takes: whoever waits for good is seen.
const WATCHDOG: Duration = Duration::from_secs(30);

async fn taken(rival: &Rival) -> Vec<TaskId> {
    let taken = tokio::time::timeout(WATCHDOG, rival.ready(None, 20)).await.unwrap();
    taken.into_iter().map(|row| row.unwrap().task.id).collect()
}

async fn rival(url: &str) -> Rival {
    let store = MySql::open(url, &Options::default()).await.unwrap();
    let rival = Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id("one") };
    rival.beat(60_000).await;
    rival
}

#[tokio::test]
async fn a_plan_that_somebody_hands_out_from_is_passed_over_and_waited_for_if_there_is_nothing_else() {
    let database = database().await;
    let one = rival(&database.url).await;
    let (first, second) = (Draft::wide("first", 2), Draft::wide("second", 2));
    one.run(&first).await;
    one.run(&second).await;

    let mut somebody = client(&database.url).await;
    somebody.query_drop("BEGIN").await.unwrap();
    somebody.query_drop("SELECT 1 FROM plan_state_projection WHERE plan_id = 'first' FOR UPDATE").await.unwrap();
    assert_eq!(taken(&one).await, [second.task(0), second.task(1)], "the other is passed over");

    let waits = tokio::spawn(async move { taken(&one).await });
    let waiting = format!(
        "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE db = '{}' AND info LIKE '%FROM plan_state_projection%' AND info LIKE '%FOR UPDATE'",
        database.name
    );
    while !waits.is_finished() && somebody.query_first::<u64, _>(&waiting).await.unwrap() == Some(0) {}
    assert!(!waits.is_finished(), "there was nothing else");
    somebody.query_drop("COMMIT").await.unwrap();
    assert_eq!(waits.await.unwrap(), [first.task(0), first.task(1)]);
}

#[tokio::test]
async fn among_many_plans_that_others_have_the_first_that_are_free_are_found_in_their_order() {
    let database = database().await;
    let one = rival(&database.url).await;
    let plans: Vec<_> = (0..40).map(|nth| Draft::wide(&format!("plan-{nth:02}"), 1)).collect();
    for plan in &plans {
        one.run(plan).await;
    }
    let mut somebody = client(&database.url).await;
    somebody.query_drop("BEGIN").await.unwrap();
    // All were made at one time: then the last id comes first. More are locked, and more are free, than one transaction
    // hands out from.
    for nth in (15..40).filter(|nth| ![20, 30].contains(nth)) {
        let lock = format!("SELECT 1 FROM plan_state_projection WHERE plan_id = 'plan-{nth:02}' FOR UPDATE");
        somebody.query_drop(lock).await.unwrap();
    }
    let free = [30, 20].into_iter().chain((0..15).rev()).map(|nth: usize| plans[nth].task(0));
    assert_eq!(taken(&one).await, free.collect::<Vec<_>>());
    somebody.query_drop("COMMIT").await.unwrap();
}
