//! The embedded store from outside: its contract, its durability, its files.

mod conformance;
