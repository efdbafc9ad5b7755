//! What the server's settings make of an acknowledged write. Read when the store opens: a setting that breaks promises is
//! refused, one that weakens them is said.

use std::collections::HashMap;

use redis::Value;
use windlass_core::port::PortError;

use crate::error::OpenError;
use crate::link::Link;
use crate::reply::{array, number, text};

/// What an acknowledged write survives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Durability {
    /// The server's version.
    pub version: String,
    /// When the append-only file is synced.
    pub sync: Sync,
    /// Whether snapshots are written.
    pub snapshots: bool,
}

/// When what was written reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Before the answer.
    Always,
    /// Every second.
    EverySecond,
    /// When the system likes.
    System,
    /// There is no append-only file.
    Never,
    /// The server does not say.
    Unknown,
}

impl Durability {
    /// Whether an acknowledged write survives everything that a disk survives.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.sync == Sync::Always
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match (self.sync, self.snapshots) {
            (Sync::Always, _) => "an acknowledged write survives a crash of the server and a loss of power",
            (Sync::EverySecond, _) => {
                "an acknowledged write survives a crash of the server; a loss of power may cost the last second or two \
                 (appendfsync always keeps them)"
            }
            (Sync::System, _) => {
                "an acknowledged write survives a crash of the server; a loss of power may cost the last half minute \
                 (appendfsync always keeps it)"
            }
            (Sync::Never, true) => {
                "an acknowledged write is lost with the server unless a snapshot came after it \
                 (set appendonly yes and appendfsync always)"
            }
            (Sync::Never, false) => {
                "nothing is written to disk: everything is lost with the server \
                 (set appendonly yes and appendfsync always)"
            }
            (Sync::Unknown, _) => {
                "the server does not say how it writes to disk: what an acknowledged write survives is unknown here"
            }
        })
    }
}

impl Durability {
    /// Says it to whoever listens.
    pub(crate) fn tell(&self) {
        let version = &self.version;
        match self.is_full() {
            true => tracing::info!(version, "Redis: {self}"),
            false => tracing::warn!(version, "Redis: {self}"),
        }
    }
}

/// Reads what the server says of itself, and refuses what cannot serve.
pub(crate) async fn read(link: &Link) -> Result<Durability, OpenError> {
    let info = link.ask(redis::cmd("INFO").arg("server")).await.and_then(text).map_err(|error| refused(&error))?;
    let version = version(&info);
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < 7 {
        return Err(OpenError::Old(version));
    }
    // Some services do not let anybody ask for settings.
    let said = match link.ask(redis::cmd("CONFIG").arg("GET").arg("*")).await {
        Ok(said) => settings(said).map_err(|error| refused(&error))?,
        Err(PortError::Unavailable(why)) => {
            tracing::warn!(why, "Redis does not tell its settings");
            HashMap::new()
        }
        Err(error) => return Err(refused(&error)),
    };
    let setting = |name: &str| said.get(name).map_or("", String::as_str);
    let policy = setting("maxmemory-policy");
    if !["", "0"].contains(&setting("maxmemory")) && policy != "noeviction" {
        return Err(OpenError::Evicts(policy.to_owned()));
    }
    let sync = match (setting("appendonly"), setting("appendfsync")) {
        ("yes", "always") => Sync::Always,
        ("yes", "everysec") => Sync::EverySecond,
        ("yes", _) => Sync::System,
        ("", _) => Sync::Unknown,
        _ => Sync::Never,
    };
    Ok(Durability { version, sync, snapshots: !setting("save").is_empty() })
}

/// Valkey says its own, and the version of Redis it is compatible with.
fn version(info: &str) -> String {
    let line = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
    line("valkey_version:").or_else(|| line("redis_version:")).unwrap_or_else(|| "unknown".to_owned())
}

/// What the server does for itself, in a child that takes a processor: it rewrites its file or writes a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewrites {
    /// Just now, or it is about to.
    pub now: bool,
    /// How often it has begun to since its start.
    pub begun: u64,
}

pub(crate) async fn rewrites(link: &Link) -> Result<Rewrites, PortError> {
    Ok(Rewrites::of(&text(link.ask(redis::cmd("INFO").arg("persistence")).await?)?))
}

impl Rewrites {
    fn of(info: &str) -> Rewrites {
        let signs = ["aof_rewrite_in_progress:1", "aof_rewrite_scheduled:1", "rdb_bgsave_in_progress:1"];
        let counted = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
        Rewrites {
            now: info.lines().any(|line| signs.contains(&line.trim())),
            begun: ["aof_rewrites:", "rdb_saves:"].into_iter().filter_map(counted).sum(),
        }
    }
}

fn settings(said: Value) -> Result<HashMap<String, String>, PortError> {
    if let Value::Map(pairs) = said {
        return pairs.into_iter().map(|(name, value)| Ok((text(name)?, text(value)?))).collect();
    }
    let mut all = array(said)?.into_iter();
    let mut settings = HashMap::new();
    while let (Some(name), Some(value)) = (all.next(), all.next()) {
        settings.insert(text(name)?, text(value)?);
    }
    Ok(settings)
}

/// The server's clock, in µs.
pub(crate) async fn micros(link: &Link) -> Result<u64, OpenError> {
    let mut parts = link.ask(&redis::cmd("TIME")).await.and_then(array).map_err(|error| refused(&error))?.into_iter();
    let mut part = || number::<u64>(parts.next().unwrap_or(Value::Nil)).map_err(|error| refused(&error));
    Ok(part()? * 1_000_000 + part()?)
}

pub(crate) fn refused(error: &PortError) -> OpenError {
    match error {
        PortError::Unavailable(why) | PortError::Corrupt(why) | PortError::Invalid(why) => {
            OpenError::Refused(why.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valkey_is_known_by_its_own_version() {
        assert_eq!(version("# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.1.0\r\n"), "8.1.0");
        assert_eq!(version("redis_version:6.2.0\r\n"), "6.2.0");
    }

    #[test]
    fn a_server_that_rewrites_its_file_says_so() {
        let quiet = "# Persistence\r\nrdb_bgsave_in_progress:0\r\nrdb_saves:2\r\naof_rewrite_in_progress:0\r\n\
                     aof_rewrite_scheduled:0\r\naof_rewrites:3\r\naof_rewrites_consecutive_failures:7\r\n";
        assert_eq!(Rewrites::of(quiet), Rewrites { now: false, begun: 5 });
        for sign in ["rdb_bgsave_in_progress", "aof_rewrite_in_progress", "aof_rewrite_scheduled"] {
            assert!(Rewrites::of(&quiet.replace(&format!("{sign}:0"), &format!("{sign}:1"))).now, "{sign}");
        }
    }

    #[test]
    fn what_is_weak_is_said() {
        let of = |sync| Durability { version: "7.0.15".into(), sync, snapshots: true };
        assert!(of(Sync::Always).is_full() && !of(Sync::EverySecond).is_full());
        assert!(of(Sync::EverySecond).to_string().contains("last second"));
        assert!(of(Sync::Never).to_string().contains("is lost with the server"));
    }
}
