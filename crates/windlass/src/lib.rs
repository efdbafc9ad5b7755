//! Windlass as a library: the rules and ports of `windlass-core`, and the stores behind one URL.

pub mod bench;
pub mod cli;
pub mod open;
pub mod settings;

pub use windlass_core as core;
