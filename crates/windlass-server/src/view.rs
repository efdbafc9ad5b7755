//! Answers: what the core and the engine have, as people outside read it. Times are RFC 3339, and what only a store
//! needs is left out.

pub(crate) mod event;
pub(crate) mod job;
pub(crate) mod lock;
pub(crate) mod plan;
pub(crate) mod task;
pub(crate) mod trigger;
