//! The schema: numbered migrations, each applied once and remembered with its checksum.

use tokio_postgres::Client;

use crate::error::{OpenError, said};
use crate::pool::connect;
use crate::tls::Target;

/// One step of the schema.
struct Migration {
    number: i32,
    name: &'static str,
    sql: &'static str,
}

/// In order, without a gap. One that was released does not change any more.
const MIGRATIONS: &[Migration] = &[
    Migration { number: 1, name: "state_and_locks", sql: include_str!("../migrations/0001_state_and_locks.sql") },
    Migration { number: 2, name: "jobs", sql: include_str!("../migrations/0002_jobs.sql") },
    Migration { number: 3, name: "triggers", sql: include_str!("../migrations/0003_triggers.sql") },
];

/// Two processes that start at once migrate one after the other.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8317427601942570610)";
const TABLE: &str = "CREATE TABLE IF NOT EXISTS windlass_migration (\
     number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz(3) NOT NULL)";

impl Migration {
    fn checksum(&self) -> String {
        format!("{:08x}", crc32fast::hash(self.sql.as_bytes()))
    }
}

/// Brings the schema up to date, or sees that it is.
pub(crate) async fn migrate(target: &Target, allowed: bool) -> Result<(), OpenError> {
    let connection = connect(target).await.map_err(OpenError::Refused)?;
    let refused = |error: tokio_postgres::Error| OpenError::Refused(said(&error));
    let client = connection.client();
    if !allowed {
        return match missing(client).await?.first() {
            None => Ok(()),
            Some((number, name)) => Err(OpenError::NotMigrated { number: *number, name }),
        };
    }
    connection.batch(&format!("BEGIN; {LOCK}; {TABLE}")).await.map_err(refused)?;
    let applied = applied(client).await.map_err(refused)?;
    for migration in pending(&applied)? {
        let failed =
            |error: tokio_postgres::Error| OpenError::Migration { number: migration.number, why: said(&error) };
        connection.batch(migration.sql).await.map_err(failed)?;
        let remember = "INSERT INTO windlass_migration VALUES ($1, $2, $3, clock_timestamp())";
        client.execute(remember, &[&migration.number, &migration.name, &migration.checksum()]).await.map_err(failed)?;
    }
    // A connection that is dropped before this undoes everything.
    connection.batch("COMMIT").await.map_err(refused)
}

/// What the schema lacks, by number and name.
pub(crate) async fn missing(client: &Client) -> Result<Vec<(i32, &'static str)>, OpenError> {
    let refused = |error: tokio_postgres::Error| OpenError::Refused(said(&error));
    let there = client.query_one("SELECT to_regclass('windlass_migration') IS NOT NULL", &[]).await.map_err(refused)?;
    let applied = if there.get(0) { applied(client).await.map_err(refused)? } else { Vec::new() };
    Ok(pending(&applied)?.iter().map(|migration| (migration.number, migration.name)).collect())
}

/// Every migration, in order, as SQL that makes the schema from nothing.
#[must_use]
pub fn schema() -> String {
    let one =
        |migration: &Migration| format!("-- {:04} {}\n{}\n", migration.number, migration.name, migration.sql.trim());
    MIGRATIONS.iter().map(one).collect::<Vec<_>>().join("\n")
}

async fn applied(client: &Client) -> Result<Vec<(i32, String)>, tokio_postgres::Error> {
    let rows = client.query("SELECT number, checksum FROM windlass_migration ORDER BY number", &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// What is still to be applied; refused where what is applied is not ours.
fn pending(applied: &[(i32, String)]) -> Result<&'static [Migration], OpenError> {
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
        let numbers: Vec<i32> = MIGRATIONS.iter().map(|migration| migration.number).collect();
        assert_eq!(numbers, (1..=MIGRATIONS.len() as i32).collect::<Vec<_>>());
    }

    #[test]
    fn what_was_applied_must_be_ours() {
        let ours: Vec<(i32, String)> = MIGRATIONS.iter().map(|one| (one.number, one.checksum())).collect();
        assert!(pending(&ours).unwrap().is_empty());
        assert_eq!(pending(&[]).unwrap().len(), MIGRATIONS.len());
        assert!(matches!(pending(&[(1, "0".into())]), Err(OpenError::Foreign { number: 1, .. })));
        assert!(matches!(pending(&[(2, "0".into())]), Err(OpenError::Foreign { number: 2, .. })));
        let newer = [ours, vec![(99, "0".into())]].concat();
        assert!(matches!(pending(&newer), Err(OpenError::Foreign { number: 99, .. })));
    }
}
