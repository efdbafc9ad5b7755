//! The PostgreSQL store from outside: its contract, its schema, its errors, a server that dies.

mod conformance;
mod server;
