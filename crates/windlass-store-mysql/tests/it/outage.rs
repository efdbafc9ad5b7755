//! A server that is killed in the middle of calls and comes back: what was acknowledged is there, what had no answer is
//! done once by a repeat, and the store goes on by itself.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Rival, id};
use windlass_core::event::Fact;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::rules::Outcome;
use windlass_core::job::{JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::port::job::{Delivery, Jobs, Turn};
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Key, Row, Step};
use windlass_core::task::status::TaskStatus;
use windlass_store_mysql::{MySql, Options};

use crate::server::{Database, Server, database_on};

/// Writers, each on a task of its own, that commit until the server is gone.
const WRITERS: usize = 8;
/// Acknowledged boundaries before it goes, each time.
const ENOUGH: u64 = 100;
/// How often it is killed.
const CRASHES: u64 = 10;

async fn store(database: &Database) -> MySql {
    MySql::open(&database.url, &Options { answer_ms: 20_000, ..Options::default() }).await.unwrap()
}

async fn open(database: &Database) -> Rival {
    let store = store(database).await;
    Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id("one") }
}

/// Repeats a call while the store is away; anything else than its absence is an error.
macro_rules! until_back {
    ($call:expr) => {
        loop {
            match $call.await {
                Ok(done) => break done,
                Err(PortError::Unavailable(_)) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}"),
            }
        }
    };
}

/// Commits on one task until the server is gone: the last event that was acknowledged, and what had no answer.
async fn writes(
    one: Rival,
    attempt: windlass_conformance::world::Attempt,
    name: String,
    done: Arc<AtomicU64>,
) -> (u64, Option<Step>) {
    let (mut last, mut turn) = (0, 0);
    loop {
        let Ok(rows) = one.ports.state.load(&[Key::Task(attempt.task.clone())]).await else { return (last, None) };
        let Some(Row::Task(row)) = rows.into_iter().next().flatten() else { panic!("the task is there") };
        last = last.max(row.seq);
        let step = step::owner(&format!("{name}-{turn}"), &row, &attempt, vec![Fact::TaskPauseRequested]);
        turn += 1;
        match one.ports.state.commit(std::slice::from_ref(&step)).await {
            Ok(answers) => last = answers.into_iter().next().unwrap().unwrap().seq,
            Err(PortError::Unavailable(_)) => return (last, Some(step)),
            Err(error) => panic!("{error}"),
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_is_there_after_every_crash_and_repeats_are_done_once() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    let one = open(&database).await;
    one.beat(3_600_000).await;
    let draft = Draft::wide("p", WRITERS).stages(100).at_once(WRITERS as u32);
    one.run(&draft).await;
    let mut attempts = Vec::new();
    for n in 0..WRITERS {
        attempts.push(one.begin(&draft.task(n)).await);
    }
    for crash in 0..CRASHES {
        let done = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| {
                let name = format!("write-{crash}-{n}");
                tokio::spawn(writes(one.clone(), attempts[n].clone(), name, Arc::clone(&done)))
            })
            .collect();
        while done.load(Ordering::Relaxed) < ENOUGH {
            tokio::task::yield_now().await;
        }
        server.kill();
        let mut left = Vec::new();
        for writer in writers {
            left.push(writer.await.unwrap());
        }
        let away = one.ports.state.load(&[Key::Task(draft.task(0))]).await;
        assert!(matches!(away, Err(PortError::Unavailable(_))), "{away:?}");
        server.up();
        for (n, (last, unanswered)) in left.into_iter().enumerate() {
            let rows = until_back!(one.ports.state.load(&[Key::Task(draft.task(n))]));
            let Some(Row::Task(row)) = &rows[0] else { panic!("the task is there") };
            assert!(row.seq >= last, "event {last} of task {n} was acknowledged, {} is there", row.seq);
            let Some(step) = unanswered else { continue };
            // Its effect is unknown; the same again is done once, whichever it was.
            let first = until_back!(one.ports.state.commit(std::slice::from_ref(&step)));
            let again = until_back!(one.ports.state.commit(std::slice::from_ref(&step)));
            assert_eq!(first, again);
            assert_eq!(one.task(&draft.task(n)).await.seq, last + 1);
            assert_eq!(one.history(Key::TaskHistory(draft.task(n))).await.last().unwrap().seq, last + 1);
        }
    }
}

/// Submits and works, and repeats whatever had no answer, until all is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_are_done_once_each_however_often_the_server_is_killed() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    let store = store(&database).await;
    let queue: QueueName = id("work");
    let done = Arc::new(AtomicU64::new(0));
    let submitter = {
        let (store, queue) = (store.clone(), queue.clone());
        tokio::spawn(async move {
            for n in 0..300 {
                let group: Vec<NewJob> =
                    (0..10).map(|i| NewJob::new(JobId::random(n * 10 + i + 1), queue.clone(), None)).collect();
                let taken = until_back!(store.submit(std::slice::from_ref(&group)));
                assert_eq!(taken[0].as_ref().unwrap().len(), 10);
            }
        })
    };
    let worker = {
        let (store, queue, done) = (store.clone(), queue.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let mut settle = Vec::new();
            let mut seen = BTreeSet::new();
            while seen.len() < 3_000 {
                let want = vec![(queue.clone(), 20)];
                // Short, so that what was claimed when the answer was lost comes back soon.
                let turn = Turn { worker: id("w"), lease_ms: 200, settle, beat: Vec::new(), want };
                let turned = until_back!(store.turn(std::slice::from_ref(&turn))).remove(0);
                for ((of, _), answer) in turn.settle.iter().zip(&turned.settled) {
                    // Refused only where its lease ran out and it was delivered again.
                    if answer.is_ok() {
                        seen.insert(of.job);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                let ends = |job: &windlass_core::job::Job| {
                    (Delivery { job: job.id, fence: job.fence }, Outcome::Completed(Json::null()))
                };
                settle = turned.claimed.iter().map(ends).collect();
            }
        })
    };
    for crash in 1..=CRASHES {
        while done.load(Ordering::Relaxed) < crash * 200 {
            tokio::task::yield_now().await;
        }
        server.kill();
        server.up();
    }
    submitter.await.unwrap();
    worker.await.unwrap();
    let ids: Vec<JobId> = (1..=3_000).map(JobId::random).collect();
    let jobs = Jobs::load(&store, &ids).await.unwrap();
    assert!(jobs.iter().flatten().all(|job| job.status == JobStatus::Completed));
    assert_eq!(jobs.iter().flatten().count(), 3_000);
    let views = store.queues(None, 10).await.unwrap().items;
    assert!(views.iter().all(|view| view.waiting + view.running == 0), "what is counted is what is there: {views:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_outlives_a_crash_and_is_woken_afterwards() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    let (one, two) = (open(&database).await, open(&database).await);
    one.beat(3_600_000).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let since = two.mark().await;
    assert_eq!(two.ports.state.changed(since, 1).await, Ok(since), "it listens, and hears nothing");
    server.kill();
    server.up();
    until_back!(two.ports.state.changed(since, 0));
    let waiter = two.clone();
    let waits = tokio::spawn(async move { waiter.ports.state.changed(since, 60_000).await });
    let ask = step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause());
    until_back!(one.ports.state.commit(std::slice::from_ref(&ask)));
    assert!(waits.await.unwrap().unwrap() > since);
    assert!(Locks::load(&*one.ports.locks, &[id("acme")]).await.unwrap()[0].holder.is_some(), "locks outlive it too");
}
