//! Whoever waits looks at counts that are remembered. Whatever is remembered, nobody misses a change of another process: not one of
//! many who wait, not while changes follow each other, not when the connection that listens is gone, and not when nobody tells.

use std::time::Duration;

use windlass_conformance::job::world::new;
use windlass_conformance::trigger::world::daily;
use windlass_conformance::world::id;
use windlass_core::port::job::Jobs;
use windlass_core::port::lock::{Force, Locks};
use windlass_core::port::state::State;
use windlass_core::port::trigger::{Save, Triggers};
use windlass_core::port::{Mark, WAIT_MS_MAX};
use windlass_store_postgres::{Options, Postgres};

use crate::server::{client, schema};

const WAITERS: usize = 3;
/// A waiter waits for a minute at most; this barks long before, so that a lost wake-up is seen.
const WATCHDOG: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
enum Port {
    State,
    Locks,
    Jobs,
    Triggers,
}

const PORTS: [Port; 4] = [Port::State, Port::Locks, Port::Jobs, Port::Triggers];

impl Port {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    async fn changed(self, store: &Postgres, since: Mark, wait_ms: u64) -> Mark {
        let changed = match self {
            Port::State => State::changed(store, since, wait_ms).await,
            Port::Locks => Locks::changed(store, since, wait_ms).await,
            Port::Jobs => Jobs::changed(store, since, wait_ms).await,
            Port::Triggers => Triggers::changed(store, since, wait_ms).await,
        };
        changed.unwrap()
    }

    /// Changes something that others may be waiting for, the `n`-th time.
    async fn change(self, store: &Postgres, n: u64) {
        let name = format!("n{n}");
        match self {
            Port::State => drop(State::beat(store, &id(&name), 0).await.unwrap()),
            Port::Locks => {
                drop(Locks::force(store, &id(&name), Force::Freeze, &id("ann"), None, None).await.unwrap().unwrap());
            }
            Port::Jobs => drop(Jobs::submit(store, &[vec![new(n)]]).await.unwrap()),
            Port::Triggers => {
                let save = Save { trigger: daily(&name), notes: Vec::new() };
                drop(Triggers::save(store, &[save]).await.unwrap());
            }
        }
    }

    /// Waits for what must come.
    async fn woken(self, store: &Postgres, since: Mark) -> Mark {
        let changed = tokio::time::timeout(WATCHDOG, self.changed(store, since, WAIT_MS_MAX)).await;
        let mark = changed.unwrap_or_else(|_| panic!("nobody who waits for {self:?} was woken"));
        assert!(mark > since, "{self:?} moves on: {mark:?} after {since:?}");
        mark
    }
}

/// Two processes on one database: one whose callers wait, and one that changes things.
struct Two {
    waits: Postgres,
    writes: Postgres,
    /// What the server calls the first one's connections.
    name: String,
    client: tokio_postgres::Client,
    changes: u64,
}

impl Two {
    async fn open() -> Two {
        let url = schema().await.url;
        let name = url.rsplit("%3D").nth(1).and_then(|rest| rest.split('%').next()).unwrap().to_owned();
        let named = format!("{url}&application_name={name}");
        let options = Options { answer_ms: 240_000, ..Options::default() };
        let waits = Postgres::open(&named, &options).await.unwrap();
        let writes = Postgres::open(&url, &options).await.unwrap();
        Two { waits, writes, name, client: client(&url).await, changes: 0 }
    }

    /// Several wait at every port while `acts` goes on, which changes every one of them. Everybody is woken, and gets as far as things
    /// have come, without another change.
    async fn all_are_woken(&mut self, acts: impl AsyncFnOnce(&mut Two)) {
        let mut waits = Vec::new();
        for port in PORTS {
            let since = port.changed(&self.writes, Mark::default(), 0).await;
            for _ in 0..WAITERS {
                let store = self.waits.clone();
                waits.push((port, tokio::spawn(async move { port.woken(&store, since).await })));
            }
        }
        // Gives them a chance to be there first; either order must do.
        tokio::task::yield_now().await;
        acts(self).await;
        for (port, woken) in waits {
            let end = port.changed(&self.writes, Mark::default(), 0).await;
            let mut mark = woken.await.unwrap();
            while mark < end {
                mark = port.woken(&self.waits, mark).await;
            }
            assert_eq!(mark, end, "{port:?}");
        }
    }

    async fn change_all(&mut self) {
        self.changes += 1;
        for port in PORTS {
            port.change(&self.writes, self.changes).await;
        }
    }

    /// Ends the connection that listens for those who wait, once there is one.
    async fn deafen(&self) {
        let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND query ILIKE '%listen%'";
        while self.client.query(kill, &[&self.name]).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn everybody_who_waits_is_woken_by_every_change_of_another_process() {
    let mut two = Two::open().await;
    for round in 0..20 {
        two.all_are_woken(async |two| {
            for _ in 0..=round % 3 {
                two.change_all().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn everybody_is_woken_although_the_connection_that_listens_was_lost() {
    let mut two = Two::open().await;
    for round in 0..4 {
        two.all_are_woken(async |two| {
            // Before the change, or in the middle of some.
            if round % 2 == 1 {
                two.change_all().await;
            }
            two.deafen().await;
            two.change_all().await;
        })
        .await;
    }
}

#[tokio::test]
async fn everybody_is_woken_by_somebody_who_died_before_it_told() {
    let mut two = Two::open().await;
    for _ in 0..3 {
        two.all_are_woken(async |two| {
            for port in PORTS {
                let count = "UPDATE change_mark SET n = n + 1 WHERE port = $1 AND shard = 3";
                assert_eq!(two.client.execute(count, &[&port.name()]).await.unwrap(), 1, "{port:?}");
            }
        })
        .await;
    }
}
