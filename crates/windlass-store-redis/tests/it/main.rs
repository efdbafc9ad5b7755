//! Integration tests of the store on Redis.

#![expect(clippy::unwrap_used, reason = "tests")]

mod boundary;
mod conformance;
mod format;
mod layout;
mod opening;
mod outage;
mod server;
mod tls;
