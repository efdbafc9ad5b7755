//! Jobs on PostgreSQL beyond the contract: two processes at once, a server that crashes, plans that stay on their indexes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::rules::Outcome;
use windlass_core::job::{JobStatus, NewJob, When};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::port::job::{Delivery, JobFilter, Jobs, Turn, Turned};
use windlass_core::time::Ms;
use windlass_store_postgres::{Options, Postgres};

use crate::server::{Server, client, execute, schema};

/// Long enough that no lease runs out in a test.
const LEASE_MS: u64 = 600_000;

async fn open(url: &str) -> Postgres {
    Postgres::open(url, &Options { answer_ms: 120_000, ..Options::default() }).await.unwrap()
}

fn queue() -> QueueName {
    "work".parse().unwrap()
}

fn new(n: u128) -> NewJob {
    NewJob::new(JobId::random(n), queue(), Some(Json::parse("{}").unwrap()))
}

fn turn(worker: &str, settle: Vec<Delivery>, want: u32) -> Turn {
    let done = |delivery| (delivery, Outcome::Completed(Json::null()));
    Turn {
        worker: worker.parse().unwrap(),
        lease_ms: LEASE_MS,
        settle: settle.into_iter().map(done).collect(),
        beat: Vec::new(),
        want: vec![(queue(), want)],
    }
}

async fn one_turn(store: &Postgres, turn: Turn) -> Result<Turned, PortError> {
    store.turn(&[turn]).await.map(|mut turned| turned.remove(0))
}

