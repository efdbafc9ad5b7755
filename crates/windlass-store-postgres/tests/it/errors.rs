//! What people are told when something is wrong.

use windlass_core::port::Mark;
use windlass_core::port::PortError;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Filter, Key, State};
use windlass_store_postgres::{OpenError, Options, Postgres};

use crate::server::{Server, execute, schema, url};

#[tokio::test]
async fn a_wrong_password_is_said_and_not_repeated() {
    let mut server = Server::start();
    execute(&server.url(), "CREATE ROLE zoe LOGIN PASSWORD 'right'").await;
    server.ask_for_passwords();
    let with = |password: &str| server.url().replace("postgres@", &format!("zoe:{password}@"));
    let error = Postgres::open(&with("hunter2"), &Options::default()).await.err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains("password authentication failed") && !text.contains("hunter2"), "{text}");
    assert!(matches!(error, OpenError::Refused(_)));
    // Let in, but not allowed to make tables.
    let error = Postgres::open(&with("right"), &Options::default()).await.err().unwrap();
    assert!(format!("{error} {error:?}").contains("permission denied"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().display().to_string().replace('/', "%2F");
    let error = Postgres::open(&format!("postgres://u:hunter2@{host}/db"), &Options::default()).await.err().unwrap();
    let text = format!("{error} {error:?}");
    assert!(text.contains("WL-4032") && !text.contains("hunter2"), "{text}");
    let error = Postgres::open(&url().replace("/postgres?", "/nowhere?"), &Options::default()).await.err().unwrap();
    assert!(error.to_string().contains("3D000"), "no such database: {error}");
}

#[tokio::test]
async fn a_table_that_is_missing_or_spoilt_is_damage_not_an_outage() {
    let schema = schema().await;
    let store = Postgres::open(&schema.url, &Options::default()).await.unwrap();
    State::beat(&store, &"one".parse().unwrap(), 1_000).await.unwrap();
    execute(&schema.url, "UPDATE instance SET instance_id = 'not an id'; DROP TABLE tenant_freeze").await;
    let list = State::list(&store, &Filter::Instances, None, 10).await;
    assert!(matches!(&list, Err(PortError::Corrupt(why)) if why.contains("instance_id")), "{list:?}");
    let locks = Locks::load(&store, &["acme".parse().unwrap()]).await;
    assert!(matches!(&locks, Err(PortError::Corrupt(why)) if why.contains("42P01")), "{locks:?}");
    // One that failed harms nobody else on the same connection.
    assert_eq!(State::load(&store, &[Key::Plan("p".parse().unwrap())]).await, Ok(vec![None]));
    let both = [Key::Plan("p".parse().unwrap()), Key::Task("t".parse().unwrap())];
    assert_eq!(State::load(&store, &both).await, Ok(vec![None, None]));
}

#[tokio::test]
async fn what_cannot_be_read_harms_only_whoever_asked_for_it() {
    let schema = schema().await;
    let store = Postgres::open(&schema.url, &Options::default()).await.unwrap();
    for name in ["one", "two"] {
        State::beat(&store, &name.parse().unwrap(), 1_000).await.unwrap();
    }
    // No time of ours is before 1970.
    execute(&schema.url, "UPDATE instance SET up_since = '1000-01-01' WHERE instance_id = 'one'").await;
    let key = |name: &str| [Key::Instance(name.parse().unwrap())];
    let (one, two) = (key("one"), key("two"));
    // Two statements are under way at once; whoever comes then shares the next.
    let (_, _, bad, good) = tokio::join!(
        State::load(&store, &two),
        State::load(&store, &two),
        State::load(&store, &one),
        State::load(&store, &two),
    );
    assert!(matches!(&bad, Err(PortError::Corrupt(_))), "{bad:?}");
    assert!(matches!(good.as_deref(), Ok([Some(_)])), "{good:?}");
}

#[tokio::test]
async fn whoever_goes_away_leaves_nothing_half_done() {
    let schema = schema().await;
    let store = Postgres::open(&schema.url, &Options { connections: 1, ..Options::default() }).await.unwrap();
    let keys = [Key::Plan("p".parse().unwrap()), Key::Task("t".parse().unwrap())];
    for _ in 0..50 {
        // Polled once, then dropped: the call goes on in its own task and gives the one connection back.
        let mut call = std::pin::pin!(State::load(&store, &keys));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx))).await;
        assert!(polled.is_pending());
    }
    assert_eq!(State::load(&store, &keys).await, Ok(vec![None, None]));
    assert_eq!(State::changed(&store, Mark(0), 0).await, Ok(Mark(0)));
}
