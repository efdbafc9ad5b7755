//! A look at a server before anything is opened on it: is it one this program can work with? Nothing is changed.

use std::time::{Duration, Instant};

use crate::error::{OpenError, said};
use crate::migrate;
use crate::pool::connect;

/// Round trips that are timed.
const TRIPS: usize = 21;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// The server's version, as it says it.
    pub version: String,
    /// The same as a number: 150004 is 15.4.
    pub version_number: i32,
    /// Whose rights apply.
    pub user: String,
    /// Where tables are looked for; none if the search path names no schema that exists.
    pub schema: Option<String>,
    /// Tables may be made there.
    pub may_create: bool,
    /// Writes are refused: a standby, or set so.
    pub read_only: bool,
    /// `fsync`, `full_page_writes` and `synchronous_commit`, as they are set for this connection.
    pub durability: [String; 3],
    /// Migrations that are still to be applied, by number and name.
    pub pending: Vec<(i32, &'static str)>,
    /// The middle one of some round trips.
    pub round_trip: Duration,
    /// The server's clock at the end of the last one, in milliseconds since 1970, to within half a round trip.
    pub clock_ms: i64,
}

/// Looks.
pub async fn examine(url: &str) -> Result<Examined, OpenError> {
    let connection = connect(&crate::target(url)?).await.map_err(OpenError::Refused)?;
    let client = connection.client();
    let refused = |error: tokio_postgres::Error| OpenError::Refused(said(&error));
    let row = client
        .query_one(
            "SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_user::text, \
             current_schema()::text, coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), \
             pg_is_in_recovery() OR current_setting('transaction_read_only')::bool, current_setting('fsync'), \
             current_setting('full_page_writes'), current_setting('synchronous_commit')",
            &[],
        )
        .await
        .map_err(refused)?;
    let pending = migrate::missing(client).await?;
    let mut trips = Vec::with_capacity(TRIPS);
    let mut clock_ms: i64 = 0;
    for _ in 0..TRIPS {
        let began = Instant::now();
        let time = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        clock_ms = client.query_one(time, &[]).await.map_err(refused)?.get(0);
        trips.push(began.elapsed());
    }
    trips.sort_unstable();
    Ok(Examined {
        version: row.get(0),
        version_number: row.get(1),
        user: row.get(2),
        schema: row.get(3),
        may_create: row.get(4),
        read_only: row.get(5),
        durability: [row.get(6), row.get(7), row.get(8)],
        pending,
        round_trip: trips[TRIPS / 2],
        clock_ms,
    })
}
