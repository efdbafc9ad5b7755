//! TLS to a real server, with a certificate that only the tests trust.

use std::path::Path;
use std::process::Command;

use windlass_core::port::state::{Key, State};
use windlass_store_redis::{Options, Redis};

use crate::server::Server;

fn openssl(folder: &Path, args: &[&str]) {
    let output = Command::new("openssl").current_dir(folder).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A certificate for `localhost`, who signed it, and somebody else.
fn certificates(folder: &Path) {
    for name in ["ca", "other"] {
        let (key, cert) = (format!("{name}.key"), format!("{name}.crt"));
        let made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"];
        openssl(folder, &[&made[..], &["-keyout", &key, "-out", &cert]].concat());
    }
    let asked = ["req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext"];
    openssl(folder, &[&asked[..], &["subjectAltName=DNS:localhost", "-keyout", "s.key", "-out", "s.csr"]].concat());
    let signed = ["x509", "-req", "-days", "2", "-copy_extensions", "copy", "-in", "s.csr", "-out", "s.crt"];
    openssl(folder, &[&signed[..], &["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_is_asked_for_and_judged() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let file = |name: &str| folder.path().join(name);
    let (cert, key) = (file("s.crt"), file("s.key"));
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
    let error = Redis::open(&at("localhost"), &with(Some("none.crt"))).await.err().unwrap().to_string();
    assert!(error.contains("WL-4041"), "{error}");
}
