//! Where processes die: in a folder, in a schema of a PostgreSQL server, or in a database of a MySQL one. A schema serves one story
//! after the other, because making one takes longer than most of them.

use std::path::Path;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use super::Store;
use crate::{mysql_server, server};

/// One thread's.
pub(super) struct Place {
    pub(super) runtime: Runtime,
    ground: Ground,
}

enum Ground {
    Folder,
    Schema(Schema),
    Database(Database),
}

struct Schema {
    url: String,
    /// Under which every connection of a story is known to the server.
    name: String,
    client: Client,
}

struct Database {
    made: mysql_server::Database,
    /// Connected to another database, so that whoever is connected to this one is of a story.
    client: Mutex<Conn>,
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
        let ground = match store {
            Store::Embedded => Ground::Folder,
            Store::Postgres => Ground::Schema(runtime.block_on(Schema::make())),
            Store::MySql => Ground::Database(runtime.block_on(Database::make())),
        };
        Place { runtime, ground }
    }

    /// The URL of an empty store.
    pub(super) fn fresh(&self, folder: &Path) -> String {
        self.until_alone();
        match &self.ground {
            Ground::Folder => format!("embedded:{}", folder.join("store").display()),
            Ground::Schema(schema) => {
                self.runtime.block_on(schema.client.batch_execute(SWEEP)).unwrap();
                schema.url.clone()
            }
            Ground::Database(database) => {
                self.runtime.block_on(database.sweep());
                database.made.url.clone()
            }
        }
    }

    /// Waits until the server has let go of the dead: what they had sent is carried out all the same.
    pub(super) fn until_alone(&self) {
        self.runtime.block_on(async {
            while match &self.ground {
                Ground::Folder => false,
                Ground::Schema(schema) => schema.is_used().await,
                Ground::Database(database) => database.is_used().await,
            } {
                // sleep: the server tells nobody.
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }
}

impl Schema {
    async fn make() -> Schema {
        let url = server::schema().await.url;
        let name = url.rsplit("%3D").next().unwrap().to_owned();
        let client = server::client(&url).await;
        Schema { url: format!("{url}&application_name={name}"), name, client }
    }

    async fn is_used(&self) -> bool {
        let others = "SELECT 1 FROM pg_stat_activity WHERE application_name = $1";
        !self.client.query(others, &[&self.name]).await.unwrap().is_empty()
    }
}

impl Database {
    async fn make() -> Database {
        let made = mysql_server::database().await;
        let client = mysql_server::client(&format!("{}/mysql", mysql_server::url())).await;
        Database { made, client: Mutex::new(client) }
    }

    async fn is_used(&self) -> bool {
        let others = format!("SELECT id FROM information_schema.processlist WHERE db = '{}'", self.made.name);
        self.client.lock().await.query_first::<u64, _>(others).await.unwrap().is_some()
    }

    async fn sweep(&self) {
        let mut client = self.client.lock().await;
        let tables = format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' \
             AND table_name NOT IN ('fence_counter', 'change_mark', 'scheduler_life', 'windlass_migration')",
            self.made.name
        );
        for table in client.query::<String, _>(tables).await.unwrap() {
            client.query_drop(format!("DELETE FROM {}.{table}", self.made.name)).await.unwrap();
        }
    }
}
