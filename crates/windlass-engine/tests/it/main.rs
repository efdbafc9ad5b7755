//! The engine on real stores.

mod conflict;
mod flaky;
mod people;
mod retrying;
mod rolling_back;
mod runs;
mod script;
mod world;
