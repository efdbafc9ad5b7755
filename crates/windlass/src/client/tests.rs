use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// A server that says what it was told to say, one answer per connection, and keeps what it heard.
struct Parrot {
    url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Parrot {
    /// `None` is no answer: the connection is closed once the request is there.
    async fn with(answers: Vec<Option<String>>) -> Parrot {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&heard);
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !whole(&request) {
                    let mut bytes = [0; 4096];
                    let n = stream.read(&mut bytes).await.unwrap();
                    request.extend_from_slice(&bytes[..n]);
                }
                keep.lock().unwrap().push(String::from_utf8(request).unwrap());
                if let Some(answer) = answer {
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            }
        });
        Parrot { url, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn header(&self, at: usize, name: &str) -> Option<String> {
        self.heard()[at].lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }
}

fn whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

fn answer(status: &str, headers: &str, body: &str) -> Option<String> {
    let length = body.len();
    Some(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n{headers}\r\n{body}"))
}

fn ok(body: &str) -> Option<String> {
    answer("200 OK", "", body)
}

const DONE: &str = r#"{"plan": "p-1", "state": "PAUSED", "asked": false, "somethingNew": 1}"#;
const REFUSED: &str = r#"{"type": "/docs/errors/WL-2001", "title": "Refused", "status": 409, "code": "WL-2001",
    "detail": "cannot pause: it is READY", "state": "READY", "possible": ["start", "cancel"]}"#;

fn job(status: &str, more: &str) -> String {
    format!(
        r#"{{"id": "6f2c1e6e-5f5e-4a57-9d0e-0a1b2c3d4e5f", "queue": "q", "status": "{status}", "version": 1, "attempt": 1,
            "submittedAt": "2026-11-15T12:00:00.000Z"{more}}}"#
    )
}

#[tokio::test]
async fn a_write_whose_answer_was_lost_is_given_again_under_the_same_key() {
    let server = Parrot::with(vec![None, ok(DONE)]).await;
    let client = Client::new(&server.url).unwrap();
    let done = client.do_plan(&"p-1".parse().unwrap(), PlanVerb::Pause, &Ask::default()).await.unwrap();
    assert_eq!(done.state, "PAUSED");
    let keys = [server.header(0, "Idempotency-Key"), server.header(1, "Idempotency-Key")];
    assert!(keys[0].is_some() && keys[0] == keys[1], "{keys:?}");
    assert_eq!(server.heard().len(), 2);
}

#[tokio::test]
async fn two_writes_have_two_keys_and_a_given_key_is_kept() {
    let server = Parrot::with(vec![ok(DONE), ok(DONE), ok(DONE)]).await;
    let client = Client::new(&server.url).unwrap();
    let given = Ask { key: Some("mine".to_owned()), ..Ask::default() };
    for ask in [&Ask::default(), &Ask::default(), &given] {
        client.do_plan(&"p-1".parse().unwrap(), PlanVerb::Pause, ask).await.unwrap();
    }
    let keys: Vec<_> = (0..3).map(|at| server.header(at, "Idempotency-Key").unwrap()).collect();
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2], "mine");
}

#[tokio::test]
async fn a_refusal_carries_code_detail_and_what_is_possible_and_is_not_tried_again() {
    let server =
        Parrot::with(vec![answer("409 Conflict", "Content-Type: application/problem+json\r\n", REFUSED)]).await;
    let client = Client::new(&server.url).unwrap();
    let error = client.do_plan(&"p-1".parse().unwrap(), PlanVerb::Pause, &Ask::default()).await.unwrap_err();
    assert_eq!((error.code(), error.status()), (Some("WL-2001"), Some(409)));
    let problem = error.problem().unwrap();
    assert_eq!(problem.possible, ["start", "cancel"]);
    assert_eq!(problem.state.as_deref(), Some("READY"));
    assert_eq!(error.to_string(), "WL-2001 cannot pause: it is READY");
    assert_eq!(server.heard().len(), 1);
}

