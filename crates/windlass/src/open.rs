//! Opening a store by its URL: the only match over stores.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use windlass_core::port::job::Jobs;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::State;
use windlass_core::port::trigger::Triggers;
use windlass_core::port::{Batches, PortError};
use windlass_store_embedded::Embedded;
use windlass_store_mysql::MySql;
use windlass_store_postgres::Postgres;
use windlass_store_redis::Redis;

use crate::doctor;
use crate::settings::Settings;

/// Which store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// `memory:`: as long as the process lives.
    Memory,
    /// `embedded:PATH`: a folder, one process.
    Embedded(PathBuf),
    /// `postgres://…`: a server, many processes.
    Postgres(Secret),
    /// `mysql://…`: a server, MySQL or MariaDB, many processes.
    MySql(Secret),
    /// `redis://…` or `rediss://…`: a server, many processes.
    Redis(Secret),
}

impl StoreUrl {
    /// What kind it is, in one word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            StoreUrl::Memory => "memory",
            StoreUrl::Embedded(_) => "embedded",
            StoreUrl::Postgres(_) => "postgres",
            StoreUrl::MySql(_) => "mysql",
            StoreUrl::Redis(_) => "redis",
        }
    }

    /// All of it, for another process that is to open it.
    pub(crate) fn whole(&self) -> String {
        match self {
            StoreUrl::Memory => "memory:".to_owned(),
            StoreUrl::Embedded(folder) => format!("embedded:{}", folder.display()),
            StoreUrl::Postgres(url) | StoreUrl::MySql(url) | StoreUrl::Redis(url) => url.reveal().to_owned(),
        }
    }

    /// The whole URL of a server, for whoever is to connect; `None` for a store that one process has alone.
    pub(crate) fn server(&self) -> Option<&str> {
        match self {
            StoreUrl::Memory | StoreUrl::Embedded(_) => None,
            StoreUrl::Postgres(url) | StoreUrl::MySql(url) | StoreUrl::Redis(url) => Some(url.reveal()),
        }
    }
}

/// A URL that may hold a password: it is shown without one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The whole of it, for whoever is to connect.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", ""));
        let rest = rest.rsplit('@').next().unwrap_or_default();
        write!(f, "{scheme}://{}", rest.split('?').next().unwrap_or_default())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why a text names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// Known, and not there yet.
    #[error(
        "WL-4010 {0} stores are not supported yet; use embedded:PATH, memory:, postgres://…, mysql://… or redis://…"
    )]
    NotYet(&'static str),
    /// Without a folder.
    #[error("WL-4011 embedded: needs a folder, as in embedded:windlass-data")]
    NoPath,
    /// Not known.
    #[error("WL-4012 {0:?} is not a store URL; expected embedded:PATH, memory:, postgres://…, mysql://… or redis://…")]
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
            ("redis" | "rediss", _) => Ok(StoreUrl::Redis(Secret(text.into()))),
            ("redis-cluster", _) => Err(BadUrl::NotYet("Redis Cluster")),
            ("postgres" | "postgresql", _) => Ok(StoreUrl::Postgres(Secret(text.into()))),
            ("mysql", _) => Ok(StoreUrl::MySql(Secret(text.into()))),
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
            StoreUrl::Postgres(url) | StoreUrl::MySql(url) | StoreUrl::Redis(url) => url.fmt(f),
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
    /// Jobs.
    pub jobs: Arc<dyn Jobs>,
    /// Triggers.
    pub triggers: Arc<dyn Triggers>,
    /// What it writes at once, if it can say.
    pub batches: Option<Arc<Batches>>,
}

