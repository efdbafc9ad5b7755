//! Opening a store by its URL: the only match over stores.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;
use windlass_store_embedded::{Embedded, OpenError, Options};

use crate::settings::Settings;

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory:`: as long as the process lives.
    Memory,
    /// `embedded:PATH`: a folder, one process.
    Embedded(PathBuf),
}

/// Why a text names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Known, and not there yet.
    #[error("WL-4010 {0} stores are not supported yet; use embedded:PATH or memory:")]
    NotYet(&'static str),
    /// Without a folder.
    #[error("WL-4011 embedded: needs a folder, as in embedded:windlass-data")]
    NoPath,
    /// Not known.
    #[error("WL-4012 {0:?} is not a store URL; expected embedded:PATH or memory:")]
    Unknown(String),
}

impl FromStr for StoreUrl {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let (scheme, rest) = text.split_once(':').ok_or_else(|| BadUrl::Unknown(text.into()))?;
        match (scheme, rest) {
            ("memory", "") => Ok(StoreUrl::Memory),
            ("embedded", "") => Err(BadUrl::NoPath),
            ("embedded", path) => Ok(StoreUrl::Embedded(path.into())),
            ("redis" | "rediss", _) => Err(BadUrl::NotYet("Redis")),
            ("redis-cluster", _) => Err(BadUrl::NotYet("Redis Cluster")),
            ("postgres" | "postgresql", _) => Err(BadUrl::NotYet("PostgreSQL")),
            ("mysql", _) => Err(BadUrl::NotYet("MySQL")),
            ("mongodb", _) => Err(BadUrl::NotYet("MongoDB")),
            // A URL may hold a password: only its scheme is repeated.
            _ => Err(BadUrl::Unknown(format!("{scheme}:…"))),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Memory => f.write_str("memory:"),
            StoreUrl::Embedded(path) => write!(f, "embedded:{}", path.display()),
        }
    }
}

/// An open store.
#[derive(Clone)]
pub struct Stores {
    /// Plans, tasks, checkpoints, instances.
    pub state: Arc<dyn State>,
    /// Tenant locks.
    pub locks: Arc<dyn Locks>,
}

/// Opens the store at `url`.
pub fn open(url: &StoreUrl, settings: &Settings) -> Result<Stores, OpenError> {
    let store = match url {
        StoreUrl::Memory => Embedded::memory(),
        StoreUrl::Embedded(path) => {
            let cache_bytes = settings.embedded.cache_mib << 20;
            Embedded::open(path, &Options { cache_bytes, accept_loss: settings.embedded.accept_loss })?
        }
    };
    Ok(Stores { state: Arc::new(store.clone()), locks: Arc::new(store) })
}

#[cfg(test)]
mod tests;
