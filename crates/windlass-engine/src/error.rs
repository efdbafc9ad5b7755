//! How the engine says no.

use windlass_core::port::{PortError, Refusal};
use windlass_core::projection::Misfit;
use windlass_core::refused::Refused;

/// Why a command or a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The rules do not allow it; says what could be done instead.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The store does not allow it.
    #[error(transparent)]
    Store(#[from] Refusal),
    /// The store does not answer, or cannot be read.
    #[error(transparent)]
    Port(#[from] PortError),
    /// What was asked for is not what this instance can carry out.
    #[error("WL-5101 {0}")]
    Invalid(String),
    /// Somebody else changed the same thing again and again.
    #[error("WL-5102 others keep changing it; try again")]
    Contended,
    /// A tenant is locked, and the plan says to refuse then.
    #[error("WL-5103 the plan does not start: {}", .0.join("; "))]
    Conflict(Vec<String>),
    /// The rules contradict what is stored.
    #[error("WL-5104 {0}")]
    Misfit(#[from] Misfit),
    /// The engine is stopping.
    #[error("WL-5105 this instance is stopping")]
    Stopping,
}
