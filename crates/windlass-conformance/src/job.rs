//! The contract of the port for jobs, made as that of state and locks is: [`scenario`] holds what every store must
//! do, [`list`] names each of it once and gives a store its tests ([`job_suite!`](crate::job_suite)), and [`random`]
//! compares a store with the plain in-memory [`model`].

pub mod harness;
pub mod list;
pub mod model;
pub mod random;
pub mod scenario;
pub mod world;

pub use harness::JobHarness;
