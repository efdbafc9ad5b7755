//! The scenarios, by theme. Each is a function over a harness with a new store, panics where the
//! contract is broken, and is named in [`crate::list`].

pub mod compare;
pub mod fence;
pub mod lock;
pub mod odd;
pub mod paging;
pub mod race;
pub mod repeat;
pub mod restart;
pub mod retention;
pub mod wake;
pub mod work;
