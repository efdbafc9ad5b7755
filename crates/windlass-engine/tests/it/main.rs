//! What the engine promises, seen from outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

mod conflict;
mod flaky;
mod operations;
mod people;
mod plans;
mod restart;
mod retrying;
mod rolling_back;
mod runs;
mod script;
mod stage;
mod sweeps;
mod world;
