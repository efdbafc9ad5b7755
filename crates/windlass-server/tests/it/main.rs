//! The server as others meet it: a real listener, real requests.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test panics when it fails")]

mod events;
#[expect(dead_code, reason = "the engine's own tests need more of it")]
#[path = "../../../windlass-engine/tests/it/flaky.rs"]
mod flaky;
mod golden;
mod hostile;
mod jobs;
mod measured;
mod plans;
mod repeats;
mod roles;
mod schemathesis;
mod slow;
mod triggers;
mod world;
