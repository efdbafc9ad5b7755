//! Random sequences of calls.

use std::future::Future;

use crate::Harness;

/// Compares.
pub fn compare<H: Harness, F: Future<Output = H>>(_make: impl Fn() -> F) {}
