//! Windlass as a library: [`Windlass::builder`] opens a store by its URL and starts an engine over it. The rules and
//! ports are in [`core`], what an instance can be asked in [`engine`].

pub mod bench;
mod builder;
pub mod cli;
pub mod client;
pub mod demo;
pub mod doctor;
#[cfg(feature = "fault")]
pub mod fault;
pub mod key;
pub mod open;
pub mod settings;
pub mod up;

pub use builder::{Builder, StartError, SubmitError, Windlass};
pub use windlass_core as core;
pub use windlass_engine as engine;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod library_guide {}

#[cfg(doctest)]
#[doc = include_str!("../../../docs/jobs.md")]
mod jobs_guide {}
