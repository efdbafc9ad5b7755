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
    let taken = tokio::time::timeout(WATCHDOG, rival.ready(None, 10)).await.unwrap();
    taken.into_iter().map(|row| row.unwrap().task.id).collect()
}

#[tokio::test]
async fn a_plan_that_somebody_hands_out_from_is_passed_over_and_waited_for_if_there_is_nothing_else() {
    let database = database().await;
    let store = MySql::open(&database.url, &Options::default()).await.unwrap();
    let one = Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id("one") };
    one.beat(60_000).await;
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
