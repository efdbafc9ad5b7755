use reqwest::header::HeaderValue;

use super::*;

fn request(method: Method) -> Request {
    let mut headers = HeaderMap::new();
    let mut secret = HeaderValue::from_static("hush");
    secret.set_sensitive(true);
    headers.insert("x-token", secret);
    for name in ["authorization", "cookie", "content-type", "x-plain", "host"] {
        headers.insert(name, HeaderValue::from_static("it"));
    }
    let url = Url::parse("https://ann:pw@a.example/x?token=1#f").unwrap();
    Request { method, url, headers, body: Some(b"body".to_vec()) }
}

fn names(request: &Request) -> Vec<&str> {
    let mut names: Vec<&str> = request.headers.keys().map(|name| name.as_str()).collect();
    names.sort_unstable();
    names
}

fn after(method: Method, status: u16, to: &str) -> Request {
    let request = request(method);
    let to = request.url.join(to).unwrap();
    redirected(request, StatusCode::from_u16(status).unwrap(), to)
}

#[test]
fn redirects_change_the_method_as_browsers_do() {
    let table = [
        (301, Method::POST, Method::GET),
        (302, Method::POST, Method::GET),
        (303, Method::POST, Method::GET),
        (303, Method::PUT, Method::GET),
        (303, Method::HEAD, Method::HEAD),
        (301, Method::PUT, Method::PUT),
        (302, Method::DELETE, Method::DELETE),
        (307, Method::POST, Method::POST),
        (308, Method::POST, Method::POST),
    ];
    for (status, before, wanted) in table {
        let next = after(before.clone(), status, "/y");
        assert_eq!(next.method, wanted, "{status} {before}");
        let keeps_body = before == wanted;
        assert_eq!(next.body.is_some(), keeps_body, "{status} {before}");
        assert_eq!(next.headers.contains_key("content-type"), keeps_body, "{status} {before}");
    }
}

#[test]
fn credentials_stay_with_their_origin() {
    let all = ["authorization", "content-type", "cookie", "host", "x-plain", "x-token"];
    assert_eq!(names(&after(Method::POST, 307, "/y")), all);
    assert_eq!(names(&after(Method::POST, 307, "https://a.example:443/y")), all);
    for to in
        ["https://b.example/", "http://a.example/", "https://a.example:444/", "https://sub.a.example/", "//b.example/"]
    {
        let next = after(Method::POST, 307, to);
        assert_eq!(names(&next), ["content-type", "x-plain"], "{to}");
        assert_eq!((next.url.username(), next.url.password()), ("", None), "{to}");
    }
}

#[test]
fn a_request_is_shown_without_user_query_and_fragment() {
    assert_eq!(request(Method::PUT).to_string(), "PUT https://a.example/x?…");
}

#[test]
fn json_is_known_by_its_type() {
    for yes in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json", "text/json"] {
        assert!(says_json(yes.as_bytes()), "{yes}");
    }
    for no in ["text/plain", "application/jsonp", "application/x-ndjson", "text/html; a=/json"] {
        assert!(!says_json(no.as_bytes()), "{no}");
    }
}
