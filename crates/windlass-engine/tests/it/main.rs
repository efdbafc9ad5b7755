//! What the engine promises, seen from outside.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and a campaign says what it came to"
)]

mod calls;
mod chance;
mod conflict;
mod flaky;
mod job;
mod late;
mod operations;
mod outage;
mod people;
mod plans;
mod restart;
mod retrying;
mod rolling_back;
mod runs;
mod script;
mod simulation;
mod stage;
mod sweeps;
mod trigger;
mod waiting;
mod world;
