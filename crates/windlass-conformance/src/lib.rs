//! The contract of the ports. [`scenario`] holds what every store must do, by theme; [`list`] names
//! each of it once and gives a store its tests ([`suite!`]); [`random`] compares a store with the
//! plain in-memory [`model`], call by call. It knows the ports and no store.
#![expect(clippy::expect_used, clippy::panic, reason = "a contract is a test: it panics when it is broken")]

pub mod certificates;
pub mod harness;
pub mod job;
pub mod list;
pub mod model;
pub mod outage;
pub mod random;
pub mod sample;
pub mod scenario;
pub mod trigger;
pub mod world;

pub use harness::{Harness, Ports};
