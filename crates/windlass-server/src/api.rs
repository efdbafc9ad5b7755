//! Handlers, by feature. Each turns a request into a command or a query, and its outcome into an answer.

pub(crate) mod claim;
pub(crate) mod event;
pub(crate) mod inbox;
pub(crate) mod job;
pub(crate) mod meta;
pub(crate) mod plan;
pub(crate) mod queue;
mod scope;
pub(crate) mod task;
pub(crate) mod tenant;
pub(crate) mod trigger;