/// Why a store does not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The embedded store.
    #[error(transparent)]
    Embedded(#[from] windlass_store_embedded::OpenError),
    /// PostgreSQL.
    #[error(transparent)]
    Postgres(#[from] windlass_store_postgres::OpenError),
    /// MySQL.
    #[error(transparent)]
    MySql(#[from] windlass_store_mysql::OpenError),
    /// Redis.
    #[error(transparent)]
    Redis(#[from] windlass_store_redis::OpenError),
    /// What a test said is not understood.
    #[cfg(feature = "fault")]
    #[error(transparent)]
    Fault(#[from] crate::fault::BadFault),
}

/// Opens the store at `url`.
pub async fn open(url: &StoreUrl, settings: &Settings) -> Result<Stores, OpenError> {
    let both = match url {
        StoreUrl::Memory => {
            let store = Embedded::memory();
            Stores { batches: Some(store.batches()), ..stores(store) }
        }
        StoreUrl::Embedded(path) => {
            let cache_bytes = settings.embedded.cache_mib << 20;
            let accept_loss = settings.embedded.accept_loss;
            let store = Embedded::open(path, &windlass_store_embedded::Options { cache_bytes, accept_loss })?;
            Stores { batches: Some(store.batches()), ..stores(store) }
        }
        StoreUrl::Postgres(Secret(url)) => {
            let options = windlass_store_postgres::Options {
                connections: settings.postgres.connections as usize,
                migrate: settings.postgres.migrate,
                answer_ms: settings.postgres.answer_ms,
                ..Default::default()
            };
            let store = Postgres::open(url, &options).await?;
            Stores { batches: Some(store.batches()), ..stores(store) }
        }
        StoreUrl::MySql(Secret(url)) => {
            let options = windlass_store_mysql::Options {
                connections: settings.mysql.connections as usize,
                migrate: settings.mysql.migrate,
                answer_ms: settings.mysql.answer_ms,
                ..Default::default()
            };
            stores(MySql::open(url, &options).await?)
        }
        StoreUrl::Redis(Secret(url)) => stores(redis(url, settings).await?),
    };
    #[cfg(feature = "fault")]
    let both = crate::fault::armed(both, url)?;
    Ok(both)
}

/// Opens the store on Redis.
pub(crate) async fn redis(url: &str, settings: &Settings) -> Result<Redis, windlass_store_redis::OpenError> {
    let settings = &settings.redis;
    let options = windlass_store_redis::Options {
        prefix: settings.prefix.clone(),
        answer_ms: settings.answer_ms,
        ca_file: Some(settings.ca_file.clone()).filter(|file| !file.as_os_str().is_empty()),
        ..Default::default()
    };
    Redis::open(url, &options).await
}

/// A server that works for itself now and then, beside what it is asked.
pub(crate) struct Restless(Option<Redis>);

impl Restless {
    pub(crate) async fn of(url: &StoreUrl, settings: &Settings) -> Result<Restless, OpenError> {
        Ok(Restless(match url {
            StoreUrl::Redis(Secret(url)) => Some(redis(url, settings).await?),
            StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Postgres(_) | StoreUrl::MySql(_) => None,
        }))
    }

    /// How often it has begun to, unless it does just now: Redis rewrites its file when that has doubled.
    pub(crate) async fn rested(&self) -> Result<Option<u64>, PortError> {
        let Some(redis) = &self.0 else { return Ok(Some(0)) };
        let rewrites = redis.rewrites().await?;
        Ok((!rewrites.now).then_some(rewrites.begun))
    }
}

/// Looks at a store, as far as that changes nothing in it.
pub async fn examine(url: &StoreUrl, settings: &Settings) -> Vec<doctor::Finding> {
    match url {
        StoreUrl::Memory => doctor::memory(),
        StoreUrl::Embedded(path) => doctor::embedded(path, url, settings).await,
        StoreUrl::Postgres(secret) => doctor::postgres(secret.reveal(), settings).await,
        StoreUrl::MySql(secret) => doctor::mysql(secret.reveal(), settings).await,
        StoreUrl::Redis(secret) => doctor::redis(secret.reveal(), settings).await,
    }
}

/// What of a store's layout is still to be made, by number and name.
pub async fn pending(url: &StoreUrl) -> Result<Vec<(u32, &'static str)>, OpenError> {
    match url {
        StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Redis(_) => Ok(Vec::new()),
        StoreUrl::Postgres(secret) => {
            let pending = windlass_store_postgres::examine(secret.reveal()).await?.pending;
            Ok(pending.into_iter().map(|(number, name)| (number.unsigned_abs(), name)).collect())
        }
        StoreUrl::MySql(secret) => Ok(windlass_store_mysql::examine(secret.reveal()).await?.pending),
    }
}

fn stores<S: State + Locks + Jobs + Triggers + Clone + 'static>(store: S) -> Stores {
    let (state, jobs, triggers) = (Arc::new(store.clone()), Arc::new(store.clone()), Arc::new(store.clone()));
    Stores { state, locks: Arc::new(store), jobs, triggers, batches: None }
}

#[cfg(test)]
mod tests;
