//! A server that is killed in the middle of calls and comes back.

use std::sync::Arc;

use windlass_conformance::Ports;
use windlass_conformance::outage::{self, Mortal};
use windlass_core::port::state::Key;
use windlass_core::port::{Mark, PortError};
use windlass_store_mysql::{MySql, Options};

use crate::server::{Database, Server, database_on};

impl Mortal for Server {
    fn kill(&mut self) {
        Server::kill(self);
    }

    fn up(&mut self) {
        Server::up(self);
    }
}

async fn store(database: &Database) -> MySql {
    MySql::open(&database.url, &Options { answer_ms: 20_000, ..Options::default() }).await.unwrap()
}

async fn ports(database: &Database) -> Ports {
    let store = store(database).await;
    Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_is_there_after_every_crash_and_repeats_are_done_once() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    outage::acknowledged_is_there(&mut server, ports(&database).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_are_done_once_each_however_often_the_server_is_killed() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    outage::jobs_are_done_once(&mut server, Arc::new(store(&database).await)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_outlives_a_crash_and_is_woken_afterwards() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    let both = [ports(&database).await, ports(&database).await];
    outage::a_waiter_is_woken(&mut server, both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failure_that_is_over_is_not_told_to_who_begins_to_wait() {
    let mut server = Server::start();
    let database = database_on(&server.url()).await;
    let Ports { state, .. } = ports(&database).await;
    let since = state.changed(Mark::default(), 0).await.unwrap();
    server.kill();
    let heard = state.changed(since, 60_000).await;
    assert!(matches!(heard, Err(PortError::Unavailable(_))), "{heard:?}");
    server.up();
    // Somebody who does not wait finds it there; nobody has looked at the counts since.
    let plan = [Key::Plan("p".parse().unwrap())];
    loop {
        match state.load(&plan).await {
            Ok(rows) => break assert_eq!(rows, [None]),
            Err(PortError::Unavailable(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(state.changed(since, 1).await, Ok(since));
}
