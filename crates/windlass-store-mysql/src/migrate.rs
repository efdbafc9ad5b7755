//! The schema: numbered migrations, each applied once and remembered with its checksum. The server commits every statement that
//! defines something by itself, so each migration can be repeated.

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;

use crate::error::{OpenError, said};
use crate::target::Target;
use crate::text::{literal, row};

/// One step of the schema.
struct Migration {
    number: u32,
    name: &'static str,
    sql: &'static str,
}

/// In order, without a gap, numbered as those of PostgreSQL. One that was released does not change any more.
const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "state_and_locks", sql: include_str!("../migrations/0001_state_and_locks.sql") },
    Migration { number: 2, name: "jobs", sql: include_str!("../migrations/0002_jobs.sql") },
    Migration { number: 3, name: "triggers", sql: include_str!("../migrations/0003_triggers.sql") },
];

const TABLE: &str = "CREATE TABLE IF NOT EXISTS windlass_migration (\
     number INT UNSIGNED NOT NULL PRIMARY KEY, name VARCHAR(64) NOT NULL, checksum CHAR(8) NOT NULL, \
     applied_at DATETIME(3) NOT NULL) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
/// How long another process may take to migrate, in seconds.
const PATIENCE_S: u32 = 300;

impl Migration {
    fn checksum(&self) -> String {
        format!("{:08x}", crc32fast::hash(self.sql.as_bytes()))
    }
}

/// The statements that make the schema, as `windlass schema dump` prints them.
#[must_use]
pub fn schema() -> String {
    let one =
        |migration: &Migration| format!("-- {:04} {}\n{}\n", migration.number, migration.name, migration.sql.trim());
    MIGRATIONS.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn refused(error: mysql_async::Error) -> OpenError {
    OpenError::Refused(said(&error))
}

/// Brings the schema up to date, or sees that it is.
pub(crate) async fn migrate(target: &Target, allowed: bool) -> Result<(), OpenError> {
    let mut conn = target.connect().await.map_err(OpenError::Refused)?;
    check_version(&mut conn).await?;
    let missing = missing(&mut conn).await?;
    match missing.first() {
        None => return Ok(()),
        Some((number, name)) if !allowed => return Err(OpenError::NotMigrated { number: *number, name }),
        Some(_) => {}
    }
    // Two processes that start at once migrate one after the other. The lock ends with the connection.
    let name = format!("windlass.{:08x}", crc32fast::hash(target.database().as_bytes()));
    let lock = format!("SELECT GET_LOCK({}, {PATIENCE_S})", literal(name));
    if conn.query_first::<Option<u8>, _>(lock).await.map_err(refused)?.flatten() != Some(1) {
        return Err(OpenError::Refused("another process is migrating and does not end".to_owned()));
    }
    conn.query_drop(TABLE).await.map_err(refused)?;
    let applied = applied(&mut conn).await.map_err(refused)?;
    for migration in pending(&applied)? {
        let failed = |error: mysql_async::Error| OpenError::Migration { number: migration.number, why: said(&error) };
        conn.query_drop(migration.sql).await.map_err(failed)?;
        let row = row![migration.number, migration.name, migration.checksum()];
        let remember = format!(
            "INSERT INTO windlass_migration (number, name, checksum, applied_at) VALUES {}, UTC_TIMESTAMP(3))",
            row.trim_end_matches(')')
        );
        conn.query_drop(remember).await.map_err(failed)?;
    }
    conn.disconnect().await.map_err(refused)
}

async fn check_version(conn: &mut Conn) -> Result<(), OpenError> {
    let version: Option<String> = conn.query_first("SELECT VERSION()").await.map_err(refused)?;
    let version = version.unwrap_or_default();
    match is_new_enough(&version) {
        true => Ok(()),
        false => Err(OpenError::Old(version)),
    }
}

/// `8.0.36`, `10.11.19-MariaDB-0+deb12u1`, `5.5.5-10.6.1-MariaDB` (which some put before it, for old clients).
pub(crate) fn is_new_enough(version: &str) -> bool {
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = version.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let number = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    number >= if version.contains("MariaDB") { (10, 6) } else { (8, 0) }
}

/// What the schema lacks, by number and name.
pub(crate) async fn missing(conn: &mut Conn) -> Result<Vec<(u32, &'static str)>, OpenError> {
    let ask = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'windlass_migration'";
    let there: Option<u64> = conn.query_first(ask).await.map_err(refused)?;
    let applied = if there == Some(0) { Vec::new() } else { applied(conn).await.map_err(refused)? };
    Ok(pending(&applied)?.iter().map(|migration| (migration.number, migration.name)).collect())
}

async fn applied(conn: &mut Conn) -> Result<Vec<(u32, String)>, mysql_async::Error> {
    conn.query("SELECT number, checksum FROM windlass_migration ORDER BY number").await
}

/// What is still to be applied; refused where what is applied is not ours.
fn pending(applied: &[(u32, String)]) -> Result<&'static [Migration], OpenError> {
    for (i, (number, checksum)) in applied.iter().enumerate() {
        let number = *number;
        match MIGRATIONS.get(i) {
            None => return Err(OpenError::Foreign { number, why: "it is newer than this program" }),
            Some(known) if known.number != number => {
                return Err(OpenError::Foreign { number, why: "one before it is missing" });
            }
            Some(known) if known.checksum() != *checksum => {
                return Err(OpenError::Foreign { number, why: "its checksum is another" });
            }
            Some(_) => {}
        }
    }
    Ok(&MIGRATIONS[applied.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_a_gap() {
        let numbers: Vec<u32> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..=MIGRATIONS.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_applied_must_be_ours() {
        let ours: Vec<(u32, String)> = MIGRATIONS.iter().map(|one| (one.number, one.checksum())).collect();
        assert!(pending(&ours).unwrap().is_empty());
        assert_eq!(pending(&[]).unwrap().len(), MIGRATIONS.len());
        assert!(matches!(pending(&[(1, "0".into())]), Err(OpenError::Foreign { number: 1, .. })));
        assert!(matches!(pending(&[(2, "0".into())]), Err(OpenError::Foreign { number: 2, .. })));
        let newer = [ours, vec![(99, "0".into())]].concat();
        assert!(matches!(pending(&newer), Err(OpenError::Foreign { number: 99, .. })));
    }

    #[test]
    fn old_servers_are_told_from_new_ones() {
        for new in [
            "8.0.36",
            "8.4.0",
            "9.1.0",
            "10.6.1-MariaDB",
            "10.11.19-MariaDB-0+deb12u1",
            "5.5.5-10.6.1-MariaDB",
            "11.4.2-MariaDB",
        ] {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["5.7.44", "10.5.9-MariaDB", "5.5.5-10.3.2-MariaDB", ""] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}
