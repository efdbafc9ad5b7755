//! TLS to a real server, with a certificate that only the tests trust.

use windlass_conformance::certificates;
use windlass_core::port::state::{Key, State};
use windlass_store_mysql::{MySql, Options};

use crate::server::{Server, database_on, execute};

/// How a store on this URL opens and answers.
async fn opened(url: &str) -> Result<(), String> {
    let store = match MySql::open(url, &Options::default()).await {
        Ok(store) => store,
        Err(error) => return Err(format!("{error} {error:?}")),
    };
    assert_eq!(State::load(&store, &[Key::Plan("p".parse().unwrap())]).await, Ok(vec![None]));
    store.close();
    Ok(())
}

#[tokio::test]
async fn each_mode_asks_of_the_server_what_it_says() {
    let server = Server::with_tls(certificates::make);
    let database = database_on(&server.url()).await;
    // The server lets `ann` in only where nobody can listen, and `zoe` anyhow.
    let users = "CREATE USER ann IDENTIFIED BY 'hunter2' REQUIRE SSL; CREATE USER zoe IDENTIFIED BY 'hunter2'; \
         GRANT ALL ON *.* TO ann; GRANT ALL ON *.* TO zoe";
    execute(&database.url, users).await;
    let (ca, other) = (server.file("ca.crt"), server.file("other.crt"));
    let at = |user: &str, host: &str, query: &str| {
        format!("mysql://{user}:hunter2@{host}:{}/{}{query}", server.port(), database.name)
    };
    let secret = |query: &str| at("ann", "localhost", query);
    for url in [
        at("zoe", "localhost", "?ssl-mode=DISABLED"),
        secret(""),
        secret("?ssl-mode=PREFERRED"),
        secret("?ssl-mode=REQUIRED"),
        secret(&format!("?ssl-mode=REQUIRED&ssl-ca={ca}")),
        secret(&format!("?ssl-mode=VERIFY_CA&ssl-ca={ca}")),
        secret(&format!("?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")),
    ] {
        assert_eq!(opened(&url).await, Ok(()), "{url}");
    }
    for (url, said) in [
        (secret("?ssl-mode=DISABLED"), "1045"),
        (at("zoe", "127.0.0.1", &format!("?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")), "certificate"),
        // The driver judges the name here too, though it is told not to: more is asked than was said, never less.
        (at("zoe", "127.0.0.1", &format!("?ssl-mode=VERIFY_CA&ssl-ca={ca}")), "certificate"),
        (at("zoe", "localhost", &format!("?ssl-mode=VERIFY_IDENTITY&ssl-ca={other}")), "certificate"),
        (at("zoe", "localhost", &format!("?ssl-mode=VERIFY_CA&ssl-ca={other}")), "certificate"),
        (at("zoe", "localhost", &format!("?ssl-mode=REQUIRED&ssl-ca={other}")), "certificate"),
        (at("zoe", "localhost", "?ssl-mode=VERIFY_IDENTITY"), "certificate"),
    ] {
        let error = opened(&url).await.unwrap_err();
        assert!(error.contains("WL-4052") && error.contains(said), "{url}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_when_tls_is_asked_for() {
    // One that has none, whatever the server of the test run has.
    let server = Server::start();
    let database = database_on(&server.url()).await;
    for mode in ["REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"] {
        let error = opened(&format!("{}?ssl-mode={mode}", database.url)).await.unwrap_err();
        assert!(error.contains("WL-4052") && !error.contains("root@"), "{error}");
    }
    for mode in ["PREFERRED", "DISABLED"] {
        assert_eq!(opened(&format!("{}?ssl-mode={mode}", database.url)).await, Ok(()), "{mode}");
    }
}
