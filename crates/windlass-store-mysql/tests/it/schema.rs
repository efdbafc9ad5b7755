//! The schema: what the migrations make is what `schema.sql` says, once and for everybody.

use mysql_async::prelude::Queryable as _;
use windlass_store_mysql::{MySql, OpenError, Options, examine};

use crate::server::{Database, client, database, execute};

const GOLDEN: &str = include_str!("../../schema.sql");

async fn opened(database: &Database, migrate: bool) -> Result<MySql, OpenError> {
    MySql::open(&database.url, &Options { migrate, ..Options::default() }).await
}

/// Every table, as the server itself would make it.
async fn described(database: &Database) -> Vec<String> {
    let mut conn = client(&database.url).await;
    let tables: Vec<String> = conn.query("SHOW TABLES").await.unwrap();
    let mut all = Vec::new();
    for table in tables {
        let (_, made): (String, String) =
            conn.query_first(format!("SHOW CREATE TABLE {table}")).await.unwrap().unwrap();
        // How far a counter has come is no part of the layout.
        let words = made.split(' ').filter(|word| !word.starts_with("AUTO_INCREMENT="));
        all.push(words.collect::<Vec<_>>().join(" "));
    }
    all
}

/// Another file than the migrations, so that a change of the schema is seen as one.
#[tokio::test]
async fn the_schema_after_all_migrations_is_the_golden_one() {
    let (migrated, golden) = (database().await, database().await);
    drop(opened(&migrated, true).await.unwrap());
    execute(&golden.url, GOLDEN).await;
    let (migrated, golden) = (described(&migrated).await, described(&golden).await);
    assert!(migrated.len() > 20, "only {} tables", migrated.len());
    let missing: Vec<_> = migrated.iter().filter(|table| !golden.contains(table)).collect();
    let surplus: Vec<_> = golden.iter().filter(|table| !migrated.contains(table)).collect();
    let all = migrated.join(";\n\n");
    assert!(missing.is_empty() && surplus.is_empty(), "schema.sql differs from what the migrations make:\n{all};\n");
}

#[tokio::test]
async fn migrating_again_and_at_the_same_time_changes_nothing() {
    let database = database().await;
    let together = tokio::join!(opened(&database, true), opened(&database, true), opened(&database, true));
    assert!(together.0.is_ok() && together.1.is_ok() && together.2.is_ok());
    let before = described(&database).await;
    drop(opened(&database, true).await.unwrap());
    assert_eq!(described(&database).await, before);
    assert!(examine(&database.url).await.unwrap().pending.is_empty());
}

#[tokio::test]
async fn a_migration_that_was_cut_off_goes_on_where_it_was() {
    let database = database().await;
    drop(opened(&database, true).await.unwrap());
    let before = described(&database).await;
    execute(&database.url, "DELETE FROM windlass_migration WHERE number > 1; DROP TABLE triggers; DROP TABLE job_rule")
        .await;
    drop(opened(&database, true).await.unwrap());
    assert_eq!(described(&database).await, before);
}

#[tokio::test]
async fn a_schema_that_lacks_a_migration_or_has_a_foreign_one_is_refused() {
    let database = database().await;
    let error = opened(&database, false).await.err().unwrap();
    assert!(matches!(error, OpenError::NotMigrated { number: 1, .. }), "{error}");
    let seen = examine(&database.url).await.unwrap();
    assert!(seen.pending.len() == 3 && seen.is_new_enough && seen.flush_at_commit == 1 && !seen.read_only);
    drop(opened(&database, true).await.unwrap());
    drop(opened(&database, false).await.unwrap());
    execute(&database.url, "UPDATE windlass_migration SET checksum = 'other' WHERE number = 1").await;
    let error = opened(&database, true).await.err().unwrap();
    assert!(matches!(error, OpenError::Foreign { number: 1, .. }), "{error}");
}
