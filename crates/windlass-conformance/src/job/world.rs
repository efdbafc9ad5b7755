//! What scenarios of jobs are told with: a client that holds every answer it gets to what must hold of every stored
//! job, new jobs, and turns.

/// A lease that no scenario outlasts …
pub const LEASE_MS: u64 = 60_000;
/// … and how far ahead a client's clock runs that sees every such lease run out.
pub const LATER_MS: u64 = 600_000;
