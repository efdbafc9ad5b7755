//! The embedded store from outside: its contract, what it promises when syncs fail, processes die and
//! files are damaged, and what its records look like.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "this is a test from end to end")]

mod audit;
mod checkpoint;
mod conformance;
mod crash;
mod damage;
mod format;
mod job;
mod lead;
mod probe;
mod sync;
mod trigger_format;
mod work;
