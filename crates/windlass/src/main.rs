//! The `windlass` executable.

fn main() {}
