//! Settings: defaults < one TOML file < environment (`WINDLASS_…`) < flags. Unknown keys are errors.
//! `windlass.example.toml` holds every setting with its default.

mod environment;
mod job;
mod log;
mod server;
mod stage;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;
use windlass_engine::{OnOutage, Options};

use crate::open::StoreUrl;
use environment::Environment;

pub use stage::BadSecrets;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where things are kept.
    pub store: Store,
    /// The embedded store.
    pub embedded: Embedded,
    /// The PostgreSQL store.
    pub postgres: Postgres,
    /// The store on MySQL or MariaDB.
    pub mysql: MySql,
    /// The Redis store.
    pub redis: Redis,
    /// What carries plans out.
    pub engine: Engine,
    /// Jobs and their workers.
    pub jobs: Jobs,
    /// Triggers and their scheduler.
    pub triggers: Triggers,
    /// What `http` and `poll` stages may call.
    pub http: Http,
    /// What `exec` stages may run.
    pub exec: Exec,
    /// What `secret: NAME` stands for.
    pub secrets: Secrets,
    /// The server.
    pub server: Server,
    /// What it logs.
    pub log: Log,
}

/// `[store]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Store {
    /// The store's URL.
    pub url: String,
}

/// `[embedded]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Embedded {
    /// Memory for blocks that were read from disk, in MiB.
    pub cache_mib: u64,
    /// Open although acknowledged writes are missing.
    pub accept_loss: bool,
}

/// `[postgres]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Postgres {
    /// Connections for work; one more listens for wake-ups.
    pub connections: u64,
    /// Bring the schema up to date at start.
    pub migrate: bool,
    /// How long a call may go unanswered before its effect counts as unknown.
    pub answer_ms: u64,
}

/// `[mysql]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MySql {
    /// Connections, made when they are needed.
    pub connections: u64,
    /// Bring the schema up to date at start.
    pub migrate: bool,
    /// How long a call may go unanswered before its effect counts as unknown.
    pub answer_ms: u64,
}

/// `[redis]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Redis {
    /// What stands before every key.
    pub prefix: String,
    /// How long a call may go unanswered before its effect counts as unknown.
    pub answer_ms: u64,
    /// Certificates that `rediss://` trusts instead of the system's; empty is none.
    pub ca_file: PathBuf,
}

/// `[engine]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// How long an instance that says nothing is believed to be alive.
    pub lease_ms: u64,
    /// How often it says something.
    pub beat_ms: u64,
    /// How long a tenant lock is granted for.
    pub lock_ms: u64,
    /// How often locks are renewed.
    pub lock_renew_ms: u64,
    /// Tasks that run at once on this instance.
    pub tasks_max: u32,
    /// How often to look for what no wake-up told.
    pub scan_ms: u64,
    /// How often what is left behind is cleared away.
    pub janitor_ms: u64,
    /// How long ended plans are kept.
    pub retention_ms: u64,
    /// Retries of one task, unless its plan or itself says otherwise; 0 is no limit.
    pub retry_limit: u32,
    /// What becomes of running tasks while the store does not answer.
    pub outage: Outage,
    /// How long a stop waits for stages to reach their boundary.
    pub drain_ms: u64,
}

/// What becomes of running tasks while the store does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outage {
    /// They go on; their state is kept in memory and written when the store is back.
    Degrade,
    /// They wait at their boundary.
    Hold,
    /// They end FAILED.
    Fail,
}

/// `[jobs]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Jobs {
    /// How long a delivered job stays its worker's without a sign of life.
    pub lease_ms: u64,
    /// How often workers look for what no wake-up told.
    pub scan_ms: u64,
    /// How often waiters look while there are no wake-ups.
    pub poll_ms: u64,
    /// How long ended jobs are kept.
    pub retention_ms: u64,
    /// How long a stop waits for handlers to end.
    pub drain_ms: u64,
}

/// `[triggers]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Triggers {
    /// An occurrence that is late by no more than this has not been missed.
    pub misfire_grace_ms: u64,
    /// How long finished triggers are kept.
    pub retention_ms: u64,
}

/// `[http]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Http {
    /// Whether stages are kept on the public internet.
    pub guard: Guarding,
    /// Networks, addresses and hosts that stages may call although the guard is on.
    pub allow: Vec<String>,
}

/// Whether stages are kept on the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Guarding {
    /// Unless plans come in from this machine only.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// `[exec]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Exec {
    /// The programs that stages may run; none turns `exec` off.
    pub allow: Vec<String>,
}

/// `[secrets]`
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Secrets {
    /// A TOML file of secrets by name; empty is none.
    pub file: PathBuf,
}

