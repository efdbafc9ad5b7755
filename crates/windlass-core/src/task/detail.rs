//! A task in a table: what people query by has a column of its own, the rest is one document.

use serde::{Deserialize, Serialize};

use super::{Attempt, Hold, Task};
use crate::failure::Failure;
use crate::json::{Json, given};

/// What a task is beside its columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "see Task")]
pub struct Detail {
    pub stages: u32,
    pub completed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Attempt>,
    pub pass: u32,
    pub retries: u32,
    pub taken_back: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub context: Option<Json>,
}

impl Task {
    /// The part of it that has no columns.
    #[must_use]
    pub fn detail(&self) -> Detail {
        let Task { stages, completed, stage, attempt, pass, retries, taken_back, hold, failure, context, .. } =
            self.clone();
        Detail { stages, completed, stage, attempt, pass, retries, taken_back, hold, failure, context }
    }
}
