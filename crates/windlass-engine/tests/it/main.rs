//! The engine on real stores.

mod runs;
mod world;