/// `[server]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Where it listens.
    pub listen: String,
    /// The file of API keys; empty is none.
    pub keys: PathBuf,
    /// Open connections, at most.
    pub connections_max: u64,
    /// Bytes of a body, in MiB.
    pub body_mib: u64,
    /// How long the head of a request may take, and how long a connection may be idle.
    pub head_ms: u64,
    /// How long a body may take.
    pub body_ms: u64,
    /// How long a client may leave unread what was sent to it.
    pub write_ms: u64,
    /// Streams of events, at most.
    pub streams_max: u64,
    /// Requests that wait, at most.
    pub waits_max: u64,
}

/// `[log]`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// Which levels, of what.
    pub filter: String,
    /// For whom.
    pub format: LogFormat,
}

/// How a line of the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

impl Default for Store {
    fn default() -> Self {
        Store { url: "embedded:windlass-data".into() }
    }
}

impl Default for Embedded {
    fn default() -> Self {
        Embedded { cache_mib: 64, accept_loss: false }
    }
}

impl Default for Postgres {
    fn default() -> Self {
        Postgres { connections: 4, migrate: true, answer_ms: 30_000 }
    }
}

impl Default for MySql {
    fn default() -> Self {
        MySql { connections: 8, migrate: true, answer_ms: 30_000 }
    }
}

impl Default for Redis {
    fn default() -> Self {
        Redis { prefix: "windlass:".into(), answer_ms: 30_000, ca_file: PathBuf::new() }
    }
}

impl Default for Engine {
    fn default() -> Self {
        let options = Options::default();
        Engine {
            lease_ms: options.lease_ms,
            beat_ms: options.beat_ms,
            lock_ms: options.lock_ms,
            lock_renew_ms: options.lock_renew_ms,
            tasks_max: options.tasks_max,
            scan_ms: options.scan_ms,
            janitor_ms: options.janitor_ms,
            retention_ms: options.retention_ms,
            retry_limit: options.retry_limit,
            outage: match options.outage {
                OnOutage::Degrade => Outage::Degrade,
                OnOutage::Hold => Outage::Hold,
                OnOutage::Fail => Outage::Fail,
            },
            drain_ms: options.drain_ms,
        }
    }
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        let Settings { engine, triggers, .. } = settings;
        Options {
            lease_ms: engine.lease_ms,
            beat_ms: engine.beat_ms,
            lock_ms: engine.lock_ms,
            lock_renew_ms: engine.lock_renew_ms,
            tasks_max: engine.tasks_max,
            scan_ms: engine.scan_ms,
            janitor_ms: engine.janitor_ms,
            retention_ms: engine.retention_ms,
            retry_limit: engine.retry_limit,
            outage: match engine.outage {
                Outage::Degrade => OnOutage::Degrade,
                Outage::Hold => OnOutage::Hold,
                Outage::Fail => OnOutage::Fail,
            },
            drain_ms: engine.drain_ms,
            misfire_grace_ms: triggers.misfire_grace_ms,
            trigger_retention_ms: triggers.retention_ms,
        }
    }
}

impl Settings {
    /// The store's URL, checked.
    pub fn store_url(&self) -> anyhow::Result<StoreUrl> {
        self.store.url.parse().context("[store] url")
    }

    /// Reads settings from TOML; an error says where.
    pub fn parse(text: &str) -> Result<Settings, toml::de::Error> {
        toml::from_str(text)
    }

