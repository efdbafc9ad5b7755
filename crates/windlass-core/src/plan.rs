//! Plans.

pub mod spec;
