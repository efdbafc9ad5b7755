//! The scenarios of jobs, by theme. Each is a function over a harness with a new store, panics where the contract is
//! broken, and is named in [`super::list`].

pub mod claim;
pub mod end;
pub mod fair;
pub mod feed;
pub mod keep;
pub mod lease;
pub mod limit;
pub mod odd;
pub mod person;
pub mod race;
pub mod read;
pub mod submit;
