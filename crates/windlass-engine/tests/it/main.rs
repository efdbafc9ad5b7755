//! What the engine promises, seen from outside.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

mod runs;
mod stage;
mod world;
