//! The schema: what the migrations make is what `schema.sql` says, once and for everybody.

use windlass_core::id::{JobId, QueueName};
use windlass_core::job::NewJob;
use windlass_core::lock::Acquire;
use windlass_core::port::job::{Jobs, Turn};
use windlass_core::port::lock::Locks;
use windlass_store_postgres::{OpenError, Options, Postgres};

use crate::server::{Schema, client, execute, schema};

const GOLDEN: &str = include_str!("../../schema.sql");

/// Everything in the first schema of the search path, as lines that compare.
const DESCRIBE: &str = "
    SELECT format('%s.%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attnotnull THEN 'NOT NULL' END, pg_get_expr(d.adbin, d.adrelid), l.collname) AS line
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    LEFT JOIN pg_collation l ON l.oid = a.attcollation AND l.collname <> 'default'
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    UNION ALL SELECT format('%s %s', c.relname, c.reloptions)
    FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    UNION ALL SELECT replace(pg_get_indexdef(i.indexrelid), current_schema() || '.', '')
    FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace = current_schema()::regnamespace
    UNION ALL SELECT format('%s %s', conrelid::regclass, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE connamespace = current_schema()::regnamespace AND conrelid <> 0
    UNION ALL SELECT replace(pg_get_functiondef(oid), current_schema() || '.', '')
    FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
    ORDER BY line";

async fn described(schema: &Schema) -> Vec<String> {
    let rows = client(&schema.url).await.query(DESCRIBE, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn opened(schema: &Schema, migrate: bool) -> Result<Postgres, OpenError> {
    Postgres::open(&schema.url, &Options { migrate, ..Options::default() }).await
}

/// Another file than the migrations, so that a change of the schema is seen as one. To write it anew:
/// `pg_dump --schema-only --no-owner` of a migrated schema, without its name.
#[tokio::test]
async fn the_schema_after_all_migrations_is_the_golden_one() {
    let (migrated, golden) = (schema().await, schema().await);
    drop(opened(&migrated, true).await.unwrap());
    execute(&golden.url, GOLDEN).await;
    let (migrated, golden) = (described(&migrated).await, described(&golden).await);
    assert!(migrated.len() > 100, "only {} lines", migrated.len());
    let missing: Vec<_> = migrated.iter().filter(|line| !golden.contains(line)).collect();
    let surplus: Vec<_> = golden.iter().filter(|line| !migrated.contains(line)).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "schema.sql lacks {missing:#?}\nand has too much {surplus:#?}");
}

#[tokio::test]
async fn migrating_again_and_at_the_same_time_changes_nothing() {
    let schema = schema().await;
    let together = tokio::join!(opened(&schema, true), opened(&schema, true), opened(&schema, true));
    assert!(together.0.is_ok() && together.1.is_ok() && together.2.is_ok());
    let before = described(&schema).await;
    opened(&schema, true).await.unwrap();
    opened(&schema, false).await.unwrap();
    assert_eq!(described(&schema).await, before);
    let client = client(&schema.url).await;
    let applied = client.query("SELECT number FROM windlass_migration WHERE checksum <> ''", &[]).await.unwrap();
    assert_eq!(applied.len(), 3, "each is remembered once");
}

#[tokio::test]
async fn a_schema_that_is_behind_or_foreign_is_refused() {
    let schema = schema().await;
    let error = opened(&schema, false).await.err().unwrap();
    assert!(matches!(error, OpenError::NotMigrated { number: 1, .. }), "{error}");
    assert!(described(&schema).await.is_empty(), "nothing was made");
    opened(&schema, true).await.unwrap();
    execute(&schema.url, "UPDATE windlass_migration SET checksum = 'edited'").await;
    for migrate in [true, false] {
        let error = opened(&schema, migrate).await.err().unwrap();
        assert!(matches!(error, OpenError::Foreign { number: 1, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing() {
    let schema = schema().await;
    execute(&schema.url, "CREATE TABLE task_checkpoint (mine integer)").await;
    let before = described(&schema).await;
    let error = opened(&schema, true).await.err().unwrap();
    assert!(matches!(error, OpenError::Migration { number: 1, .. }), "{error}");
    assert_eq!(described(&schema).await, before);
}

/// As the version before left it: the first migration, and what it says of itself.
#[tokio::test]
async fn a_schema_of_the_version_before_is_brought_up_to_date_with_what_is_in_it() {
    let first = include_str!("../../migrations/0001_state_and_locks.sql");
    let schema = schema().await;
    let table = "CREATE TABLE windlass_migration (number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, \
         applied_at timestamptz(3) NOT NULL)";
    let drawn: u64 = 8_000_000_000_000_000;
    execute(
        &schema.url,
        &format!(
            "{table}; {first}; INSERT INTO windlass_migration VALUES (1, 'state_and_locks', '{:08x}', now()); \
             UPDATE fence_counter SET last = {drawn}; \
             INSERT INTO tenant_lock VALUES ('acme', 'p', 't', {drawn}, now(), now() + interval '1 day')",
            crc32fast::hash(first.as_bytes())
        ),
    )
    .await;
    let store = opened(&schema, true).await.unwrap();
    let held = Locks::load(&store, &["acme".parse().unwrap()]).await.unwrap().remove(0).holder.unwrap();
    assert_eq!(held.fence.0, drawn, "what was there is there");
    let want = Acquire {
        tenant: "other".parse().unwrap(),
        plan: "p".parse().unwrap(),
        task: "t2".parse().unwrap(),
        ttl_ms: 1_000_000,
    };
    let next = store.acquire(&[want]).await.unwrap().remove(0).unwrap().fence;
    assert!(next > held.fence, "the counter goes on: {next}");
    let queue: QueueName = "work".parse().unwrap();
    let job = NewJob::new(JobId::random(1), queue.clone(), None);
    store.submit(&[vec![job]]).await.unwrap().remove(0).unwrap();
    let turn = Turn {
        worker: "w".parse().unwrap(),
        lease_ms: 1_000,
        settle: Vec::new(),
        beat: Vec::new(),
        want: vec![(queue, 1)],
    };
    assert!(store.turn(&[turn]).await.unwrap()[0].claimed[0].fence > next, "for jobs as for locks");
}
