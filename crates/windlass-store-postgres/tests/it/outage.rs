//! A server that crashes in the middle of calls and comes back.

use std::sync::Arc;

use windlass_conformance::Ports;
use windlass_conformance::outage::{self, Mortal};
use windlass_store_postgres::{Options, Postgres};

use crate::server::Server;

impl Mortal for Server {
    fn kill(&mut self) {
        self.crash();
    }

    fn up(&mut self) {
        Server::up(self);
    }
}

async fn store(server: &Server) -> Postgres {
    Postgres::open(&server.url(), &Options { answer_ms: 20_000, ..Options::default() }).await.unwrap()
}

async fn ports(server: &Server) -> Ports {
    let store = store(server).await;
    Ports { state: Arc::new(store.clone()), locks: Arc::new(store) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_acknowledged_is_there_after_every_crash_and_repeats_are_done_once() {
    let mut server = Server::start();
    let ports = ports(&server).await;
    outage::acknowledged_is_there(&mut server, ports).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn jobs_are_done_once_each_however_often_the_server_is_killed() {
    let mut server = Server::start();
    let store = store(&server).await;
    outage::jobs_are_done_once(&mut server, Arc::new(store)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_outlives_a_crash_and_is_woken_afterwards() {
    let mut server = Server::start();
    let both = [ports(&server).await, ports(&server).await];
    outage::a_waiter_is_woken(&mut server, both).await;
}
