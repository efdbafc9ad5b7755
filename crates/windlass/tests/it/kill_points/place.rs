//! Where processes die: in a folder, or in a schema of a PostgreSQL server. A schema serves one story after the other, because
//! making one takes longer than most of them.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::Client;

use super::Store;
use crate::server;

/// One thread's.
pub(super) struct Place {
    pub(super) runtime: Runtime,
    schema: Option<Schema>,
}

struct Schema {
    url: String,
    /// Under which every connection of a story is known to the server.
    name: String,
    client: Client,
}

/// Everything but what the migrations put there.
const SWEEP: &str = "DO $$ DECLARE t text; BEGIN
    FOR t IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema()
        AND tablename NOT IN ('fence_counter', 'change_mark', 'windlass_migration')
    LOOP EXECUTE format('DELETE FROM %I', t); END LOOP;
END $$";

impl Place {
    pub(super) fn new(store: Store) -> Place {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let schema = (store == Store::Postgres).then(|| {
            runtime.block_on(async {
                let url = server::schema().await.url;
                let name = url.rsplit("%3D").next().unwrap().to_owned();
                let client = server::client(&url).await;
                Schema { url: format!("{url}&application_name={name}"), name, client }
            })
        });
        Place { runtime, schema }
    }

    /// The URL of an empty store.
    pub(super) fn fresh(&self, folder: &Path) -> String {
        let Some(schema) = &self.schema else { return format!("embedded:{}", folder.join("store").display()) };
        self.until_alone();
        self.runtime.block_on(schema.client.batch_execute(SWEEP)).unwrap();
        schema.url.clone()
    }

    /// Waits until the server has let go of the dead: what they had sent is carried out all the same.
    pub(super) fn until_alone(&self) {
        let Some(Schema { client, name, .. }) = &self.schema else { return };
        let others = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1";
        self.runtime.block_on(async {
            while !client.query(others, &[name]).await.unwrap().is_empty() {
                // sleep: the server tells nobody.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }
}
