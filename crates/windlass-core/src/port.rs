//! The ports: what a store promises. Few methods, cut where transactions end, batch-shaped where it
//! is hot. Every store passes the same contract (`windlass-conformance`).

pub mod batches;
pub mod error;
pub mod job;
pub mod lock;
pub mod page;
pub mod state;
pub mod trigger;

use serde::{Deserialize, Serialize};

pub use batches::Batches;
pub use error::{PortError, Refusal};

/// An answer per item, in order. The outer error is the whole call; [`PortError::Unavailable`]
/// means that its effect is unknown.
pub type Each<T> = Result<Vec<Result<T, Refusal>>, PortError>;

/// How far somebody has seen a port's changes. Only compares with marks of the same port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Mark(pub u64);

/// Where a list goes on. What it holds is the store's business; a store refuses what it did not make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<Cursor>,
}

/// Items in one page, at most.
pub const PAGE_MAX: u32 = 1_000;
/// Items in one call of a batch-shaped method, at most.
pub const BATCH_MAX: usize = 10_000;
/// The longest wait for a change.
pub const WAIT_MS_MAX: u64 = 60_000;
