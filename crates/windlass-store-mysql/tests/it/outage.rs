//! A server that is killed in the middle of calls and comes back.

use std::sync::Arc;

use windlass_conformance::Ports;
use windlass_conformance::outage::{self, Mortal};
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
