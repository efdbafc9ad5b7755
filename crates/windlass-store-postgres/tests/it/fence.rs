//! A fence that is raised while a boundary is under way. The contract's races cannot tell in which order two
//! commits were judged; here the order is made: the fence's row is held until the boundary waits for it.

use windlass_conformance::harness::Harness as _;
use windlass_conformance::world::Rival;
use windlass_conformance::world::step::Draft;
use windlass_core::fence::Fence;
use windlass_core::port::Refusal;

use crate::server::{client, schema};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_boundary_waits_for_a_fence_that_is_being_raised_and_is_refused_by_it() {
    let schema = schema().await;
    let one = Rival { ports: schema.open(0).await, me: "one".parse().unwrap() };
    one.beat(3_600_000).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let boundary = one.boundary(&attempt).await;
    let (other, watcher) = (client(&schema.url).await, client(&schema.url).await);
    other.batch_execute("BEGIN; UPDATE tenant_state SET fence = fence + 1").await.unwrap();
    let pid: i32 = other.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
    let late = {
        let one = one.clone();
        tokio::spawn(async move { one.commit(&boundary).await })
    };
    // Asked outside of the transaction, in which what is going on stays what it was when it was first looked at.
    let waits = "SELECT count(*) FROM pg_stat_activity \
         WHERE $1 = ANY (pg_blocking_pids(pid)) AND query LIKE '%windlass_boundary%'";
    while !late.is_finished() && watcher.query_one(waits, &[&pid]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    other.batch_execute("COMMIT").await.unwrap();
    let stored = Fence(attempt.fence.0 + 1);
    assert_eq!(late.await.unwrap(), Err(Refusal::Stale { given: attempt.fence, stored }));
    assert_eq!(one.task(&attempt.task).await.checkpoint, 0, "nothing of it was written");
}
