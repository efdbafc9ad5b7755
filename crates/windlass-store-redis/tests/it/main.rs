//! Integration tests of the store on Redis.

#![expect(clippy::unwrap_used, reason = "tests")]

mod onward;
mod conformance;
mod format;
mod layout;
mod opening;
mod outage;
mod server;
mod tls;
