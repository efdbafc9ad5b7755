//! The PostgreSQL store from outside: its contract, its schema, its errors, a server that dies.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

mod conformance;
mod errors;
mod fence;
mod indexes;
mod jobs;
mod layout;
mod outage;
mod schema;
mod server;
mod take;
mod tls;
mod together;
mod wake;
