//! How a server is set does not matter: every connection is set up for itself.

use std::sync::Arc;

use mysql_async::prelude::Queryable as _;
use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::Draft;
use windlass_conformance::world::{Rival, id};
use windlass_core::lock::Acquire;
use windlass_store_mysql::{MySql, Options};

use crate::server::{Server, client, database_on};

const TASKS: usize = 200;

/// The first two as MySQL 8 comes; MariaDB comes with a thousand times the room for texts that are put together. The others as a group of
/// MySQL servers sets them, and as somebody may have.
const SETTINGS: [&str; 5] = [
    "--group-concat-max-len=1024",
    "--innodb-autoinc-lock-mode=2",
    "--auto-increment-increment=7",
    "--auto-increment-offset=3",
    "--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,TRADITIONAL",
];

#[tokio::test]
async fn a_large_plan_and_many_fences_are_as_anywhere_on_a_server_that_is_set_otherwise() {
    let server = Server::with(&SETTINGS);
    let database = database_on(&server.url()).await;
    let store = MySql::open(&database.url, &Options::default()).await.unwrap();
    let one = Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id("one") };
    one.beat(60_000).await;
    let draft = Draft::wide("large", TASKS);
    one.run(&draft).await;

    let mut conn = client(&database.url).await;
    let ids: String = conn.query_first("SELECT task_ids FROM plan_state_projection").await.unwrap().unwrap();
    let ids: Vec<String> = serde_json::from_str(&ids).unwrap();
    let expected: Vec<String> = (0..TASKS).map(|n| draft.task(n).to_string()).collect();
    assert_eq!(ids, expected);

    let want = |n: usize| Acquire { tenant: id(&format!("t{n}")), plan: id("p"), task: id("t"), ttl_ms: 60_000 };
    let mut fences = Vec::new();
    for _ in 0..2 {
        let wants: Vec<Acquire> = (0..5).map(want).collect();
        let got = one.ports.locks.acquire(&wants).await.unwrap();
        fences.extend(got.into_iter().map(|holder| holder.unwrap().fence));
    }
    assert!(fences.is_sorted_by(|a, b| a < b), "each is larger than every one before: {fences:?}");
    let left: Option<u64> = conn.query_first("SELECT COUNT(*) FROM fence_counter").await.unwrap();
    assert_eq!(left, Some(0), "whoever draws a fence removes its row");
}
