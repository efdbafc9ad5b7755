//! What ended while nobody looked: told, or said to be missing.

use windlass_core::id::{JobId, QueueName};
use windlass_core::job::NewJob;
use windlass_core::job::rules::Outcome;
use windlass_core::json::Json;
use windlass_core::port::Mark;
use windlass_core::port::job::{Delivery, Jobs, Turn};
use windlass_store_mysql::{MySql, Options};

use crate::server::database;

/// Transactions with an end: some fit into what a shard remembers, others do not.
#[tokio::test]
async fn ends_that_were_overwritten_before_anybody_looked_are_a_gap() {
    let database = database().await;
    let one = Options { connections: 1, ..Options::default() };
    let (waits, works) =
        (MySql::open(&database.url, &one).await.unwrap(), MySql::open(&database.url, &one).await.unwrap());
    let queue: QueueName = "mail".parse().unwrap();
    let mut mark = waits.ended(Mark(0), 0).await.unwrap().mark;
    for (ends, is_gap) in [(20_u128, false), (80, true), (20, false)] {
        let ids: Vec<JobId> = (0..ends).map(|n| JobId::random((u128::from(mark.0) << 20) + n)).collect();
        let jobs = ids.iter().map(|id| NewJob::new(*id, queue.clone(), None)).collect();
        works.submit(&[jobs]).await.unwrap().remove(0).unwrap();
        for _ in 0..ends {
            let turn =
                |settle, want| Turn { worker: "w".parse().unwrap(), lease_ms: 60_000, settle, beat: vec![], want };
            let claimed =
                works.turn(&[turn(vec![], vec![(queue.clone(), 1)])]).await.unwrap().remove(0).claimed.remove(0);
            let settle = vec![(Delivery { job: claimed.id, fence: claimed.fence }, Outcome::Completed(Json::null()))];
            works.turn(&[turn(settle, vec![])]).await.unwrap().remove(0).settled.remove(0).unwrap();
        }
        let ended = waits.ended(mark, 60_000).await.unwrap();
        assert_eq!(ended.gap, is_gap, "{ends} ends");
        assert!(ended.gap || ended.jobs.len() == ids.len() && ids.iter().all(|id| ended.jobs.contains(id)));
        mark = ended.mark;
    }
}
