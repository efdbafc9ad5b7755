//! Whoever is cut off without a word in the middle of a transaction, while it has rows in its hands, does not keep them from others
//! for as long as TCP is patient.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use windlass::core::lock::Acquire;
use windlass::core::port::{PortError, Refusal};
use windlass::open::{StoreUrl, open};

use super::proxy::Proxy;
use super::through;
use crate::mysql_server;

/// What a server waits for the rest of a transaction is a fraction of this.
const PATIENCE: Duration = Duration::from_secs(120);

fn want(task: &str) -> Acquire {
    Acquire { tenant: "acme".parse().unwrap(), plan: "p".parse().unwrap(), task: task.parse().unwrap(), ttl_ms: 60_000 }
}

#[tokio::test]
async fn mysql_rows_of_somebody_who_fell_silent_are_free_again() {
    let database = mysql_server::database().await;
    let place = through(&database.url, 3306, |_| "socket".to_owned());
    let mut settings = place.settings.clone();
    settings.mysql.answer_ms = 5_000;
    let proxy = Proxy::start(place.upstream.clone()).await;
    let url: StoreUrl = (place.url)(proxy.address).parse().unwrap();
    let silent = open(&url, &settings).await.unwrap();
    let url: StoreUrl = database.url.parse().unwrap();
    let other = open(&url, &settings).await.unwrap();
    let mut watcher = mysql_server::client(&format!("{}/mysql", mysql_server::url())).await;

    // It asks for what somebody else has, and is cut off before it gets it: the answer reaches nobody.
    let mut first = mysql_server::client(&database.url).await;
    let lock = "BEGIN; INSERT INTO tenant_lock VALUES ('acme', '', '', 0, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))";
    first.query_drop(lock).await.unwrap();
    let locks = Arc::clone(&silent.locks);
    let asks = tokio::spawn(async move { locks.acquire(&[want("silent")]).await });
    until(&mut watcher, &database.name, "trx_state = 'LOCK WAIT'").await;
    proxy.freeze();
    first.query_drop("ROLLBACK").await.unwrap();
    until(&mut watcher, &database.name, "trx_state = 'RUNNING' AND command = 'Sleep'").await;

    let began = Instant::now();
    let holder = loop {
        match other.locks.acquire(&[want("other")]).await {
            Ok(mut answers) => break answers.remove(0),
            Err(PortError::Unavailable(_)) if began.elapsed() < PATIENCE => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(holder.map(|holder| holder.task), Ok::<_, Refusal>("other".parse().unwrap()));
    let unknown = asks.await.unwrap();
    assert!(matches!(unknown, Err(PortError::Unavailable(_))), "{unknown:?}");
}

/// Waits until a transaction in this database is as `such` says.
async fn until(watcher: &mut Conn, database: &str, such: &str) {
    let ask = format!(
        "SELECT p.id FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id \
         WHERE p.db = '{database}' AND {such}"
    );
    let began = Instant::now();
    while watcher.query_first::<u64, _>(&ask).await.unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "no transaction has {such}");
        // sleep: the server looks at its transactions again only for somebody who has not asked for a tenth of a second.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}
