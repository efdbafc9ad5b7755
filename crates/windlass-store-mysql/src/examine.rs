//! A look at a server before anything is opened on it: is it one this program can work with? Nothing is changed.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;

use crate::error::{OpenError, said};
use crate::migrate;
use crate::target::Target;

/// Round trips that are timed.
const TRIPS: usize = 21;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// The server's version, as it says it.
    pub version: String,
    /// It is new enough.
    pub is_new_enough: bool,
    /// Whose rights apply.
    pub user: String,
    /// The database.
    pub database: String,
    /// Writes are refused: a replica, or set so.
    pub read_only: bool,
    /// `innodb_flush_log_at_trx_commit`: 1 means that what was committed is on the disk.
    pub flush_at_commit: u8,
    /// `sync_binlog`, where the server writes a binary log: 1 means that it too is on the disk.
    pub sync_binlog: Option<u64>,
    /// Bytes that one message to the server may have.
    pub max_allowed_packet: u64,
    /// Migrations that are still to be applied, by number and name.
    pub pending: Vec<(u32, &'static str)>,
    /// The middle one of some round trips.
    pub round_trip: Duration,
    /// The server's clock at the end of the last one, in milliseconds since 1970, to within half a round trip.
    pub clock_ms: i64,
}

/// Looks.
pub async fn examine(url: &str) -> Result<Examined, OpenError> {
    let target = Target::of(url)?;
    let mut conn = target.connect().await.map_err(OpenError::Refused)?;
    let refused = |error: mysql_async::Error| OpenError::Refused(said(&error));
    let ask = "SELECT VERSION(), CURRENT_USER(), @@global.read_only, @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, \
               @@global.sync_binlog, @@global.max_allowed_packet";
    type Found = (String, String, u8, u8, u8, u64, u64);
    let found: Option<Found> = conn.query_first(ask).await.map_err(refused)?;
    let nothing = || OpenError::Refused("the server does not say what it is".to_owned());
    let (version, user, read_only, flush_at_commit, log_bin, sync_binlog, max_allowed_packet) =
        found.ok_or_else(nothing)?;
    let pending = migrate::missing(&mut conn).await?;
    let mut trips = Vec::with_capacity(TRIPS);
    let mut clock_ms = 0;
    for _ in 0..TRIPS {
        let began = Instant::now();
        let time = "SELECT CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)";
        clock_ms = conn.query_first(time).await.map_err(refused)?.unwrap_or(0);
        trips.push(began.elapsed());
    }
    trips.sort_unstable();
    Ok(Examined {
        is_new_enough: migrate::is_new_enough(&version),
        version,
        user,
        database: target.database().to_owned(),
        read_only: read_only != 0,
        flush_at_commit,
        sync_binlog: (log_bin != 0).then_some(sync_binlog),
        max_allowed_packet,
        pending,
        round_trip: trips[TRIPS / 2],
        clock_ms,
    })
}
