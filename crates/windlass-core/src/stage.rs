//! Stages: the unit of work and of checkpointing. What a stage is told to do is data here; how it
//! is done belongs to the engine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{QueueName, SecretName, StageName};
use crate::json::{Json, given};
use crate::retry::Retry;

/// Stages in one task, at most.
pub const STAGES_MAX: usize = 100;
/// How long a stage may run unless it says otherwise.
pub const TIMEOUT_MS: u64 = 5 * 60 * 1000;
/// The context that stages hand on, at most.
pub const CONTEXT_BYTES_MAX: usize = 256 * 1024;

/// One stage of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// Unique within the task.
    pub name: StageName,
    /// What to do.
    pub action: Action,
    /// A template; when it renders to nothing or `false`, the stage is skipped and counts as completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// How long one run may take.
    pub timeout_ms: u64,
    /// How often, and how patiently, a failure is tried again before it counts.
    pub retry: Retry,
    /// What takes it back, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Action>,
}

/// What a stage does. Texts are templates, rendered when the stage starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// One request.
    Http(Http),
    /// Requests until the answer is the expected one.
    Poll(Poll),
    /// A program, without a shell.
    Exec(Exec),
    /// A pause.
    Sleep(Sleep),
    /// A person's decision.
    Approval(Approval),
    /// A job on a queue, and its result.
    Job(Job),
    /// A Rust function registered under a name.
    Handler(Handler),
}

impl Action {
    /// The kind's name, as plan files write it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Action::Http(_) => "http",
            Action::Poll(_) => "poll",
            Action::Exec(_) => "exec",
            Action::Sleep(_) => "sleep",
            Action::Approval(_) => "approval",
            Action::Job(_) => "job",
            Action::Handler(_) => "handler",
        }
    }
}

/// A text that may be a secret: the reference is stored, never what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Text {
    /// A template.
    Template(String),
    /// Looked up on the instance when the stage starts.
    Secret(SecretName),
}

/// One HTTP request; an answer outside `expect_status` (2xx unless given) is a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Http {
    /// GET, POST, PUT, PATCH, DELETE or HEAD.
    pub method: String,
    /// Where to.
    pub url: String,
    /// Sent beside `Idempotency-Key` and `Windlass-Fence`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Text>,
    /// A JSON body, its strings templates.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub json: Option<Json>,
    /// A text body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The statuses that are a success.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expect_status: Vec<u16>,
}

/// Asks every URL until all agree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Poll {
    /// One or many.
    pub urls: Vec<String>,
    /// Sent with each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Text>,
    /// What every answer must show.
    pub expect: Expect,
    /// The pause between two rounds.
    pub every_ms: u64,
    /// Rounds, at most.
    pub attempts: u32,
}

/// What an answer must show to count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// This status; any 2xx unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// At this JSON pointer …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// … this value.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub equals: Option<Json>,
}

/// A program and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exec {
    /// The program first.
    pub argv: Vec<String>,
    /// Set beside the `WINDLASS_…` variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Text>,
}

/// A pause that yields to pause and cancel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sleep {
    /// How long.
    pub for_ms: u64,
}

/// Waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Approval {
    /// What the person is asked.
    pub message: String,
}

/// Work for a worker in any language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// Where it waits.
    pub queue: QueueName,
    /// What the worker gets, its strings templates.
    pub payload: Json,
}

/// A Rust function of the program that embeds the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Handler {
    /// The name it was registered under.
    pub name: String,
    /// What it gets, its strings templates.
    pub args: Json,
}
