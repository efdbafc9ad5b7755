//! Which stages an attempt runs.

use serde::{Deserialize, Serialize};

/// Stages `from` up to but not including `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first stage.
    pub from: u32,
    /// One beyond the last.
    pub to: u32,
}

/// How far a task has come in its pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Stages it has.
    pub stages: u32,
    /// Stages done from the first on (`lastCompletedStageIndex` + 1).
    pub completed: u32,
    /// The stage after those had started: what it did is unknown.
    pub started: bool,
}

/// Where a retry begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// At the stage after the last completed one.
    Checkpoint,
    /// At this stage, which may not lie beyond that one.
    Stage(u32),
    /// At the first stage, in a new pass.
    Start,
}

/// Why a retry cannot begin where it was asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stage {asked} lies beyond stage {latest}, the first that is not done")]
pub struct Beyond {
    /// The stage asked for.
    pub asked: u32,
    /// The latest it may begin at.
    pub latest: u32,
}

impl Range {
    /// How many stages.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.to.saturating_sub(self.from)
    }

    /// Whether there is nothing to run.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The first run: `[0, n)`.
    #[must_use]
    pub const fn first(stages: u32) -> Range {
        Range { from: 0, to: stages }
    }

    /// A retry: `[last+1, n)`, `[i, n)` with i ≤ last+1, or `[0, n)`.
    pub fn retry(progress: Progress, from: From) -> Result<Range, Beyond> {
        let to = progress.stages;
        match from {
            From::Start => Ok(Range { from: 0, to }),
            From::Checkpoint => Ok(Range { from: progress.completed, to }),
            From::Stage(i) if i <= progress.completed => Ok(Range { from: i, to }),
            From::Stage(asked) => Err(Beyond { asked, latest: progress.completed }),
        }
    }

    /// A rollback: `[0, last+1)`, plus stage last+1 if it had started.
    #[must_use]
    pub const fn rollback(progress: Progress) -> Range {
        let extra = if progress.started && progress.completed < progress.stages { 1 } else { 0 };
        Range { from: 0, to: progress.completed + extra }
    }
}

#[cfg(test)]
mod tests;
