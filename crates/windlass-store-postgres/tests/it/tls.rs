//! TLS to a real server, with a certificate that only the tests trust.

use windlass_conformance::certificates;
use windlass_core::port::state::{Key, State};
use windlass_store_postgres::{Options, Postgres};

use crate::server::{Server, client};

/// How a store on this URL opens, and whether its connections are secret.
async fn opened(server: &Server, port: u16, url: &str) -> Result<bool, String> {
    let url = format!("postgres://postgres:hunter2@{url}");
    let store = match Postgres::open(&url, &Options::default()).await {
        Ok(store) => store,
        Err(error) => return Err(format!("{error} {error:?}")),
    };
    store.load(&[Key::Tenant("acme".parse().unwrap())]).await.unwrap();
    let folder = server.file("").trim_end_matches('/').replace('/', "%2F");
    let other = client(&format!("postgres://postgres@{folder}:{port}/postgres")).await;
    let sql = "SELECT bool_and(s.ssl), bool_or(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
         WHERE a.application_name = 'windlass' AND a.client_addr IS NOT NULL AND a.state IS NOT NULL";
    let row = other.query_one(sql, &[]).await.unwrap();
    let (all, any): (bool, bool) = (row.get(0), row.get(1));
    assert_eq!(all, any, "some are and some are not");
    store.close().await;
    drop(store);
    // The next one is not to be taken for this one.
    while other
        .query_one("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'windlass'", &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        > 0
    {
        tokio::task::yield_now().await;
    }
    Ok(all)
}

#[tokio::test]
async fn each_mode_asks_of_the_server_what_it_says() {
    let (server, port) = Server::with_tls(certificates::make);
    let encoded = |name: &str| server.file(name).replace('/', "%2F");
    let (ca, other) = (encoded("ca.crt"), encoded("other.crt"));
    let at = |host: &str, query: String| format!("{host}:{port}/postgres?{query}");
    let here = |query: String| at("localhost", query);
    for (url, secret) in [
        (here("sslmode=disable".to_owned()), false),
        (here("sslmode=prefer".to_owned()), true),
        (here("connect_timeout=10".to_owned()), true),
        (here("sslmode=require".to_owned()), true),
        (here(format!("sslmode=require&sslrootcert={ca}")), true),
        (at("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")), true),
        (here(format!("sslmode=verify-full&sslrootcert={ca}")), true),
    ] {
        assert_eq!(opened(&server, port, &url).await, Ok(secret), "{url}");
    }
    for (url, said) in [
        (at("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}")), "certificate not valid for name"),
        (here(format!("sslmode=verify-full&sslrootcert={other}")), "invalid peer certificate"),
        (here(format!("sslmode=verify-ca&sslrootcert={other}")), "invalid peer certificate"),
        (here(format!("sslmode=require&sslrootcert={other}")), "invalid peer certificate"),
        (here("sslmode=verify-full".to_owned()), "invalid peer certificate"),
    ] {
        let error = opened(&server, port, &url).await.unwrap_err();
        assert!(error.contains("WL-4032") && error.contains(said), "{url}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_when_tls_is_asked_for() {
    let server = Server::start();
    for mode in ["require", "verify-full&sslrootcert=system"] {
        let error =
            Postgres::open(&format!("{}&sslmode={mode}", server.url()), &Options::default()).await.err().unwrap();
        let error = error.to_string();
        assert!(error.contains("WL-403") && !error.contains("postgres@"), "{error}");
    }
    Postgres::open(&format!("{}&sslmode=prefer", server.url()), &Options::default()).await.unwrap().close().await;
}
