//! The scenarios of jobs, by theme. Each is a function over a harness with a new store, panics where the contract is
//! broken, and is named in [`super::list`].

pub mod submit;
