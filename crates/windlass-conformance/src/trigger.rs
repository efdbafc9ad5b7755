//! The contract of the port for triggers, made as that of state and locks is: [`scenario`] holds what every store must
//! do, [`list`] names each of it once and gives a store its tests ([`trigger_suite!`](crate::trigger_suite)), and
//! [`random`] compares a store with the plain [`model`].

pub mod harness;
pub mod list;
pub mod model;
pub mod random;
pub mod scenario;
pub mod world;

pub use harness::TriggerHarness;
