//! The HTTP API: requests become commands and queries of the engine, outcomes become answers. Every route is one row
//! of the table in [`router`]; there is nothing here that decides.

mod api;
pub mod auth;
mod call;
pub mod metrics;
mod openapi;
mod options;
mod page;
mod patient;
mod problem;
pub mod router;
mod schema;
mod server;
mod view;

pub use options::Limits;
pub use server::{ServeError, Server, Setup};
