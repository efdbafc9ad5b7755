//! One request: what is sent, what is kept, what is said when it fails.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use windlass_core::failure::FailureKind;
use windlass_core::stage::{Expect, Poll};

use super::server::{Server, answer, json, read};
use super::*;

#[tokio::test]
async fn a_request_carries_its_key_its_fence_and_who_it_is_for() {
    let server = Server::start(|_| json("{}")).await;
    let mut http = request("PUT", server.url("/{{ tenant }}/config?v={{ config.version }}"));
    http.json = Some(Json::parse(r#"{"version":"{{ config.version }}","text":"v{{ config.version }}"}"#).unwrap());
    http.headers.insert("X-Plain".to_owned(), Text::Template("for {{ tenant }}".to_owned()));
    http.headers.insert("Authorization".to_owned(), secret());
    // Ours win over what a stage gives.
    http.headers.insert("Windlass-Tenant".to_owned(), Text::Template("other".to_owned()));
    run(Action::Http(http)).await.unwrap();
    let asked = server.only();
    assert_eq!(asked.line(), "PUT /acme/config?v=42 HTTP/1.1");
    assert_eq!(asked.body, r#"{"version":42,"text":"v42"}"#);
    let wanted = [
        ("idempotency-key", "p1/t1/s1/2"),
        ("windlass-fence", "77"),
        ("windlass-tenant", "acme"),
        ("windlass-plan", "p1"),
        ("windlass-task", "t1"),
        ("windlass-stage", "s1"),
        ("windlass-attempt", "3"),
        ("content-type", "application/json"),
        ("x-plain", "for acme"),
        ("authorization", SECRET),
    ];
    for (name, value) in wanted {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
}

#[tokio::test]
async fn a_text_body_is_sent_as_text_unless_its_type_is_given() {
    let server = Server::start(|_| json("{}")).await;
    let mut http = request("POST", server.url("/"));
    http.body = Some("hello {{ tenant }}".to_owned());
    run(Action::Http(http.clone())).await.unwrap();
    http.headers.insert("content-type".to_owned(), Text::Template("text/csv".to_owned()));
    run(Action::Http(http)).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked[0].body, "hello acme");
    assert_eq!(asked[0].header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(asked[1].header("content-type"), Some("text/csv"));
}

#[tokio::test]
async fn the_answer_is_kept_as_the_json_or_the_text_that_it_is() {
    let server = Server::start(|asked| match asked.line().split(' ').nth(1).unwrap() {
        "/json" => json("{\"n\": 18446744073709551615, \"b\": 1.10}"),
        "/broken" => json("{"),
        "/text" => answer("201 Created", "Content-Type: text/plain\r\n", "42"),
        "/untyped" => answer("200 OK", "", "42"),
        _ => answer("204 No Content", "", ""),
    })
    .await;
    let got = async |path: &str| returned(run(Action::Http(request("GET", server.url(path)))).await);
    assert_eq!(got("/json").await, r#"{"status":200,"body":{"n":18446744073709551615,"b":1.10}}"#);
    assert_eq!(got("/broken").await, r#"{"status":200,"body":"{"}"#);
    assert_eq!(got("/text").await, r#"{"status":201,"body":"42"}"#);
    assert_eq!(got("/untyped").await, r#"{"status":200,"body":42}"#);
    assert_eq!(got("/empty").await, r#"{"status":204,"body":null}"#);
}

#[tokio::test]
async fn a_long_answer_is_cut_and_a_longer_one_refused() {
    let server = Server::start(|asked| {
        let length: usize = asked.line().split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        json(&format!("[{}1]", "1,".repeat(length / 2 - 1)))
    })
    .await;
    let got = async |length: usize| run(Action::Http(request("GET", server.url(&format!("/{length}"))))).await;
    let whole: serde_json::Value = serde_json::from_str(&returned(got(65_534).await)).unwrap();
    assert!(whole["body"].is_array() && whole.get("truncated").is_none());
    let cut: serde_json::Value = serde_json::from_str(&returned(got(70_000).await)).unwrap();
    assert_eq!((cut["body"].as_str().unwrap().len(), cut["truncated"].as_bool()), (64 * 1024, Some(true)));
    got(1024 * 1024 - 2).await.unwrap();
    let trouble = got(1024 * 1024 + 2).await.unwrap_err();
    assert!(trouble.message.ends_with("answered 200 with a body of more than 1 MiB"), "{}", trouble.message);
}

#[tokio::test]
async fn a_failure_says_what_was_asked_and_what_was_answered() {
    let server = Server::start(|_| answer("503 Busy", "", &format!("so busy {}end", "x".repeat(1000)))).await;
    let url = server.url("/a/b?token=hush").replace("http://", "http://ann:hush@");
    let trouble = run(Action::Http(request("DELETE", url))).await.unwrap_err();
    assert_eq!((trouble.kind, trouble.again), (FailureKind::Stage, true));
    let wanted = format!("DELETE http://{}/a/b?… answered 503: so busy x", server.address);
    assert!(trouble.message.starts_with(&wanted), "{}", trouble.message);
    assert!(!trouble.message.contains("end") && !trouble.message.contains("hush"), "{}", trouble.message);
}

#[tokio::test]
async fn the_expected_statuses_are_the_only_success() {
    let server = Server::start(|_| answer("404 Not Found", "", "")).await;
    let mut http = request("GET", server.url("/"));
    assert!(run(Action::Http(http.clone())).await.is_err());
    http.expect_status = vec![200, 404];
    assert_eq!(returned(run(Action::Http(http.clone())).await), r#"{"status":404,"body":null}"#);
    http.expect_status = vec![200];
    assert!(run(Action::Http(http)).await.unwrap_err().again);
}

#[tokio::test]
async fn a_secret_that_comes_back_is_seen_nowhere() {
    let echo = |status: &'static str| {
        move |_: &_| {
            let body = r#"{"you":"Bearer s3cret-t0ken","t":["s3cret-\u0074\u0030ken"],"s3cret-t0ken":1}"#;
            answer(status, "Content-Type: application/json\r\n", body)
        }
    };
    let (fine, broken) = (Server::start(echo("200 OK")).await, Server::start(echo("500 No")).await);
    let http = |server: &Server| {
        let mut http = request("GET", server.url("/s3cret-t0ken"));
        http.headers.insert("Authorization".to_owned(), secret());
        Action::Http(http)
    };
    assert_eq!(returned(run(http(&fine)).await), r#"{"status":200,"body":{"you":"***","t":["***"],"***":1}}"#);
    let message = run(http(&broken)).await.unwrap_err().message;
    assert!(message.contains("***") && !message.contains("s3cret"), "{message}");
}

#[tokio::test]
async fn no_cut_leaves_half_a_secret() {
    let server = Server::start(|_| answer("500 No", "", &format!("{}s3cret-t0ken", "x".repeat(505)))).await;
    let mut http = request("GET", server.url("/"));
    http.headers.insert("Authorization".to_owned(), secret());
    let message = run(Action::Http(http)).await.unwrap_err().message;
    assert!(message.ends_with("x***"), "{message}");
    let server = Server::start(|_| json(&format!(r#"{{"v":"{}s3cret-t0ken"}}"#, "x".repeat(72)))).await;
    let poll = Poll {
        urls: vec![server.url("/")],
        headers: [("Authorization".to_owned(), secret())].into(),
        expect: Expect { status: None, json: Some("/v".to_owned()), equals: Some(Json::null()) },
        every_ms: 10,
        attempts: 1,
    };
    let message = run(Action::Poll(poll)).await.unwrap_err().message;
    assert!(message.contains("x***") && !message.contains("s3c"), "{message}");
}

#[tokio::test]
async fn an_unknown_secret_and_a_bad_header_are_hopeless_and_nothing_is_sent() {
    let server = Server::start(|_| json("{}")).await;
    for (name, text) in [
        ("X", Text::Secret("NOBODY".parse().unwrap())),
        ("X", Text::Template("a\r\nEvil: {{ tenant }}".to_owned())),
        ("Content-Length", Text::Template("1".to_owned())),
    ] {
        let mut http = request("GET", server.url("/"));
        http.headers.insert(name.to_owned(), text);
        assert!(!run(Action::Http(http)).await.unwrap_err().again, "{name}");
    }
    for url in ["no url", "http://", "{{ nobody }}", "mailto:ann@example.org"] {
        assert!(!run(Action::Http(request("GET", url.to_owned()))).await.unwrap_err().again, "{url}");
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn nobody_listening_may_go_better_next_time() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let trouble = run(Action::Http(request("GET", format!("http://{address}/")))).await.unwrap_err();
    assert!(trouble.again);
    assert!(trouble.message.contains("refused"), "{}", trouble.message);
}

#[tokio::test]
async fn a_request_that_is_dropped_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let asking = tokio::spawn(run(Action::Http(request("GET", url))));
    let (mut stream, _) = listener.accept().await.unwrap();
    read(&mut stream).await;
    asking.abort();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the other side hung up");
}

#[tokio::test]
async fn a_poll_asks_every_url_with_its_headers() {
    let server = Server::start(|_| json(r#"{"items":[{"version":42}],"who":"s3cret-t0ken"}"#)).await;
    let equals = Some(Json::parse(r#""{{ config.version }}""#).unwrap());
    let mut poll = Poll {
        urls: vec![server.url("/a"), server.url("/b")],
        headers: [("Authorization".to_owned(), secret())].into(),
        expect: Expect { status: Some(200), json: Some("/items/0/version".to_owned()), equals },
        every_ms: 10,
        attempts: 1,
    };
    assert_eq!(returned(run(Action::Poll(poll.clone())).await), r#"{"rounds":1}"#);
    let mut lines: Vec<String> = server.asked().iter().map(|asked| asked.line().to_owned()).collect();
    lines.sort();
    assert_eq!(lines, ["GET /a HTTP/1.1", "GET /b HTTP/1.1"]);
    assert!(server.asked().iter().all(|asked| asked.header("authorization") == Some(SECRET)));
    assert!(server.asked().iter().all(|asked| asked.header("idempotency-key") == Some("p1/t1/s1/2")));
    poll.urls.pop();
    let alone = returned(run(Action::Poll(poll.clone())).await);
    assert_eq!(alone, r#"{"rounds":1,"status":200,"body":{"items":[{"version":42}],"who":"***"}}"#);
    poll.expect.json = Some("/who".to_owned());
    let message = run(Action::Poll(poll)).await.unwrap_err().message;
    assert!(message.contains("has \"***\" at \"/who\", not 42"), "{message}");
}
