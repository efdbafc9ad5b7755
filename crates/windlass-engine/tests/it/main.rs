//! The engine on real stores.

mod runs;
mod simulation;
mod world;
