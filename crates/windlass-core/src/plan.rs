//! Plans.

pub mod file;
pub mod spec;
