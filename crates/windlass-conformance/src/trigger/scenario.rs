//! The scenarios of triggers, by theme. Each is a function over a harness with a new store, panics where the contract is
//! broken, and is named in [`super::list`].

pub mod claim;
pub mod keep;
pub mod odd;
pub mod race;
pub mod read;
pub mod save;
pub mod settle;
pub mod wake;