fn deliveries(turned: &Turned) -> Vec<Delivery> {
    turned.claimed.iter().map(|job| Delivery { job: job.id, fence: job.fence }).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_processes_deliver_every_job_once() {
    const JOBS: usize = 2_000;
    let schema = schema().await;
    let stores = [open(&schema.url).await, open(&schema.url).await];
    let jobs: Vec<NewJob> = (0..JOBS as u128).map(new).collect();
    stores[0].submit(&[jobs]).await.unwrap().remove(0).unwrap();
    let settled = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for n in 0..16 {
        let (store, settled) = (stores[n % 2].clone(), Arc::clone(&settled));
        workers.push(tokio::spawn(async move {
            let (mut held, mut had) = (Vec::new(), Vec::new());
            while settled.load(Ordering::SeqCst) < JOBS {
                let turned = one_turn(&store, turn(&format!("w{n}"), std::mem::take(&mut held), 7)).await.unwrap();
                let good = turned.settled.iter().filter(|settled| **settled == Ok(JobStatus::Completed)).count();
                assert_eq!(good, turned.settled.len(), "{:?}", turned.settled);
                settled.fetch_add(good, Ordering::SeqCst);
                held = deliveries(&turned);
                had.extend(held.iter().copied());
            }
            had
        }));
    }
    let mut delivered: HashMap<JobId, Fence> = HashMap::new();
    for worker in workers {
        for delivery in worker.await.unwrap() {
            let before = delivered.insert(delivery.job, delivery.fence);
            assert_eq!(before, None, "{} was delivered twice", delivery.job);
        }
    }
    assert_eq!(delivered.len(), JOBS);
    let fences: std::collections::HashSet<Fence> = delivered.into_values().collect();
    assert_eq!(fences.len(), JOBS, "every delivery has a fence of its own");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_before_a_crash_holds_and_what_was_not_can_be_repeated() {
    let mut server = Server::start();
    let store = open(&server.url()).await;
    let jobs: Vec<NewJob> = (0..500).map(new).collect();
    store.submit(std::slice::from_ref(&jobs)).await.unwrap().remove(0).unwrap();
    let first = one_turn(&store, turn("w", Vec::new(), 100)).await.unwrap();
    let held = deliveries(&first);
    let highest = held.iter().map(|delivery| delivery.fence).max().unwrap();
    let acknowledged = one_turn(&store, turn("w", held[..50].to_vec(), 0)).await.unwrap();
    assert!(acknowledged.settled.iter().all(|settled| *settled == Ok(JobStatus::Completed)));
    server.crash();
    let away = one_turn(&store, turn("w", held[50..].to_vec(), 10)).await;
    assert!(matches!(away, Err(PortError::Unavailable(_))), "{away:?}");
    server.up();
    let again = loop {
        match one_turn(&store, turn("w", held.clone(), 10)).await {
            Ok(turned) => break turned,
            Err(PortError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(again.settled.iter().all(|settled| *settled == Ok(JobStatus::Completed)), "{:?}", again.settled);
    assert_eq!(again.claimed.len(), 10);
    assert!(again.claimed.iter().all(|job| job.fence > highest), "no fence is drawn twice");
    let same = store.submit(&[jobs]).await.unwrap().remove(0).unwrap();
    assert!(same.iter().all(|submitted| submitted.existing), "a submission can be repeated");
}

/// Fills a queue as somebody with psql would: what has ended, what waits, what waits for its time.
const FILL: &str = "
    INSERT INTO async_tasks (task_id, queue, tenant_id, status, payload, result, submitted_at, started_at, completed_at, version,
        priority, ready, run_at, max_attempts, backoff_first_ms, backoff_max_ms, digest)
    SELECT (lpad(to_hex(n), 8, '0') || '-0000-4000-8000-000000000000')::uuid, 'old', 'tenant-' || n % 10,
        CASE WHEN n % 2 = 0 THEN 'COMPLETED' ELSE 'PENDING' END, '{}', CASE WHEN n % 2 = 0 THEN '1' END, now,
        CASE WHEN n % 2 = 0 THEN now END, CASE WHEN n % 2 = 0 THEN now END, 1, 0, n % 4 = 1,
        CASE WHEN n % 4 = 3 THEN now + interval '1 day' ELSE now END, 1, 1, 1, 1
    FROM generate_series(1, 60000) AS n
    CROSS JOIN LATERAL (SELECT date_trunc('milliseconds', clock_timestamp()) - n * interval '1 ms' AS now) AS t;
    ANALYZE async_tasks;";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_reads_the_whole_table() {
    let schema = schema().await;
    let store = open(&schema.url).await;
    execute(&schema.url, FILL).await;
    let seq_scans = "SELECT coalesce(seq_scan, 0), coalesce(idx_scan, 0) FROM pg_stat_user_tables \
         WHERE schemaname = current_schema() AND relname = 'async_tasks'";
    let client = client(&schema.url).await;
    let before: i64 = client.query_one(seq_scans, &[]).await.unwrap().get(0);
    for n in 0..8u128 {
        let delayed = NewJob { when: When::In(60_000), tenant: Some("tenant-1".parse().unwrap()), ..new(100 + n) };
        store.submit(&[vec![new(n)], vec![NewJob { key: Some(format!("k{n}")), ..delayed }]]).await.unwrap();
        let turned = one_turn(&store, turn("w", Vec::new(), 1)).await.unwrap();
        let fence = turned.claimed[0].fence;
        one_turn(&store, turn("w", vec![Delivery { job: JobId::random(n), fence }], 5)).await.unwrap();
        store.load(&[JobId::random(n)]).await.unwrap();
        for filter in [JobFilter::default(), JobFilter { queue: Some("old".parse().unwrap()), ..JobFilter::default() }]
        {
            let mut after = None;
            for _ in 0..6 {
                let page = store.list(&filter, after.as_ref(), 50).await.unwrap();
                after = page.next;
            }
        }
        let ended = JobFilter { statuses: vec![JobStatus::Completed], ..JobFilter::default() };
        let first = Jobs::list(&store, &ended, None, 10).await.unwrap().next;
        assert_eq!(Jobs::list(&store, &ended, first.as_ref(), 10).await.unwrap().items.len(), 10);
        store.queues(None, 10).await.unwrap();
        store.sweep(10).await.unwrap();
        Jobs::purge(&store, Ms::ZERO, 10).await.unwrap();
    }
    store.close().await;
    // The sessions report when they end.
    let (scans, uses) = loop {
        let row = client.query_one(seq_scans, &[]).await.unwrap();
        let (scans, uses): (i64, i64) = (row.get(0), row.get(1));
        if uses > 100 || scans > before {
            break (scans, uses);
        }
    };
    assert_eq!(scans, before, "a statement read the table from end to end; {uses} used an index");
}

/// The server's statistics say that no job has a key, as they do until the next ANALYZE after the first one had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_with_a_key_looks_up_its_key_alone() {
    const CALLS: u128 = 40;
    let schema = schema().await;
    let store = open(&schema.url).await;
    execute(&schema.url, FILL).await;
    for call in 0..CALLS {
        let keyed =
            (0..25).map(|n| NewJob { key: Some(format!("{call}-{n}")), ..new(call * 25 + n) }).map(|job| vec![job]);
        let groups: Vec<_> = keyed.collect();
        store.submit(&groups).await.unwrap().into_iter().for_each(|answer| drop(answer.unwrap()));
    }
    store.close().await;
    let reads = "SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes \
         WHERE schemaname = current_schema() AND indexrelname = 'async_tasks_key'";
    let client = client(&schema.url).await;
    // The sessions report when they end.
    let (looks, read) = loop {
        let row = client.query_one(reads, &[]).await.unwrap();
        let (looks, read): (i64, i64) = (row.get(0), row.get(1));
        if looks >= 25 * CALLS as i64 || read > 0 {
            break (looks, read);
        }
    };
    assert_eq!((looks, read), (25 * CALLS as i64, 0), "lookups of keys, and entries they found");
}
