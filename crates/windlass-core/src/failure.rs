//! What went wrong in a stage.

use serde::{Deserialize, Serialize};

use crate::id::StageName;
use crate::time::Ms;

/// A message is cut here, at a character boundary.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// A stage's failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// What sort.
    pub kind: FailureKind,
    /// For people; at most [`MESSAGE_BYTES_MAX`].
    pub message: String,
    /// Where.
    pub stage: StageName,
    /// In which attempt.
    pub attempt: u32,
    /// When.
    pub at: Ms,
}

/// What sort of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FailureKind {
    /// The stage ran and said no.
    Stage,
    /// It took longer than it may.
    Timeout,
    /// A template could not be rendered.
    Template,
    /// A person rejected it.
    Rejected,
    /// State could not be kept.
    Persistence,
    /// Its instance was lost while it ran.
    Interrupted,
}

impl Failure {
    /// Cuts the message to what is kept.
    #[must_use]
    pub fn new(kind: FailureKind, message: &str, stage: StageName, attempt: u32, at: Ms) -> Failure {
        let message = message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)].to_owned();
        Failure { kind, message, stage, attempt, at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let message = "ü".repeat(MESSAGE_BYTES_MAX);
        let failure = Failure::new(FailureKind::Stage, &message, "s".parse().unwrap(), 1, Ms::ZERO);
        assert_eq!(failure.message.len(), MESSAGE_BYTES_MAX);
    }
}
