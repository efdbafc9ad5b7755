//! Checkpoints: what a task has finished, as one small readable document, and whether work may
//! resume from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::fence::Fence;
use crate::id::{InstanceId, StageName};
use crate::json::Json;
use crate::stage::CONTEXT_BYTES_MAX;
use crate::time::{Ms, rfc3339};

/// Failures kept in a checkpoint, the newest.
pub const FAILURES_MAX: usize = 20;

/// What a task has finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Checkpoint {
    /// −1: none.
    pub last_completed_stage_index: i32,
    /// Their names, in order.
    #[serde(alias = "completedStageNames")]
    pub completed_stages: Vec<StageName>,
    /// What stages returned, by name.
    #[serde(alias = "customData")]
    pub context_data: Json,
    /// When it was written.
    #[serde(alias = "timestamp", with = "rfc3339")]
    pub saved_at: Ms,
    /// Grows by one with every write; lives and ends with the document.
    #[serde(default)]
    pub version: u64,
    /// Who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor_instance: Option<InstanceId>,
    /// Under which fence.
    #[serde(default)]
    pub fence: Fence,
    /// In which pass.
    #[serde(default = "first_pass")]
    pub pass: u32,
    /// How long stages took, in milliseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub stage_durations: BTreeMap<StageName, u64>,
    /// What went wrong on the way, the newest [`FAILURES_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_history: Vec<Failure>,
}

fn first_pass() -> u32 {
    1
}

/// The rule that a checkpoint breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BrokenRule {
    /// −1 ≤ last < n.
    #[error("its last completed stage is {last}, but the task has {stages} stages")]
    Index {
        /// What it says.
        last: i32,
        /// What there are.
        stages: usize,
    },
    /// The number of names is last + 1.
    #[error("it names {names} completed stages, but its last completed stage is {last}")]
    Count {
        /// How many names.
        names: usize,
        /// What it says.
        last: i32,
    },
    /// The names are the first names of the stage list, in order.
    #[error("its completed stage {index} is {found}, but the task's stage {index} is {expected}")]
    Name {
        /// Where.
        index: usize,
        /// In the checkpoint.
        found: StageName,
        /// In the task.
        expected: StageName,
    },
    /// The retention of an ended task has not run out.
    #[error("it was kept until {until}")]
    Expired {
        /// When it ended.
        until: Ms,
    },
}

/// The context has outgrown its bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadContext {
    /// Too much.
    #[error("the context would be {0} bytes; at most {CONTEXT_BYTES_MAX} are allowed")]
    TooLarge(usize),
    /// Not what this program wrote.
    #[error("the context is not a JSON object")]
    NotAnObject,
}

impl Checkpoint {
    /// Of a task that has finished nothing.
    #[must_use]
    pub fn new(pass: u32, now: Ms) -> Checkpoint {
        Checkpoint {
            last_completed_stage_index: -1,
            completed_stages: Vec::new(),
            context_data: Json::of(&BTreeMap::<String, ()>::new()).unwrap_or_else(|_| Json::null()),
            saved_at: now,
            version: 0,
            executor_instance: None,
            fence: Fence::NONE,
            pass,
            stage_durations: BTreeMap::new(),
            failure_history: Vec::new(),
        }
    }

    /// How many stages are done: where work resumes.
    #[must_use]
    pub fn completed(&self) -> u32 {
        u32::try_from(self.last_completed_stage_index.saturating_add(1)).unwrap_or(0)
    }

    /// Whether work may resume from it: for these stages, now; `kept_until` is given for a task
    /// that has ended. Answers the stage to resume at.
    pub fn resume_point(&self, stages: &[StageName], kept_until: Option<Ms>, now: Ms) -> Result<u32, BrokenRule> {
        let last = self.last_completed_stage_index;
        if last < -1 || i64::from(last) >= stages.len() as i64 {
            return Err(BrokenRule::Index { last, stages: stages.len() });
        }
        if self.completed_stages.len() as i64 != i64::from(last) + 1 {
            return Err(BrokenRule::Count { names: self.completed_stages.len(), last });
        }
        for (index, (found, expected)) in self.completed_stages.iter().zip(stages).enumerate() {
            if found != expected {
                return Err(BrokenRule::Name { index, found: found.clone(), expected: expected.clone() });
            }
        }
        match kept_until {
            Some(until) if until <= now => Err(BrokenRule::Expired { until }),
            _ => Ok(self.completed()),
        }
    }

    /// The next stage is done and returned `output`.
    pub fn complete(&mut self, stage: &StageName, output: Option<&Json>, took_ms: u64) -> Result<(), BadContext> {
        if let Some(output) = output {
            self.context_data = with_output(&self.context_data, stage, output)?;
        }
        self.last_completed_stage_index += 1;
        self.completed_stages.push(stage.clone());
        self.stage_durations.insert(stage.clone(), took_ms);
        Ok(())
    }

    /// Back to where only `completed` stages are done: what a retry from a named stage does. What the
    /// others returned goes too: a stage is told what earlier stages returned, in its own pass.
    pub fn truncate(&mut self, completed: u32) {
        self.completed_stages.truncate(completed as usize);
        let kept = |name: &str| self.completed_stages.iter().any(|stage| stage.as_str() == name);
        let mut context: BTreeMap<String, Json> = self.context_data.to().unwrap_or_default();
        context.retain(|name, _| kept(name));
        self.stage_durations.retain(|stage, _| kept(stage.as_str()));
        self.context_data = Json::of(&context).unwrap_or_else(|_| Json::null());
        self.last_completed_stage_index = self.completed_stages.len() as i32 - 1;
    }

    /// Remembers a failure.
    pub fn remember(&mut self, failure: Failure) {
        self.failure_history.push(failure);
        let surplus = self.failure_history.len().saturating_sub(FAILURES_MAX);
        self.failure_history.drain(..surplus);
    }
}

/// `context` with `stage: output` put in, everything else as it was written.
fn with_output(context: &Json, stage: &StageName, output: &Json) -> Result<Json, BadContext> {
    let mut map: BTreeMap<String, Json> = context.to().map_err(|_| BadContext::NotAnObject)?;
    map.insert(stage.as_str().to_owned(), output.clone());
    let json = Json::of(&map).map_err(|_| BadContext::NotAnObject)?;
    match json.as_str().len() {
        bytes if bytes > CONTEXT_BYTES_MAX => Err(BadContext::TooLarge(bytes)),
        _ => Ok(json),
    }
}

#[cfg(test)]
mod tests;
