//! Several who hand out at once do not wait for each other, unless there is nothing else to have.

use std::sync::Arc;
use std::time::Duration;

use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::Draft;
use windlass_conformance::world::{Rival, id};
use windlass_core::id::TaskId;
use windlass_store_postgres::{Options, Postgres};

use crate::server::{client, schema};

/// Longer than anything here takes: whoever waits for good is seen.
const WATCHDOG: Duration = Duration::from_secs(30);

async fn taken(rival: &Rival) -> Vec<TaskId> {
    let taken = tokio::time::timeout(WATCHDOG, rival.ready(None, 10)).await.unwrap();
    taken.into_iter().map(|row| row.unwrap().task.id).collect()
}

#[tokio::test]
async fn a_plan_that_somebody_hands_out_from_is_passed_over_and_waited_for_if_there_is_nothing_else() {
    let schema = schema().await;
    let store = Postgres::open(&schema.url, &Options::default()).await.unwrap();
    let one = Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id("one") };
    one.beat(60_000).await;
    let (first, second) = (Draft::wide("first", 2), Draft::wide("second", 2));
    one.run(&first).await;
    one.run(&second).await;

    let somebody = client(&schema.url).await;
    somebody
        .batch_execute("BEGIN; SELECT 1 FROM plan_state_projection WHERE plan_id = 'first' FOR UPDATE")
        .await
        .unwrap();
    assert_eq!(taken(&one).await, [second.task(0), second.task(1)], "the other is passed over");

    let waits = tokio::spawn(async move { taken(&one).await });
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%windlass_take%' \
        AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'plan_state_projection'::regclass)";
    while !waits.is_finished() && somebody.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    assert!(!waits.is_finished(), "there was nothing else");
    somebody.batch_execute("COMMIT").await.unwrap();
    assert_eq!(waits.await.unwrap(), [first.task(0), first.task(1)]);
}
