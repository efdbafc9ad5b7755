//! `windlass doctor`: can the store be reached, is it one this program can work with, and if not, how is that mended? Nothing that
//! is stored is changed.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_core::port::state::{Filter, State};
use windlass_engine::clock::{Clock as _, SystemClock};
use windlass_store_embedded::OpenError;

use crate::open::{self, StoreUrl};
use crate::settings::Settings;

/// A clock that differs by more than this is worth a word.
const SKEW_MS: u64 = 1_000;
/// A store that takes longer than this for nothing is slow.
const SLOW: Duration = Duration::from_millis(20);
/// The oldest PostgreSQL that is tested.
const POSTGRES_MIN: i32 = 130_000;
/// Synced writes that are timed.
const WRITES: usize = 11;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How it is.
    pub level: Level,
    /// What was looked at.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub mend: Option<String>,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Doubtful,
    /// It does not work.
    Bad,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Good => "good",
            Level::Doubtful => "doubtful",
            Level::Bad => "BAD",
        })
    }
}

fn good(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { level: Level::Good, what, found: found.into(), mend: None }
}

fn not(level: Level, what: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Finding {
    Finding { level, what, found: found.into(), mend: Some(mend.into()) }
}

/// What there is to say of a store in memory.
pub(crate) fn memory() -> Vec<Finding> {
    let mend = "use embedded:PATH, postgres://…, mysql://… or redis://… for anything that matters";
    vec![not(Level::Doubtful, "durability", "memory: keeps nothing beyond the process", mend)]
}

/// Whether the server lets us in, what an acknowledged write survives there, and how fast it answers.
pub(crate) async fn redis(url: &str, settings: &Settings) -> Vec<Finding> {
    let store = match open::redis(url, settings).await {
        Ok(store) => store,
        Err(error) => {
            return vec![not(Level::Bad, "reach", error.to_string(), "see the page of its code in docs/errors")];
        }
    };
    let durability = store.durability();
    let mut found = vec![match durability.is_full() {
        true => good("durability", format!("Redis {}: {durability}", durability.version)),
        false => {
            let said = format!("Redis {}: {durability}", durability.version);
            not(Level::Doubtful, "durability", said, "set appendonly yes and appendfsync always, if that matters")
        }
    }];
    let began = Instant::now();
    let answer = State::list(&store, &Filter::Plans { statuses: Vec::new() }, None, 1).await;
    found.push(match answer {
        Ok(_) => trip(began.elapsed()),
        Err(error) => not(Level::Bad, "reach", error.to_string(), "see the page of its code in docs/errors"),
    });
    found
}

/// The folder, whether it opens, and how fast it answers.
pub(crate) async fn embedded(path: &Path, url: &StoreUrl, settings: &Settings) -> Vec<Finding> {
    let mut found = vec![folder(path)];
    if !path.exists() {
        return found;
    }
    match open::open(url, settings).await {
        Ok(stores) => {
            found.push(good("layout", "its format is this program's, and nothing acknowledged is missing"));
            let began = Instant::now();
            let answer = stores.state.list(&Filter::Plans { statuses: Vec::new() }, None, 1).await;
            found.push(match answer {
                Ok(_) => trip(began.elapsed()),
                Err(error) => not(Level::Bad, "reach", error.to_string(), "see the page of its code in docs/errors"),
            });
        }
        Err(open::OpenError::Embedded(OpenError::Locked(_))) => {
            found.push(good("reach", "a running process has it; ask that one: `windlass inbox`, /readyz"));
        }
        Err(error) => {
            found.push(not(Level::Bad, "layout", error.to_string(), "see the page of its code in docs/errors"))
        }
    }
    found
}

/// Whether the folder can be written, and what a synced write costs.
fn folder(path: &Path) -> Finding {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let place = if path.exists() { path } else { parent };
    let timed = || -> std::io::Result<Duration> {
        let file = tempfile::NamedTempFile::new_in(place)?;
        let mut times = Vec::with_capacity(WRITES);
        for _ in 0..WRITES {
            let began = Instant::now();
            std::io::Write::write_all(&mut file.as_file(), &[0; 4096])?;
            file.as_file().sync_data()?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(times[WRITES / 2])
    };
    let there = if path.exists() { "" } else { "; it is made at the first start" };
    match timed() {
        Ok(time) if time > SLOW => {
            let text = format!("a synced write takes {time:?}");
            not(Level::Doubtful, "folder", text, "a faster disk makes every boundary faster")
        }
        Ok(time) => good("folder", format!("{} can be written, a synced write takes {time:?}{there}", path.display())),
        Err(error) => {
            let mend =
                format!("give this user the right to write to {}, or choose another with [store] url", place.display());
            not(Level::Bad, "folder", format!("{}: {error}", place.display()), mend)
        }
    }
}

/// The server, and what this program needs of it.
pub(crate) async fn postgres(url: &str, settings: &Settings) -> Vec<Finding> {
    let seen = match windlass_store_postgres::examine(url).await {
        Ok(seen) => seen,
        Err(error) => {
            let mend = "see that the server runs, that the URL names it, and that it lets this user in (pg_hba.conf)";
            return vec![not(Level::Bad, "reach", error.to_string(), mend)];
        }
    };
    let mut found = vec![good("reach", format!("as {}", seen.user))];
    found.push(match seen.version_number {
        POSTGRES_MIN.. => good("version", format!("PostgreSQL {}", seen.version)),
        _ => not(Level::Doubtful, "version", format!("PostgreSQL {}", seen.version), "13 and newer are tested"),
    });
    found.push(match (&seen.schema, seen.may_create, seen.read_only) {
        (_, _, true) => not(Level::Bad, "permissions", "it takes no writes", "name the primary, not a standby"),
        (None, ..) => {
            not(Level::Bad, "permissions", "the search path names no schema", "CREATE SCHEMA, or set search_path")
        }
        (Some(schema), true, _) => good("permissions", format!("tables may be made in schema {schema}")),
        (Some(schema), false, _) if !seen.pending.is_empty() => {
            let mend =
                format!("GRANT CREATE ON SCHEMA {schema} TO {}, or run `windlass migrate` as its owner", seen.user);
            not(Level::Bad, "permissions", format!("tables may not be made in schema {schema}"), mend)
        }
        (Some(schema), false, _) => {
            good("permissions", format!("tables may not be made in schema {schema}; none are missing"))
        }
    });
    found.push(match seen.pending.first() {
        None => good("layout", "every migration is applied"),
        Some((number, name)) if settings.postgres.migrate => {
            let text = format!("migration {number} ({name}) is still to be applied");
            not(Level::Doubtful, "layout", text, "the next start does it, or `windlass migrate` now")
        }
        Some((number, name)) => {
            not(Level::Bad, "layout", format!("migration {number} ({name}) is missing"), "run `windlass migrate`")
        }
    });
    found.push(durable(&seen.durability));
    found.push(clock(seen.clock_ms));
    found.push(trip(seen.round_trip));
    found
}

/// The server, MySQL or MariaDB, and what this program needs of it.
pub(crate) async fn mysql(url: &str, settings: &Settings) -> Vec<Finding> {
    let seen = match windlass_store_mysql::examine(url).await {
        Ok(seen) => seen,
        Err(error) => {
            let mend = "see that the server runs, that the URL names it and a database that exists, and that it lets this user in";
            return vec![not(Level::Bad, "reach", error.to_string(), mend)];
        }
    };
    let mut found = vec![good("reach", format!("as {}, database {}", seen.user, seen.database))];
    found.push(match seen.is_new_enough {
        true => good("version", seen.version),
        false => not(Level::Bad, "version", seen.version, "MySQL 8 or MariaDB 10.6 or newer is needed"),
    });
    if seen.read_only {
        found.push(not(Level::Bad, "permissions", "it takes no writes", "name the primary, not a replica"));
    }
    found.push(match seen.pending.first() {
        None => good("layout", "every migration is applied"),
        Some((number, name)) if settings.mysql.migrate => {
            let text = format!("migration {number} ({name}) is still to be applied");
            not(Level::Doubtful, "layout", text, "the next start does it, or `windlass migrate` now")
        }
        Some((number, name)) => {
            not(Level::Bad, "layout", format!("migration {number} ({name}) is missing"), "run `windlass migrate`")
        }
    });
    let binlog = seen.sync_binlog.map_or_else(|| "no binary log".to_owned(), |n| format!("sync_binlog {n}"));
    let text = format!("innodb_flush_log_at_trx_commit {}, {binlog}", seen.flush_at_commit);
    found.push(match seen.flush_at_commit {
        1 => good("durability", text),
        _ => {
            let mend = "a crash of the server loses its last moments: innodb_flush_log_at_trx_commit = 1";
            not(Level::Doubtful, "durability", text, mend)
        }
    });
    found.push(clock(seen.clock_ms));
    found.push(trip(seen.round_trip));
    found
}

/// How far the server's clock and this machine's differ.
fn clock(server_ms: i64) -> Finding {
    let skew = SystemClock.now().get().abs_diff(u64::try_from(server_ms).unwrap_or(0));
    match skew {
        0..=SKEW_MS => good("clock", format!("differs by {skew} ms")),
        _ => not(
            Level::Doubtful,
            "clock",
            format!("differs by {skew} ms"),
            "run a time service on both machines; leases go by the server's clock, events by this one's",
        ),
    }
}

fn durable(settings: &[String; 3]) -> Finding {
    let [fsync, pages, commit] = settings;
    let text = format!("fsync {fsync}, full_page_writes {pages}, synchronous_commit {commit}");
    match (fsync.as_str(), pages.as_str(), commit.as_str()) {
        ("on", "on", "off") => not(
            Level::Doubtful,
            "durability",
            text,
            "a crash of the server loses its last moments: synchronous_commit = on",
        ),
        ("on", "on", _) => good("durability", text),
        _ => not(
            Level::Bad,
            "durability",
            text,
            "a power loss can destroy the database: fsync = on, full_page_writes = on",
        ),
    }
}

fn trip(time: Duration) -> Finding {
    match time {
        _ if time > SLOW => not(
            Level::Doubtful,
            "round trip",
            format!("{time:?}"),
            "every boundary waits for it: bring the store nearer",
        ),
        _ => good("round trip", format!("{time:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn levels(url: &str) -> Vec<(&'static str, Level)> {
        let found = open::examine(&url.parse().unwrap(), &Settings::default()).await;
        found.iter().map(|finding| (finding.what, finding.level)).collect()
    }

    #[tokio::test]
    async fn a_folder_that_is_good_is_called_good_and_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("embedded:{}", folder.path().join("store").display());
        assert_eq!(levels(&url).await.iter().map(|(what, _)| *what).collect::<Vec<_>>(), ["folder"]);
        assert!(!folder.path().join("store").exists());
        drop(open::open(&url.parse().unwrap(), &Settings::default()).await.unwrap());
        let seen = levels(&url).await;
        assert!(seen.contains(&("layout", Level::Good)), "{seen:?}");
    }

    #[tokio::test]
    async fn a_folder_that_is_a_file_is_bad() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(levels(&format!("embedded:{}", file.path().display())).await[0], ("folder", Level::Bad));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_bad_and_its_password_is_not_told() {
        let url = "postgres://zoe:hush@127.0.0.1:1/db?connect_timeout=2";
        let found = open::examine(&url.parse().unwrap(), &Settings::default()).await;
        assert_eq!((found.len(), found[0].level, found[0].what), (1, Level::Bad, "reach"));
        assert!(found[0].mend.is_some() && !format!("{found:?}").contains("hush"), "{found:?}");
    }

    #[test]
    fn what_a_power_loss_would_cost_is_said() {
        let of = |all: [&str; 3]| durable(&all.map(str::to_owned)).level;
        assert_eq!(of(["on", "on", "on"]), Level::Good);
        assert_eq!(of(["on", "on", "off"]), Level::Doubtful);
        assert_eq!(of(["off", "on", "on"]), Level::Bad);
    }
}
