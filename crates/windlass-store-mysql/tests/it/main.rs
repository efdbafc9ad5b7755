//! Integration tests of the store on MySQL and MariaDB.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod beside;
mod conformance;
mod errors;
mod feed;
mod layout;
mod onward;
mod outage;
mod schema;
mod server;
mod session;
mod take;
mod tls;
