//! Redirects, followed by our rules.

use super::server::{Server, json, redirect};
use super::*;

fn with_credentials(method: &str, url: String) -> Http {
    let mut http = request(method, url);
    http.body = Some("body".to_owned());
    http.headers.insert("Authorization".to_owned(), Text::Template("Basic YTpi".to_owned()));
    http.headers.insert("Cookie".to_owned(), Text::Template("a=b".to_owned()));
    http.headers.insert("X-Api-Key".to_owned(), secret());
    http.headers.insert("X-Plain".to_owned(), Text::Template("plain".to_owned()));
    http
}

#[tokio::test]
async fn within_an_origin_everything_goes_along() {
    let server = Server::start(|asked| match asked.line().contains("/old") {
        true => redirect("307 Temporary Redirect", "/new?x=1"),
        false => json("1"),
    })
    .await;
    run(Action::Http(with_credentials("POST", server.url("/old")))).await.unwrap();
    let asked = server.asked();
    assert_eq!(asked[1].line(), "POST /new?x=1 HTTP/1.1");
    assert_eq!(asked[1].body, "body");
    for name in ["authorization", "cookie", "x-api-key", "x-plain", "idempotency-key", "windlass-fence", "content-type"]
    {
        assert_eq!(asked[1].header(name), asked[0].header(name), "{name}");
        assert!(asked[1].header(name).is_some(), "{name}");
    }
}

#[tokio::test]
async fn credentials_and_secrets_do_not_cross_origins() {
    let other = Server::start(|_| json("1")).await;
    let to = other.url("/new");
    let server = Server::start(move |_| redirect("308 Permanent Redirect", &to)).await;
    run(Action::Http(with_credentials("PUT", server.url("/old")))).await.unwrap();
    let asked = other.only();
    assert_eq!((asked.line(), asked.body.as_str()), ("PUT /new HTTP/1.1", "body"));
    for name in ["authorization", "cookie", "x-api-key"] {
        assert!(server.only().header(name).is_some(), "{name} was sent where it belongs");
        assert_eq!(asked.header(name), None, "{name}");
    }
    assert_eq!(asked.header("x-plain"), Some("plain"));
    assert_eq!(asked.header("idempotency-key"), Some("p1/t1/s1/2"));
    assert_eq!(asked.header("host"), Some(other.address.to_string().as_str()));
}

#[tokio::test]
async fn user_and_password_of_a_url_do_not_cross_origins() {
    let other = Server::start(|_| json("1")).await;
    let to = other.url("/new");
    let server = Server::start(move |_| redirect("302 Found", &to)).await;
    let url = server.url("/old").replace("http://", "http://ann:pw@");
    run(Action::Http(request("GET", url))).await.unwrap();
    assert!(server.only().header("authorization").is_some());
    assert_eq!(other.only().header("authorization"), None);
}

#[tokio::test]
async fn see_other_becomes_a_get_without_a_body() {
    let server = Server::start(|asked| match asked.line().contains("/old") {
        true => redirect("303 See Other", "/new"),
        false => json("1"),
    })
    .await;
    run(Action::Http(with_credentials("POST", server.url("/old")))).await.unwrap();
    let asked = server.asked();
    assert_eq!((asked[1].line(), asked[1].body.as_str()), ("GET /new HTTP/1.1", ""));
    assert_eq!(asked[1].header("content-type"), None);
}

#[tokio::test]
async fn five_redirects_are_followed_and_a_sixth_is_not() {
    let server = Server::start(|asked| {
        let left: u32 = asked.line().split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if left == 0 { json("1") } else { redirect("302 Found", &format!("/{}", left - 1)) }
    })
    .await;
    assert_eq!(returned(run(Action::Http(request("GET", server.url("/5")))).await), r#"{"status":200,"body":1}"#);
    assert_eq!(server.asked().len(), 6);
    let trouble = run(Action::Http(request("GET", server.url("/6")))).await.unwrap_err();
    assert!(trouble.message.contains("more than 5 redirects"), "{}", trouble.message);
    assert_eq!(server.asked().len(), 12);
}

#[tokio::test]
async fn an_expected_redirect_is_an_answer() {
    let server = Server::start(|_| redirect("302 Found", "/new")).await;
    let mut http = request("GET", server.url("/old"));
    http.expect_status = vec![302];
    assert_eq!(returned(run(Action::Http(http)).await), r#"{"status":302,"body":"moved"}"#);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_redirect_to_nowhere_is_an_answer_that_fails() {
    let server = Server::start(|_| super::server::answer("302 Found", "", "")).await;
    let trouble = run(Action::Http(request("GET", server.url("/old")))).await.unwrap_err();
    assert!(trouble.message.ends_with("answered 302"), "{}", trouble.message);
}
