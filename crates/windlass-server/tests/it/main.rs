//! The server as others meet it: a real listener, real requests.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test panics when it fails")]

mod events;
mod golden;
mod hostile;
mod jobs;
mod plans;
mod repeats;
mod roles;
mod schemathesis;
mod triggers;
mod world;
