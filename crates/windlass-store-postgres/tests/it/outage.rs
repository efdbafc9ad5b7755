//! A server that crashes in the middle of calls and comes back: what was acknowledged is there, and the
//! store goes on by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_conformance::harness::Ports;
use windlass_conformance::world::step::{self, Draft};
use windlass_conformance::world::{Rival, id};
use windlass_core::event::Fact;
use windlass_core::port::PortError;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Key, Row, Step};
use windlass_core::task::status::TaskStatus;
use windlass_store_postgres::{Options, Postgres};

use crate::server::Server;

/// Writers, each on a task of its own, that commit until the server is gone.
const WRITERS: usize = 8;
/// Acknowledged boundaries before it goes.
const ENOUGH: u64 = 200;

async fn open(server: &Server) -> Rival {
    let options = Options { answer_ms: 20_000, ..Options::default() };
    let store = Postgres::open(&server.url(), &options).await.unwrap();
    Rival { ports: Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }, me: id("one") }
}

/// Repeats a call while the store is away; anything else than its absence is an error.
async fn until_back<T>(mut call: impl AsyncFnMut() -> Result<T, PortError>) -> T {
    loop {
        match call().await {
            Ok(done) => return done,
            Err(PortError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_is_there_after_a_crash_and_repeats_are_done_once() {
    let mut server = Server::start();
    let one = open(&server).await;
    one.beat(3_600_000).await;
    let draft = Draft::wide("p", WRITERS).stages(100).at_once(WRITERS as u32);
    one.run(&draft).await;
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut writers = Vec::new();
    for n in 0..WRITERS {
        let attempt = one.begin(&draft.task(n)).await;
        let (one, acknowledged) = (one.clone(), Arc::clone(&acknowledged));
        writers.push(tokio::spawn(async move {
            let (mut last, mut turn) = (0, 0);
            loop {
                let Ok(rows) = one.ports.state.load(&[Key::Task(attempt.task.clone())]).await else {
                    return (last, None);
                };
                let Some(Row::Task(row)) = rows.into_iter().next().flatten() else { panic!("the task is there") };
                let facts = vec![Fact::TaskPauseRequested];
                let step = step::owner(&format!("write-{n}-{turn}"), &row, &attempt, facts);
                turn += 1;
                match one.ports.state.commit(std::slice::from_ref(&step)).await {
                    Ok(answers) => last = answers.into_iter().next().unwrap().unwrap().seq,
                    Err(PortError::Unavailable(_)) => return (last, Some(step)),
                    Err(error) => panic!("{error}"),
                }
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    while acknowledged.load(Ordering::Relaxed) < ENOUGH {
        tokio::task::yield_now().await;
    }
    server.crash();
    let mut left: Vec<(u64, Option<Step>)> = Vec::new();
    for writer in writers {
        left.push(writer.await.unwrap());
    }
    let away = one.ports.state.load(&[Key::Task(draft.task(0))]).await;
    assert!(matches!(away, Err(PortError::Unavailable(_))), "{away:?}");
    server.up();
    for (n, (last, unanswered)) in left.into_iter().enumerate() {
        let rows = until_back(async || one.ports.state.load(&[Key::Task(draft.task(n))]).await).await;
        let Some(Row::Task(row)) = &rows[0] else { panic!("the task is there") };
        assert!(row.seq >= last, "event {last} of task {n} was acknowledged, {} is there", row.seq);
        let Some(step) = unanswered else { continue };
        // Its effect is unknown; the same again is done once, whichever it was.
        let first = until_back(async || one.ports.state.commit(std::slice::from_ref(&step)).await).await;
        let again = until_back(async || one.ports.state.commit(std::slice::from_ref(&step)).await).await;
        assert_eq!(first, again);
        assert_eq!(one.task(&draft.task(n)).await.seq, last + 1);
        assert_eq!(one.history(Key::TaskHistory(draft.task(n))).await.last().unwrap().seq, last + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_outlives_a_crash_and_is_woken_afterwards() {
    let mut server = Server::start();
    let (one, two) = (open(&server).await, open(&server).await);
    one.beat(3_600_000).await;
    let draft = Draft::new("p", &["acme"]);
    one.run(&draft).await;
    let attempt = one.begin(&draft.task(0)).await;
    let since = two.mark().await;
    assert_eq!(two.ports.state.changed(since, 1).await, Ok(since), "it listens, and hears nothing");
    server.crash();
    server.up();
    until_back(async || two.ports.state.changed(since, 0).await).await;
    let waiter = two.clone();
    let waits = tokio::spawn(async move { waiter.ports.state.changed(since, 60_000).await });
    let ask = step::asks("ask", &attempt.task, &[TaskStatus::Running], step::pause());
    until_back(async || one.ports.state.commit(std::slice::from_ref(&ask)).await).await;
    assert!(waits.await.unwrap().unwrap() > since);
    assert!(Locks::load(&*one.ports.locks, &[id("acme")]).await.unwrap()[0].holder.is_some(), "locks outlive it too");
}
