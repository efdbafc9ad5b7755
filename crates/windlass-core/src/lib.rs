//! The rules of Windlass as pure functions, its events, and the ports its stores implement.
//! Nothing here does I/O, reads a clock or knows a runtime: time, randomness and state are handed
//! in, decisions are handed back.

pub mod by;
pub mod checkpoint;
pub mod event;
pub mod failure;
pub mod fence;
pub mod id;
pub mod job;
pub mod json;
pub mod known;
pub mod lock;
pub mod plan;
pub mod port;
pub mod projection;
pub mod refused;
pub mod retry;
pub mod stage;
pub mod step;
pub mod task;
pub mod time;
pub mod trigger;

#[cfg(test)]
mod fixture;
