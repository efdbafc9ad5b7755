//! The rules of Windlass as pure functions, its events, and the ports its stores implement.
//! Nothing here does I/O, reads a clock or knows a runtime: time, randomness and state are handed
//! in, decisions are handed back.

pub mod id;
pub mod json;
pub mod plan;
pub mod retry;
pub mod stage;
pub mod time;
