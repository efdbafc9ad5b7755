//! What people ask. A query reads and never decides.

pub mod inbox;
pub mod pulse;
pub mod tenant;
pub mod view;
pub mod why;