    /// The file's settings, if one is given, with the environment over them.
    pub fn load(file: Option<&Path>, environment: impl Fn(&str) -> Option<String>) -> anyhow::Result<Settings> {
        let mut settings = match file {
            None => Settings::default(),
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
                Settings::parse(&text).with_context(|| format!("WL-4020 {} is not valid", path.display()))?
            }
        };
        settings.take(&Environment(&environment))?;
        settings.check()?;
        Ok(settings)
    }

    fn take(&mut self, environment: &Environment<'_>) -> anyhow::Result<()> {
        let Settings {
            store,
            embedded,
            postgres,
            mysql,
            redis,
            engine,
            jobs,
            triggers,
            http,
            exec,
            secrets,
            server,
            log,
        } = self;
        environment.text("WINDLASS_STORE_URL", &mut store.url);
        environment.number("WINDLASS_EMBEDDED_CACHE_MIB", &mut embedded.cache_mib)?;
        environment.yes_or_no("WINDLASS_EMBEDDED_ACCEPT_LOSS", &mut embedded.accept_loss)?;
        environment.number("WINDLASS_POSTGRES_CONNECTIONS", &mut postgres.connections)?;
        environment.yes_or_no("WINDLASS_POSTGRES_MIGRATE", &mut postgres.migrate)?;
        environment.number("WINDLASS_POSTGRES_ANSWER_MS", &mut postgres.answer_ms)?;
        environment.number("WINDLASS_MYSQL_CONNECTIONS", &mut mysql.connections)?;
        environment.yes_or_no("WINDLASS_MYSQL_MIGRATE", &mut mysql.migrate)?;
        environment.number("WINDLASS_MYSQL_ANSWER_MS", &mut mysql.answer_ms)?;
        environment.text("WINDLASS_REDIS_PREFIX", &mut redis.prefix);
        environment.number("WINDLASS_REDIS_ANSWER_MS", &mut redis.answer_ms)?;
        environment.path("WINDLASS_REDIS_CA_FILE", &mut redis.ca_file);
        environment.number("WINDLASS_ENGINE_LEASE_MS", &mut engine.lease_ms)?;
        environment.number("WINDLASS_ENGINE_BEAT_MS", &mut engine.beat_ms)?;
        environment.number("WINDLASS_ENGINE_LOCK_MS", &mut engine.lock_ms)?;
        environment.number("WINDLASS_ENGINE_LOCK_RENEW_MS", &mut engine.lock_renew_ms)?;
        environment.number("WINDLASS_ENGINE_TASKS_MAX", &mut engine.tasks_max)?;
        environment.number("WINDLASS_ENGINE_SCAN_MS", &mut engine.scan_ms)?;
        environment.number("WINDLASS_ENGINE_JANITOR_MS", &mut engine.janitor_ms)?;
        environment.number("WINDLASS_ENGINE_RETENTION_MS", &mut engine.retention_ms)?;
        environment.number("WINDLASS_ENGINE_RETRY_LIMIT", &mut engine.retry_limit)?;
        environment.outage("WINDLASS_ENGINE_OUTAGE", &mut engine.outage)?;
        environment.number("WINDLASS_ENGINE_DRAIN_MS", &mut engine.drain_ms)?;
        jobs.read(environment)?;
        triggers.read(environment)?;
        environment.guarding("WINDLASS_HTTP_GUARD", &mut http.guard)?;
        environment.list("WINDLASS_HTTP_ALLOW", &mut http.allow);
        environment.list("WINDLASS_EXEC_ALLOW", &mut exec.allow);
        environment.path("WINDLASS_SECRETS_FILE", &mut secrets.file);
        server.read(environment)?;
        log.read(environment)?;
        Ok(())
    }

    /// What a type does not say.
    fn check(&self) -> anyhow::Result<()> {
        within("[embedded] cache_mib", self.embedded.cache_mib, 1..=65_536, "")?;
        within("[postgres] connections", self.postgres.connections, 1..=256, "")?;
        within("[postgres] answer_ms", self.postgres.answer_ms, 100..=600_000, "")?;
        within("[mysql] connections", self.mysql.connections, 1..=256, "")?;
        within("[mysql] answer_ms", self.mysql.answer_ms, 100..=600_000, "")?;
        within("[redis] answer_ms", self.redis.answer_ms, 100..=600_000, "")?;
        self.jobs.check()?;
        self.triggers.check()?;
        self.http.check()?;
        self.exec.check()?;
        self.server.check()?;
        self.engine.check()
    }
}

impl Engine {
    /// Refused, not put right: somebody who wrote a number down believes in it.
    fn check(&self) -> anyhow::Result<()> {
        const HOUR: u64 = 60 * 60 * 1000;
        const DAY: u64 = 24 * HOUR;
        within("[engine] lease_ms", self.lease_ms, 100..=HOUR, "")?;
        let third = ": a lease is renewed at least three times while it runs";
        within("[engine] beat_ms", self.beat_ms, 1..=self.lease_ms / 3, third)?;
        within("[engine] lock_ms", self.lock_ms, self.lease_ms..=30 * DAY, ": a lock runs no shorter than a lease")?;
        let half = ": a lock is renewed at least twice while it runs";
        within("[engine] lock_renew_ms", self.lock_renew_ms, 1..=self.lock_ms / 2, half)?;
        within("[engine] tasks_max", self.tasks_max.into(), 1..=10_000, "")?;
        within("[engine] scan_ms", self.scan_ms, 10..=60_000, "")?;
        within("[engine] janitor_ms", self.janitor_ms, 10..=DAY, "")?;
        within("[engine] retention_ms", self.retention_ms, 1_000..=3_650 * DAY, "")?;
        within("[engine] retry_limit", self.retry_limit.into(), 0..=1_000, "")?;
        within("[engine] drain_ms", self.drain_ms, 0..=DAY, "")
    }
}

fn within(name: &str, value: u64, allowed: RangeInclusive<u64>, why: &str) -> anyhow::Result<()> {
    let (least, most) = (allowed.start(), allowed.end());
    anyhow::ensure!(allowed.contains(&value), "WL-4021 {name} is {value}; {least} to {most} is allowed{why}");
    Ok(())
}

#[cfg(test)]
mod tests;
