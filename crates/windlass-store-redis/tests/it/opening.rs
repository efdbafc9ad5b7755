//! What a server must be for the store to open, what it then says, and what people are told when something is wrong.

use windlass_core::id::{JobId, QueueName, WorkerId};
use windlass_core::job::rules::Outcome;
use windlass_core::job::{JobStatus, NewJob};
use windlass_core::json::Json;
use windlass_core::lock::Acquire;
use windlass_core::port::PortError;
use windlass_core::port::job::{Delivery, Jobs, Turn};
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Key, State};
use windlass_store_redis::{OpenError, Options, Redis, Sync};

use crate::server::{Server, space};

async fn opened(url: &str) -> Result<Redis, OpenError> {
    Redis::open(url, &Options::default()).await
}

#[tokio::test]
async fn what_an_acknowledged_write_survives_is_said() {
    for (settings, sync, said) in [
        (&["--appendonly", "yes", "--appendfsync", "always"][..], Sync::Always, "a loss of power"),
        (&["--appendonly", "yes"], Sync::EverySecond, "the last second"),
        (&["--appendonly", "yes", "--appendfsync", "no"], Sync::System, "half minute"),
        (&["--appendonly", "no"], Sync::Never, "everything is lost"),
    ] {
        let server = Server::start(settings);
        let store = opened(&server.url()).await.unwrap();
        assert_eq!(store.durability().sync, sync);
        assert_eq!(store.durability().is_full(), sync == Sync::Always);
        assert!(store.durability().to_string().contains(said), "{}", store.durability());
    }
}

#[tokio::test]
async fn a_server_that_evicts_is_refused() {
    let server = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    let error = opened(&server.url()).await.err().unwrap();
    assert!(matches!(&error, OpenError::Evicts(policy) if policy == "allkeys-lru"), "{error}");
    let server = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "noeviction"]);
    opened(&server.url()).await.unwrap();
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]);
    opened(&server.url()).await.unwrap();
}

#[tokio::test]
async fn a_wrong_password_is_said_and_not_repeated() {
    let server = Server::start(&["--requirepass", "right"]);
    let with = |password: &str| server.url().replace("redis://", &format!("redis://:{password}@"));
    let error = opened(&with("hunter2")).await.err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains("WL-4042") && !text.contains("hunter2"), "{text}");
    let error = opened(&server.url()).await.err().unwrap();
    assert!(error.to_string().contains("NOAUTH"), "{error}");
    let store = opened(&with("right")).await.unwrap();
    assert_eq!(State::load(&store, &[Key::Plan("p".parse().unwrap())]).await, Ok(vec![None]));
}

#[tokio::test]
async fn a_url_or_a_prefix_that_cannot_be_is_refused() {
    let error = opened("redis://:hunter2@host:port").await.err().unwrap();
    assert!(matches!(error, OpenError::BadUrl) && !format!("{error:?}").contains("hunter2"));
    let options = Options { prefix: "a b".to_owned(), ..Options::default() };
    assert!(matches!(Redis::open(&space().url, &options).await.err(), Some(OpenError::BadPrefix(_))));
    let nowhere = opened("redis://:hunter2@127.0.0.1:1").await.err().unwrap();
    assert!(matches!(&nowhere, OpenError::Refused(why) if !why.contains("hunter2")), "{nowhere}");
}

#[tokio::test]
async fn a_key_of_another_kind_is_damage_not_an_outage() {
    let space = space();
    let options = Options { prefix: space.prefix.clone(), ..Options::default() };
    let store = Redis::open(&space.url, &options).await.unwrap();
    let mut other = redis::Client::open(space.url.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let key = format!("{}executor:plan:p", space.prefix);
    let _: () = redis::cmd("SET").arg(&key).arg("mine").query_async(&mut other).await.unwrap();
    let plan = State::load(&store, &[Key::Plan("p".parse().unwrap())]).await;
    assert!(matches!(plan, Err(PortError::Corrupt(_))), "{plan:?}");
    let key = format!("{}executor:lock:meta:acme", space.prefix);
    let _: () = redis::cmd("SET").arg(&key).arg("mine").query_async(&mut other).await.unwrap();
    let _: () = redis::cmd("SET")
        .arg(format!("{}executor:lock:tenant:acme", space.prefix))
        .arg("p:t")
        .query_async(&mut other)
        .await
        .unwrap();
    let locks = Locks::load(&store, &["acme".parse().unwrap()]).await;
    assert!(matches!(locks, Err(PortError::Corrupt(_))), "{locks:?}");
    // One that failed harms nobody else on the same connection.
    assert_eq!(State::load(&store, &[Key::Task("t".parse().unwrap())]).await, Ok(vec![None]));
}

#[tokio::test]
async fn scripts_that_a_server_forgot_are_sent_again() {
    let server = Server::start(&["--appendonly", "no"]);
    let store = opened(&server.url()).await.unwrap();
    let me = "one".parse().unwrap();
    store.beat(&me, 1_000).await.unwrap();
    let mut other = redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("SCRIPT").arg("FLUSH").query_async(&mut other).await.unwrap();
    store.beat(&me, 1_000).await.unwrap();
    let lock = || Acquire {
        tenant: "acme".parse().unwrap(),
        plan: "p".parse().unwrap(),
        task: "t".parse().unwrap(),
        ttl_ms: 1_000,
    };
    store.acquire(&[lock()]).await.unwrap()[0].as_ref().unwrap();
    let _: () = redis::cmd("FUNCTION").arg("FLUSH").query_async(&mut other).await.unwrap();
    store.acquire(&[lock()]).await.unwrap()[0].as_ref().unwrap();
}

#[tokio::test]
async fn a_full_memory_is_said_and_what_is_done_can_still_be_told() {
    let server = Server::start(&["--appendonly", "no"]);
    let store = opened(&server.url()).await.unwrap();
    let (worker, queue): (WorkerId, QueueName) = ("w".parse().unwrap(), "q".parse().unwrap());
    let new = |n| vec![vec![NewJob::new(JobId::random(n), queue.clone(), None)]];
    let turn = |settle, want| Turn { worker: worker.clone(), lease_ms: 60_000, settle, beat: Vec::new(), want };
    store.submit(&new(1)).await.unwrap()[0].as_ref().unwrap();
    let claimed = store.turn(&[turn(Vec::new(), vec![(queue.clone(), 1)])]).await.unwrap().remove(0).claimed.remove(0);
    let mut other = redis::Client::open(server.url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"]).query_async(&mut other).await.unwrap();
    let full = store.submit(&new(2)).await;
    assert!(matches!(&full, Err(PortError::Unavailable(why)) if why.contains("OOM")), "{full:?}");
    let done = Delivery { job: claimed.id, fence: claimed.fence };
    let told = store.turn(&[turn(vec![(done, Outcome::Completed(Json::null()))], Vec::new())]).await.unwrap();
    assert_eq!(told[0].settled, [Ok(JobStatus::Completed)]);
}
