//! The engine on a store in memory: what runs, in which order, and what is left to people.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

mod chance;
mod conflict;
mod flaky;
mod operations;
mod outage;
mod people;
mod plans;
mod restart;
mod retrying;
mod rolling_back;
mod runs;
mod script;
mod sweeps;
mod world;
