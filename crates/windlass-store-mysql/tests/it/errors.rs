//! What people are told when something is wrong.

use mysql_async::Error;
use mysql_async::prelude::Queryable as _;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::NewJob;
use windlass_core::json::Json;
use windlass_core::port::PortError;
use windlass_core::port::job::Jobs;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Filter, Key, State};
use windlass_store_mysql::{MySql, OpenError, Options};

use crate::server::{Server, client, database, database_on, execute, url};

/// `ER_NO_SUCH_THREAD`.
const NO_SUCH_THREAD: u16 = 1094;

#[tokio::test]
async fn a_wrong_password_is_said_and_not_repeated() {
    let server = Server::start();
    let database = database_on(&server.url()).await;
    execute(&database.url, "CREATE USER zoe@'127.0.0.1' IDENTIFIED BY 'right'; GRANT SELECT ON *.* TO zoe@'127.0.0.1'")
        .await;
    let with = |password: &str| database.url.replace("root@", &format!("zoe:{password}@"));
    let error = MySql::open(&with("hunter2"), &Options::default()).await.err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains("1045") && !text.contains("hunter2"), "{text}");
    assert!(matches!(error, OpenError::Refused(_)));
    // Let in, but not allowed to make tables.
    let error = MySql::open(&with("right"), &Options::default()).await.err().unwrap();
    assert!(format!("{error}").contains("denied"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said() {
    let error = MySql::open("mysql://u:hunter2@127.0.0.1:1/db", &Options::default()).await.err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains("WL-4052") && !text.contains("hunter2"), "{text}");
    let error = MySql::open(&format!("{}/nowhere", url()), &Options::default()).await.err().unwrap();
    assert!(error.to_string().contains("1049"), "no such database: {error}");
}

#[tokio::test]
async fn a_table_that_is_missing_or_spoilt_is_damage_not_an_outage() {
    let database = database().await;
    let store = MySql::open(&database.url, &Options::default()).await.unwrap();
    State::beat(&store, &"one".parse().unwrap(), 1_000).await.unwrap();
    execute(&database.url, "UPDATE instance SET instance_id = 'not an id'; DROP TABLE tenant_freeze").await;
    let list = State::list(&store, &Filter::Instances, None, 10).await;
    assert!(matches!(&list, Err(PortError::Corrupt(why)) if why.contains("instance_id")), "{list:?}");
    let locks = Locks::load(&store, &["acme".parse().unwrap()]).await;
    assert!(matches!(&locks, Err(PortError::Corrupt(why)) if why.contains("1146")), "{locks:?}");
    // One that failed harms nobody else on the same connection.
    let both = [Key::Plan("p".parse().unwrap()), Key::Task("t".parse().unwrap())];
    assert_eq!(State::load(&store, &both).await, Ok(vec![None, None]));
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_an_outage_and_reading_goes_on() {
    let server = Server::start();
    let database = database_on(&server.url()).await;
    // Whoever may do everything may also write to a server that is read-only.
    execute(
        &database.url,
        "CREATE USER zoe@'127.0.0.1'; GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON *.* TO zoe@'127.0.0.1'",
    )
    .await;
    let store = MySql::open(&database.url.replace("root@", "zoe@"), &Options::default()).await.unwrap();
    execute(&database.url, "SET GLOBAL read_only = 1").await;
    let beat = State::beat(&store, &"one".parse().unwrap(), 1_000).await;
    assert!(matches!(&beat, Err(PortError::Unavailable(why)) if why.contains("1290")), "{beat:?}");
    assert_eq!(State::load(&store, &[Key::Plan("p".parse().unwrap())]).await, Ok(vec![None]));
    execute(&database.url, "SET GLOBAL read_only = 0").await;
    State::beat(&store, &"one".parse().unwrap(), 1_000).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_the_server_has_closed_is_made_again() {
    let database = database().await;
    let store = MySql::open(&database.url, &Options { connections: 1, ..Options::default() }).await.unwrap();
    State::beat(&store, &"one".parse().unwrap(), 1_000).await.unwrap();
    let name = database.url.rsplit('/').next().unwrap();
    let mut somebody = client(&format!("{}/mysql", url())).await;
    let theirs = format!("SELECT id FROM information_schema.processlist WHERE db = '{name}'");
    let theirs: Vec<u64> = somebody.query(theirs).await.unwrap();
    let mut killed = 0;
    for id in theirs {
        match somebody.query_drop(format!("KILL {id}")).await {
            Ok(()) => killed += 1,
            // What made the database, or its tables, has gone by itself meanwhile.
            Err(Error::Server(error)) if error.code == NO_SUCH_THREAD => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert!(killed > 0, "the store's connection is there");
    // At most the one call that meets the closed connection has no answer.
    let _unknown = State::beat(&store, &"one".parse().unwrap(), 1_000).await;
    State::beat(&store, &"one".parse().unwrap(), 1_000).await.unwrap();
}

#[tokio::test]
async fn a_server_whose_disk_is_full_is_an_outage_and_loses_nothing() {
    // Everything in one file that may not grow far is as full as a disk, and needs nobody's rights.
    let full = ["--innodb-file-per-table=0", "--innodb-data-file-path=ibdata1:12M:autoextend:max:20M"];
    let server = Server::with(&full);
    let database = database_on(&server.url()).await;
    let store = MySql::open(&database.url, &Options::default()).await.unwrap();
    let queue: QueueName = "work".parse().unwrap();
    let payload = Json::of(&"x".repeat(200_000)).unwrap();
    let mut taken = Vec::new();
    let refused = loop {
        let job = NewJob::new(JobId::random(taken.len() as u128 + 1), queue.clone(), Some(payload.clone()));
        let id = job.id;
        match store.submit(&[vec![job]]).await {
            Ok(answers) => assert!(answers[0].is_ok(), "{answers:?}"),
            Err(error) => break error,
        }
        taken.push(id);
    };
    assert!(matches!(&refused, PortError::Unavailable(why) if why.contains("1114")), "{refused:?}");
    let jobs = Jobs::load(&store, &taken).await.unwrap();
    assert!(!taken.is_empty() && jobs.iter().all(Option::is_some), "{} were taken", taken.len());
}
