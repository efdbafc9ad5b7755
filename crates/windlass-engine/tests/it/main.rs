//! The engine on real stores.

mod chance;
mod conflict;
mod flaky;
mod operations;
mod outage;
mod people;
mod plans;
mod restart;
mod retrying;
mod rolling_back;
mod runs;
mod script;
mod sweeps;
mod world;
