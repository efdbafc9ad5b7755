//! The store for many instances on Redis: state, locks, jobs and triggers. Whatever changes is one script on the server,
//! whole or not at all, judged by the server's clock and safe to repeat (`script`); every key is made in one place
//! (`keys`). One connection carries the calls of everybody (`link`, `wire`), another listens for wake-ups (`wake`). README.md
//! names every key.

mod connect;
mod durability;
mod error;
mod group;
mod job;
mod keys;
mod link;
mod lock;
mod page;
mod reply;
mod script;
mod state;
mod trigger;
mod wake;
mod wire;

pub use durability::{Durability, Rewrites, Sync};
pub use error::OpenError;

use std::path::PathBuf;
use std::sync::Arc;

use redis::Value;
use tokio::task::AbortHandle;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use connect::Target;
use group::Group;
use job::held::Held;
use keys::Keys;
use link::Link;
use reply::{array, text};
use script::Call;
use state::known::Known;
use state::straight::Straight;
use wake::Wake;

/// How to open the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What stands before every key.
    pub prefix: String,
    /// How far this process's reading of the server's clock runs ahead: 0 outside tests.
    pub ahead_ms: u64,
    /// How long a call may go unanswered before it counts as lost.
    pub answer_ms: u64,
    /// A file of certificates that `rediss://` trusts instead of the system's.
    pub ca_file: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Options { prefix: "windlass:".to_owned(), ahead_ms: 0, answer_ms: 30_000, ca_file: None }
    }
}

/// A handle to an open store. Clones share its connections.
#[derive(Clone)]
pub struct Redis {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    keys: Keys,
    link: Link,
    wake: Wake,
    onward: Group,
    commits: Group,
    known: Known,
    straight: Straight,
    held: Held,
    ahead_ms: u64,
    durability: Durability,
    listener: std::sync::OnceLock<AbortHandle>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

impl Redis {
    /// Opens the store at `url` (`redis://…` or `rediss://…`). Needs a tokio runtime, on which it keeps running. Says,
    /// and remembers, what an acknowledged write survives.
    pub async fn open(url: &str, options: &Options) -> Result<Redis, OpenError> {
        let keys = Keys::new(&options.prefix).ok_or_else(|| OpenError::BadPrefix(options.prefix.clone()))?;
        let link = Link::new(Target::of(url, options.ca_file.as_deref())?, options.answer_ms);
        let durability = durability::read(&link).await?;
        durability.tell();
        let begin = durability::micros(&link).await?;
        let count = wake::count(&link, &keys).await.map_err(|error| durability::refused(&error))?;
        let inner = Arc::new(Inner {
            keys,
            link,
            wake: Wake::new(begin, count),
            onward: Group::default(),
            commits: Group::default(),
            known: Known::default(),
            straight: Straight::default(),
            held: Held::default(),
            ahead_ms: options.ahead_ms.min(Ms::MAX.get()),
            durability,
            listener: std::sync::OnceLock::new(),
        });
        let listener = tokio::spawn(wake::listen(Arc::downgrade(&inner)));
        let _first = inner.listener.set(listener.abort_handle());
        inner.wake.heard().await;
        Ok(Redis { inner })
    }

    /// What an acknowledged write survives, by the settings the server had when the store was opened.
    #[must_use]
    pub fn durability(&self) -> &Durability {
        &self.inner.durability
    }

    /// Whether the server rewrites its append-only file or writes a snapshot, which takes a processor of its machine.
    pub async fn rewrites(&self) -> Result<Rewrites, PortError> {
        durability::rewrites(&self.inner.link).await
    }

    /// Lets go of every connection. Calls in flight end without an answer; later ones connect again.
    pub async fn close(&self) {
        if let Some(listener) = self.inner.listener.get() {
            listener.abort();
        }
        self.inner.straight.close();
        self.inner.link.close();
    }
}

impl Inner {
    /// A call of a script, to be given its arguments.
    pub(crate) fn script(&self, script: &'static std::sync::LazyLock<script::Script>) -> Call {
        Call::new(script, &self.keys, self.ahead_ms, self.wake.hears())
    }

    /// Calls a script. What it has said to those who wait is heard here with its answer.
    pub(crate) async fn call(&self, call: &Call) -> Result<Value, PortError> {
        let mut answer = array(self.link.call(call).await?)?.into_iter();
        let value = answer.next().ok_or_else(|| error::corrupt("an answer", "it is too short"))?;
        for word in answer {
            self.wake.hear(&text(word)?);
        }
        Ok(value)
    }
}
