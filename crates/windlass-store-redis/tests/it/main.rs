//! Integration tests of the store on Redis.

#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod format;
mod held;
mod layout;
mod onward;
mod opening;
mod outage;
mod row;
mod server;
mod straight;
mod tls;
