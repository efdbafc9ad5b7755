//! One client for every request that stages make: guarded, bounded, and with redirects followed by our rules.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use reqwest::header::{self, HeaderMap};
use reqwest::{Client, Method, Response, StatusCode, Url, redirect};
use windlass_core::failure::FailureKind;

use super::Trouble;
use super::guard::{Guard, Guarded, Lookup, Refused};

/// An answer's body, at most.
pub const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Redirects that one request follows, at most.
pub const REDIRECTS_MAX: usize = 5;

/// Headers that say who asks. Those made from a secret are marked as sensitive, and count too.
const CREDENTIALS: &[header::HeaderName] = &[header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION];
/// Headers about a body that is not sent any more.
const OF_BODY: &[header::HeaderName] =
    &[header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_LOCATION];

/// What is asked.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Vec<u8>>,
}

/// Method and URL, without what may be private in it.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query = if self.url.query().is_some() { "?…" } else { "" };
        write!(f, "{} {}{}{query}", self.method, self.url.origin().ascii_serialization(), self.url.path())
    }
}

/// What was answered.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Whether the body is said to be JSON, or nothing is said.
    pub(super) maybe_json: bool,
    pub(super) body: Vec<u8>,
}

/// Asks; in tests of polling, without a network.
#[async_trait]
pub(super) trait Ask: Send + Sync {
    /// Sends `request` and follows redirects, except an answer whose status is one of those that are `wanted`.
    async fn ask(&self, request: &Request, wanted: &[u16]) -> Result<Answer, Trouble>;
}

/// The client, made when it is first needed: reading the system's certificates takes a while.
pub(super) struct Web {
    guard: Arc<Guard>,
    lookup: Arc<dyn Lookup>,
    client: OnceLock<Result<Client, String>>,
}

impl Web {
    pub(super) fn new(guard: Guard, lookup: Arc<dyn Lookup>) -> Web {
        Web { guard: Arc::new(guard), lookup, client: OnceLock::new() }
    }

    fn client(&self) -> Result<&Client, Trouble> {
        let client = self.client.get_or_init(|| {
            let builder = || {
                let resolver = Guarded { guard: self.guard.clone(), lookup: self.lookup.clone() };
                Client::builder()
                    .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
                    .redirect(redirect::Policy::none())
                    .referer(false)
                    // A proxy would look names up where the guard does not see it.
                    .no_proxy()
                    .dns_resolver(Arc::new(resolver))
            };
            // An image without certificates can still call http; https then says that nobody is trusted.
            let without = |_| builder().tls_certs_only(Vec::new()).build();
            builder().build().or_else(without).map_err(|error| chain(&error))
        });
        client.as_ref().map_err(|why| Trouble::stage(format!("the HTTP client cannot be set up: {why}")))
    }

    async fn once(&self, request: &Request) -> Result<Response, Trouble> {
        self.guard.check(&request.url).map_err(|refused| refusal(request, &refused))?;
        let mut builder = self.client()?.request(request.method.clone(), request.url.clone());
        builder = builder.headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        builder.send().await.map_err(|error| failed(request, &error))
    }
}

#[async_trait]
impl Ask for Web {
    async fn ask(&self, request: &Request, wanted: &[u16]) -> Result<Answer, Trouble> {
        let mut request = request.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = self.once(&request).await?;
            let to = match target(&request, &response) {
                Some(to) if !wanted.contains(&response.status().as_u16()) => to,
                _ => return read(&request, response).await,
            };
            request = redirected(request, response.status(), to);
        }
        Err(Trouble::stage(format!("{request} is the end of more than {REDIRECTS_MAX} redirects")))
    }
}

/// Where a redirect leads; none if the answer is none, or does not say where.
fn target(request: &Request, response: &Response) -> Option<Url> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.headers().get(header::LOCATION)?;
    request.url.join(std::str::from_utf8(location.as_bytes()).ok()?).ok()
}

/// The next request, as browsers and curl make it.
fn redirected(mut request: Request, status: StatusCode, to: Url) -> Request {
    let becomes_get = match status {
        StatusCode::SEE_OTHER => request.method != Method::HEAD,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        request.method = Method::GET;
        request.body = None;
        OF_BODY.iter().for_each(|name| drop(request.headers.remove(name)));
    }
    if request.url.origin() != to.origin() {
        let sensitive =
            |name: &&header::HeaderName| request.headers.get(*name).is_some_and(|value| value.is_sensitive());
        let made_from_secrets: Vec<header::HeaderName> = request.headers.keys().filter(sensitive).cloned().collect();
        CREDENTIALS.iter().chain(&made_from_secrets).for_each(|name| drop(request.headers.remove(name)));
        // It named the old host.
        request.headers.remove(header::HOST);
    }
    request.url = to;
    request
}

async fn read(request: &Request, mut response: Response) -> Result<Answer, Trouble> {
    let status = response.status().as_u16();
    let too_big = || Trouble::stage(format!("{request} answered {status} with a body of more than 1 MiB"));
    let of_type = response.headers().get(header::CONTENT_TYPE);
    let maybe_json = of_type.is_none_or(|value| says_json(value.as_bytes()));
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| failed(request, &error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(too_big());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, maybe_json, body })
}

/// `application/json`, `application/problem+json; charset=utf-8` and their like.
fn says_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_ascii_lowercase();
    essence.ends_with(b"/json") || essence.ends_with(b"+json")
}

fn refusal(request: &Request, refused: &Refused) -> Trouble {
    Trouble::hopeless(FailureKind::Stage, format!("{request}: {refused}"))
}

/// A refusal of the guard is somewhere inside the client's error; anything else may go better next time.
fn failed(request: &Request, error: &reqwest::Error) -> Trouble {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(refused) = inner.downcast_ref::<Refused>() {
            return refusal(request, refused);
        }
        source = inner.source();
    }
    Trouble::stage(format!("{request}: {}", chain(error)))
}

/// What the inner errors say; the outer one repeats the URL.
fn chain(error: &reqwest::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if said.last().is_none_or(|last| *last != text) {
            said.push(text);
        }
        source = inner.source();
    }
    if said.is_empty() { "the request failed".to_owned() } else { said.join(": ") }
}

#[cfg(test)]
mod tests;
