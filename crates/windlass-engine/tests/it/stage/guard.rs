//! The guard in front of real connections.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::failure::FailureKind;
use windlass_core::stage::{Expect, Poll};
use windlass_engine::stage::guard::Lookup;

use super::server::{Server, json, redirect};
use super::*;

/// Every name is these.
struct Always(&'static [&'static str]);

#[async_trait]
impl Lookup for Always {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        assert_eq!(host, "innocent.example");
        Ok(self.0.iter().map(|text| text.parse().unwrap()).collect())
    }
}

fn guarded(allow: &[&str], found: &'static [&'static str]) -> Setup {
    let guard = Guard::On { allow: allow.iter().map(|text| text.parse().unwrap()).collect() };
    Setup { guard, lookup: Arc::new(Always(found)), ..setup() }
}

fn refused(ended: Result<Ended, Trouble>) -> String {
    let trouble = ended.unwrap_err();
    assert_eq!((trouble.kind, trouble.again), (FailureKind::Stage, false), "{}", trouble.message);
    assert!(trouble.message.contains("WL-5001"), "{}", trouble.message);
    trouble.message
}

#[tokio::test]
async fn an_address_that_is_not_public_is_not_called() {
    let server = Server::start(|_| json("1")).await;
    let message = refused(run_with(guarded(&[], &[]), Action::Http(request("GET", server.url("/x")))).await);
    assert!(message.contains("127.0.0.1 is refused: it is a loopback address"), "{message}");
    assert!(server.asked().is_empty());
    run_with(guarded(&["127.0.0.0/8"], &[]), Action::Http(request("GET", server.url("/x")))).await.unwrap();
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_name_is_judged_when_it_is_connected_to() {
    let server = Server::start(|_| json("1")).await;
    let http = Action::Http(request("GET", format!("http://innocent.example:{}/", server.address.port())));
    let message = refused(run_with(guarded(&[], &["127.0.0.1"]), http.clone()).await);
    assert!(message.contains("innocent.example, which is 127.0.0.1, is refused"), "{message}");
    assert!(server.asked().is_empty());
    run_with(guarded(&["innocent.example"], &["127.0.0.1"]), http.clone()).await.unwrap();
    // The refused address comes first, and is not even tried: nobody listens there on this port.
    run_with(guarded(&["127.0.0.1"], &["127.0.0.2", "127.0.0.1"]), http).await.unwrap();
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_redirect_does_not_lead_around_it() {
    let inside = Server::start(|_| json("1")).await;
    let targets = [
        (format!("http://127.0.0.2:{}/", inside.address.port()), "a loopback address"),
        ("http://169.254.169.254/latest/meta-data/".to_owned(), "a metadata service"),
        (format!("http://innocent.example:{}/", inside.address.port()), "a loopback address"),
        ("file:///etc/passwd".to_owned(), "only http and https"),
    ];
    for (to, why) in targets {
        let server = Server::start(move |_| redirect("302 Found", &to)).await;
        let http = Action::Http(request("GET", server.url("/")));
        let message = refused(run_with(guarded(&["127.0.0.1"], &["127.0.0.2"]), http).await);
        assert!(message.contains(why), "{message}");
        assert_eq!(server.asked().len(), 1);
    }
    assert!(inside.asked().is_empty());
}

#[tokio::test]
async fn a_poll_is_guarded_too_and_does_not_ask_again() {
    let poll = Poll {
        urls: vec!["http://innocent.example/".to_owned()],
        headers: BTreeMap::new(),
        expect: Expect::default(),
        every_ms: 10,
        attempts: 10_000,
    };
    refused(run_with(guarded(&[], &["10.0.0.1"]), Action::Poll(poll)).await);
}

#[tokio::test]
async fn a_name_that_is_not_known_may_be_known_later() {
    let trouble = run_with(guarded(&[], &[]), Action::Http(request("GET", "http://innocent.example/".to_owned())));
    assert!(trouble.await.unwrap_err().again);
}
