//! TLS to a real server, with a certificate that only the tests trust.

use windlass_conformance::certificates;
use windlass_core::port::state::{Key, State};
use windlass_store_redis::{Options, Redis};

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_asked_for_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    certificates::make(folder.path());
    let file = |name: &str| folder.path().join(name);
    let (cert, key) = (file("server.crt"), file("server.key"));
    let (cert, key) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let server = Server::with_tls(&["--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"]);
    let at = |host: &str| format!("rediss://:hunter2@{host}:{}", server.port());
    let with = |ca: Option<&str>| Options { ca_file: ca.map(file), ..Options::default() };
    let store = Redis::open(&at("localhost"), &with(Some("ca.crt"))).await.unwrap();
    assert_eq!(State::load(&store, &[Key::Plan("p".parse().unwrap())]).await, Ok(vec![None]));
    for (host, ca) in [("localhost", Some("other.crt")), ("localhost", None), ("127.0.0.1", Some("ca.crt"))] {
        let error = Redis::open(&at(host), &with(ca)).await.err().unwrap().to_string();
        assert!(error.contains("WL-4042") && !error.contains("hunter2"), "{host} {ca:?}: {error}");
    }
    let plain = at("localhost").replace("rediss://", "redis://");
    for (url, ca) in [(&at("localhost"), "none.crt"), (&plain, "ca.crt")] {
        let error = Redis::open(url, &with(Some(ca))).await.err().unwrap().to_string();
        assert!(error.contains("WL-4041") && !error.contains("hunter2"), "{error}");
    }
}
