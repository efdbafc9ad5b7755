//! What a trigger does when it fires.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{PlanId, QueueName, SecretName, TaskId, TenantId};
use crate::job::{ATTEMPTS_MAX, Backoff, DURATION_MS_MAX};
use crate::json::Json;
use crate::known::Known;
use crate::port::Refusal;

/// The largest plan a trigger may carry, in bytes.
pub const PLAN_BYTES_MAX: usize = 1024 * 1024;
/// The longest URL and the longest header, in bytes.
pub const URL_BYTES_MAX: usize = 8 * 1024;
/// Headers of a call, at most.
pub const HEADERS_MAX: usize = 32;

static KNOWN: Known<Target> = Known::new();

/// Reads a target as a store has it: many triggers share few.
pub fn read(text: &str) -> Result<Target, serde_json::Error> {
    KNOWN.read(text)
}

/// What to do. The trigger's payload goes with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Submit a job; the payload is its payload.
    Job(JobTarget),
    /// Create and start a plan; the payload, if any, is nothing to it.
    Plan(Json),
    /// Carry out an operation on a plan, a task or a tenant.
    Operation(Operation),
    /// Call a URL; the payload is the body.
    Http(Call),
}

/// The job that is submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobTarget {
    /// Where it waits.
    pub queue: QueueName,
    /// Higher ones go first.
    #[serde(default)]
    pub priority: i8,
    /// How often it is tried.
    #[serde(default = "one")]
    pub max_attempts: u32,
    /// The pause between two attempts.
    #[serde(default)]
    pub backoff: Backoff,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// How often a job is tried unless it says so.
pub const ATTEMPTS_USUAL: u32 = 1;

fn one() -> u32 {
    ATTEMPTS_USUAL
}

/// An operation of people, carried out on time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Operation {
    /// What.
    #[serde(rename = "do")]
    pub verb: Verb,
    /// On what.
    pub on: Subject,
}

/// What an operation is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A plan.
    Plan(PlanId),
    /// A task.
    Task(TaskId),
    /// A tenant, or its latest task.
    Tenant(TenantId),
}

/// Operations that a trigger can carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// Plans.
    Start,
    /// Plans and tasks.
    Pause,
    /// Plans and tasks.
    Resume,
    /// Plans and tasks.
    Cancel,
    /// Tasks.
    Retry,
    /// Tasks.
    Rollback,
    /// Tasks.
    Approve,
    /// Tasks.
    Reject,
    /// Tasks.
    SkipStage,
    /// Tenants.
    Freeze,
    /// Tenants.
    Unfreeze,
}

impl Verb {
    /// Whether it makes sense on this.
    #[must_use]
    pub fn fits(self, on: &Subject) -> bool {
        match self {
            Verb::Start => matches!(on, Subject::Plan(_)),
            Verb::Pause | Verb::Resume | Verb::Cancel => true,
            Verb::Retry | Verb::Rollback | Verb::Approve | Verb::Reject | Verb::SkipStage => {
                !matches!(on, Subject::Plan(_))
            }
            Verb::Freeze | Verb::Unfreeze => matches!(on, Subject::Tenant(_)),
        }
    }
}

/// A call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Call {
    /// How.
    #[serde(default = "post")]
    pub method: String,
    /// Where.
    pub url: String,
    /// With these headers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Header>,
    /// How long it may take.
    #[serde(default = "half_a_minute")]
    pub timeout_ms: u64,
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Header {
    /// This.
    Text(String),
    /// A secret: `{"secret": "NAME"}`.
    Secret(Secret),
}

/// A secret of the instance that fires, looked up then: the reference is stored, never what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secret {
    /// Its name.
    pub secret: SecretName,
}

fn post() -> String {
    "POST".into()
}

fn half_a_minute() -> u64 {
    30_000
}

impl Target {
    /// Whether it is within its bounds.
    pub fn check(&self) -> Result<(), Refusal> {
        let no = |why: String| Err(Refusal::Invalid(why));
        match self {
            Target::Job(job) if job.max_attempts == 0 || job.max_attempts > ATTEMPTS_MAX => {
                no(format!("target/job/maxAttempts is {}; 1 to {ATTEMPTS_MAX} are allowed", job.max_attempts))
            }
            Target::Job(job) if job.timeout_ms == Some(0) || job.timeout_ms > Some(DURATION_MS_MAX) => {
                no(format!("target/job/timeoutMs must be 1 to {DURATION_MS_MAX}, or left out"))
            }
            Target::Plan(plan) if plan.as_str().len() > PLAN_BYTES_MAX => {
                no(format!("target/plan is {} bytes; at most {PLAN_BYTES_MAX} are allowed", plan.as_str().len()))
            }
            Target::Operation(operation) if !operation.verb.fits(&operation.on) => {
                no(format!("target/operation: {:?} cannot be done to {:?}", operation.verb, operation.on))
            }
            Target::Http(call) => call.check(),
            _ => Ok(()),
        }
    }
}

impl Call {
    fn check(&self) -> Result<(), Refusal> {
        let no = |why: &str| Err(Refusal::Invalid(format!("target/http/{why}")));
        if !(self.url.starts_with("http://") || self.url.starts_with("https://")) || self.url.len() > URL_BYTES_MAX {
            return no("url must begin with http:// or https:// and have at most 8 KiB");
        }
        if !matches!(self.method.as_str(), "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE") {
            return no("method must be GET, HEAD, POST, PUT, PATCH or DELETE");
        }
        let length = |value: &Header| match value {
            Header::Text(text) => text.len(),
            Header::Secret(_) => 0,
        };
        let long = |(name, value): (&String, &Header)| name.len() + length(value) > URL_BYTES_MAX;
        if self.headers.len() > HEADERS_MAX || self.headers.iter().any(long) {
            return no("headers must be at most 32, of 8 KiB each");
        }
        match self.timeout_ms {
            1..=3_600_000 => Ok(()),
            _ => no("timeoutMs must be 1 to 3600000"),
        }
    }
}
