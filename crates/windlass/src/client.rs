//! The Rust client of the HTTP interface: what the command line is made of, and what other programs use.
//!
//! A call is tried again when there was no answer, or the server said that it cannot answer now. Every write carries an
//! idempotency key that all its tries share, so that one whose answer was lost is not done twice.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use windlass::client::{Client, JobSpec};
//! use windlass::core::json::Json;
//!
//! let client = Client::new("http://127.0.0.1:7800")?;
//! let job = JobSpec::new("mail".parse()?, Json::parse(r#"{"to": "zoe"}"#)?);
//! let result = client.submit(&job).await?.within(Duration::from_secs(30)).await?;
//! println!("{result}");
//! # Ok(())
//! # }
//! ```

mod error;
mod events;
mod handle;
mod job;
mod plan;
mod send;
mod task;
mod tenant;
mod trigger;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Url, redirect};
use secrecy::SecretString;
use serde::Serialize;
use windlass_core::by::{By, Reason};
use windlass_core::json::Json;

pub use error::{Error, Problem};
pub use events::{Events, Heard};
pub use handle::{JobHandle, NotDone};
pub use job::{Bulk, Claim, Claimed, Failed, Finished, Held, JobSpec, Jobs, SetLimits, Settled};
pub use plan::{PlanFormat, PlanVerb, Plans};
pub use task::{RetryFrom, TaskVerb, Tasks, Which};

/// Where a server listens unless it is told otherwise.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7800";

/// A way to a server. Clones share its connections.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    http: reqwest::Client,
    /// Ends in a slash, so that paths can be joined to it.
    base: Url,
    key: Option<SecretString>,
    by: Option<By>,
    tries: u32,
    timeout: Duration,
}

/// What a [`Client`] is made of.
pub struct Builder {
    server: String,
    key: Option<SecretString>,
    by: Option<By>,
    tries: u32,
    timeout: Duration,
}

/// Who asks for an operation, why, and how. Without a key one is made for each call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Who; the client's own name unless given. A server with credentials knows better and does not listen to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// Only say what would happen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The idempotency key: the same request under it gets the same answer for 24 hours.
    #[serde(skip)]
    pub key: Option<String>,
}

/// A server's answer: what the client knows of it, and all of it as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer<T> {
    /// What the client knows.
    pub view: T,
    /// All of it.
    pub json: Json,
}

impl<T> std::ops::Deref for Answer<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.view
    }
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<Answer<T>>,
    /// Where it goes on; `None` at the end.
    pub next: Option<String>,
    /// There is more than this.
    pub more: bool,
}

impl Client {
    /// A client without credentials.
    pub fn new(server: impl Into<String>) -> Result<Client, Error> {
        Client::builder(server).build()
    }

    /// Begins with a server's address, such as [`DEFAULT_SERVER`].
    #[must_use]
    pub fn builder(server: impl Into<String>) -> Builder {
        Builder { server: server.into(), key: None, by: None, tries: 4, timeout: Duration::from_secs(30) }
    }

    /// The server's address.
    #[must_use]
    pub fn server(&self) -> &str {
        self.0.base.as_str().trim_end_matches('/')
    }
}

impl Builder {
    /// Shows this key. No debug output and no error contains it.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Builder {
        Builder { key: Some(SecretString::from(key.into())), ..self }
    }

    /// Says who asks, where the server has no credentials to know it from.
    #[must_use]
    pub fn by(self, by: By) -> Builder {
        Builder { by: Some(by), ..self }
    }

    /// How often a call is tried at all; 4 unless given.
    #[must_use]
    pub fn tries(self, tries: u32) -> Builder {
        Builder { tries: tries.max(1), ..self }
    }

    /// How long one try may take beside what it waits for on purpose; 30 seconds unless given.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Builder {
        Builder { timeout, ..self }
    }

    /// Checks the address; nothing is connected yet.
    pub fn build(self) -> Result<Client, Error> {
        let bad = |why: String| Error::Setup(format!("{:?} is no server's address: {why}", self.server));
        let mut base: Url = self.server.parse().map_err(|error| bad(format!("{error}; try {DEFAULT_SERVER}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(bad(format!("it must begin with http:// or https://; try {DEFAULT_SERVER}")));
        }
        if !base.username().is_empty() || base.password().is_some() || base.query().is_some() {
            return Err(bad("a key is given apart from the address".to_owned()));
        }
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        // Without redirects: a key must not go where nobody meant it to go.
        let http = reqwest::Client::builder().no_proxy().redirect(redirect::Policy::none()).build();
        let http = http.map_err(|error| Error::Setup(format!("no HTTP client: {error}")))?;
        let Builder { key, by, tries, timeout, .. } = self;
        Ok(Client(Arc::new(Inner { http, base, key, by, tries, timeout })))
    }
}

impl Ask {
    /// For this reason.
    #[must_use]
    pub fn because(reason: Reason) -> Ask {
        Ask { reason: Some(reason), ..Ask::default() }
    }
}

#[cfg(test)]
mod tests;