#[tokio::test]
async fn a_store_that_is_away_is_asked_again_when_the_server_says_so() {
    let away = answer("503 Service Unavailable", "Retry-After: 0\r\n", "{}");
    let server = Parrot::with(vec![away.clone(), away, ok(DONE)]).await;
    let client = Client::new(&server.url).unwrap();
    client.do_plan(&"p-1".parse().unwrap(), PlanVerb::Pause, &Ask::default()).await.unwrap();
    assert_eq!(server.heard().len(), 3);
}

#[tokio::test]
async fn who_asks_and_why_are_in_the_body_and_the_key_only_in_its_header() {
    let server = Parrot::with(vec![ok(DONE), answer("401 Unauthorized", "", "no")]).await;
    let client = Client::builder(&server.url).key("wl_1_secret").by("zoe".parse().unwrap()).build().unwrap();
    let ask = Ask::because("a test".parse().unwrap());
    client.do_plan(&"p-1".parse().unwrap(), PlanVerb::Pause, &ask).await.unwrap();
    let heard = server.heard();
    assert!(heard[0].ends_with(r#"{"reason":"a test","by":"zoe"}"#), "{heard:?}");
    assert_eq!(server.header(0, "Authorization").as_deref(), Some("Bearer wl_1_secret"));
    let error = client.do_plan(&"p-1".parse().unwrap(), PlanVerb::Pause, &ask).await.unwrap_err();
    assert!(!format!("{error:?} {error}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn a_job_handle_gives_the_result_when_it_is_there() {
    let done = job("COMPLETED", r#", "result": {"n": 7}"#);
    let server = Parrot::with(vec![ok(&job("RUNNING", "")), ok(&done)]).await;
    let client = Client::new(&server.url).unwrap();
    let handle = client.handle("6f2c1e6e-5f5e-4a57-9d0e-0a1b2c3d4e5f".parse().unwrap());
    assert_eq!(handle.await.unwrap().as_str(), r#"{"n":7}"#);
    assert!(server.heard()[0].starts_with("GET /v1/jobs/6f2c1e6e-5f5e-4a57-9d0e-0a1b2c3d4e5f?wait=30000ms "));
}

#[tokio::test]
async fn a_job_handle_says_what_went_wrong_and_when_the_time_is_over() {
    let failed = job("FAILED", r#", "error": {"message": "no paper", "code": "7"}"#);
    let server = Parrot::with(vec![ok(&failed), ok(&job("RUNNING", ""))]).await;
    let client = Client::new(&server.url).unwrap();
    let handle = client.handle("6f2c1e6e-5f5e-4a57-9d0e-0a1b2c3d4e5f".parse().unwrap());
    let error = handle.clone().await.unwrap_err();
    assert!(matches!(&error, NotDone::Failed(_, error) if error.code == "7"), "{error}");
    let error = handle.within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, NotDone::TimedOut(_)), "{error}");
}

#[tokio::test]
async fn events_go_on_after_the_last_one_that_was_heard() {
    let event = |id: &str, kind: &str| format!("id: {id}\nevent: {kind}\ndata: {{\"n\":1}}\n\n");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let first = format!("{head}: hello\n\n{}{}", event("p:1", "PlanStarted"), "id: p:2\nevent: Half");
    let second = format!("{head}{}", event("p:2", "PlanPaused"));
    let server = Parrot::with(vec![Some(first), Some(second)]).await;
    let client = Client::new(&server.url).unwrap();
    let mut events = client.events(Some(&"p".parse().unwrap()), None);
    let heard = events.next().await.unwrap();
    assert_eq!((heard.event.as_str(), heard.data.as_str()), ("PlanStarted", r#"{"n":1}"#));
    assert!(matches!(events.next().await, Err(Error::Unreachable { .. })));
    assert_eq!(events.next().await.unwrap().event, "PlanPaused");
    assert_eq!(server.header(1, "Last-Event-ID").as_deref(), Some("p:1"));
}

#[test]
fn an_address_that_is_none_is_refused_with_one_that_is() {
    for text in ["localhost:7800", "ftp://x", "", "http://user:pw@host", "http://host?x=1"] {
        let error = Client::new(text).err().unwrap();
        assert!(matches!(&error, Error::Setup(_)), "{text}: {error}");
    }
    assert_eq!(Client::new("http://h:1/base").unwrap().server(), "http://h:1/base");
}
