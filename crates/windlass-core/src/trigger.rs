//! Triggers: at these times, do that. The record is here; when it fires is [`schedule`], what may happen to it is
//! [`rules`], and what it does is [`target`].

pub mod rules;
pub mod schedule;
pub mod target;
pub mod world;

use serde::{Deserialize, Serialize};

use crate::fence::Fence;
use crate::id::{InstanceId, JobId, PlanId, TenantId, TriggerId};
use crate::job::{Asker, Backoff};
use crate::json::{Json, given};
use crate::port::Refusal;
use crate::time::Ms;
use schedule::{Misfire, Schedule};
use target::Target;

/// Notes kept beside a trigger, the newest.
pub const NOTES_MAX: usize = 100;
/// Retries that may be asked for, at most.
pub const RETRIES_MAX: u32 = 1_000;
/// The largest payload, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = crate::job::PAYLOAD_BYTES_MAX;
/// An error's text is cut here.
pub const ERROR_BYTES_MAX: usize = 4 * 1024;

/// Where a trigger stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TriggerStatus {
    /// Waits for its time.
    Pending,
    /// Its occurrence is being carried out.
    Processing,
    /// It has fired for the last time.
    Completed,
    /// Its occurrence failed as often as it may; a person may fire it again.
    Dead,
}

impl TriggerStatus {
    /// Every one.
    pub const ALL: [TriggerStatus; 4] =
        [TriggerStatus::Pending, TriggerStatus::Processing, TriggerStatus::Completed, TriggerStatus::Dead];

    /// Its name, as people and stores write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TriggerStatus::Pending => "PENDING",
            TriggerStatus::Processing => "PROCESSING",
            TriggerStatus::Completed => "COMPLETED",
            TriggerStatus::Dead => "DEAD",
        }
    }

    /// Nothing happens to it any more by itself.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, TriggerStatus::Completed | TriggerStatus::Dead)
    }
}

impl std::fmt::Display for TriggerStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What people say of a trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerSpec {
    /// When.
    pub schedule: Schedule,
    /// What.
    pub target: Target,
    /// With what.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// For whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// What to do with occurrences that nobody was there for.
    #[serde(default)]
    pub misfire: Misfire,
    /// Whether what fell due while no scheduler lived fires by itself.
    #[serde(default)]
    pub recovery: Recovery,
    /// Whether it fires while the plan of its last occurrence is still active.
    #[serde(default)]
    pub overlap: Overlap,
    /// How often an occurrence that failed is tried again.
    #[serde(default = "retries")]
    pub max_retries: u32,
    /// The pause between two tries.
    #[serde(default)]
    pub backoff: Backoff,
}

/// How often an occurrence is tried again unless its trigger says so.
pub const RETRIES_USUAL: u32 = 3;

fn retries() -> u32 {
    RETRIES_USUAL
}

/// What becomes of occurrences that fell due while no scheduler lived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// They are judged as misfires are.
    #[default]
    Auto,
    /// They wait for a person to fire or skip them.
    Held,
}

/// Whether plans of one trigger may run beside each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// They may.
    #[default]
    Allow,
    /// An occurrence is skipped while the last one's plan is active.
    Skip,
}

/// A trigger as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trigger {
    /// Which.
    pub id: TriggerId,
    /// An occurrence that left this trigger: it died, or a person added it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<TriggerId>,
    /// What people say of it.
    pub spec: TriggerSpec,
    /// When its specification was saved: delays and intervals count from there.
    pub saved_at: Ms,
    /// Nothing of it fires since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Asker>,
    /// Where it stands.
    pub run: Run,
    /// Grows with every write.
    pub version: u64,
}

/// Where a trigger stands: what its owner may write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Run {
    /// Where it stands.
    pub status: TriggerStatus,
    /// The occurrence: the one that comes, or the one that is carried out.
    pub trigger_at: Ms,
    /// When to try it, which is later than its time after a failure.
    pub try_at: Ms,
    /// Tries of this occurrence that failed, or were cut off.
    pub retry_count: u32,
    /// It fell due while no scheduler lived, and waits for a person.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub held: bool,
    /// A person fired it: it is carried out as it is, however late that is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// Who carries it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<InstanceId>,
    /// Until when they are believed to be alive.
    pub lease_until: Ms,
    /// Of its newest claim.
    pub fence: Fence,
    /// What went wrong last with this occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What its last occurrence made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Ms>,
}

impl Run {
    /// When the store must look at it next, if ever.
    #[must_use]
    pub fn wake_at(&self, paused: bool) -> Option<Ms> {
        match self.status {
            _ if paused || self.held => None,
            TriggerStatus::Pending => Some(self.try_at),
            TriggerStatus::Processing => Some(self.lease_until),
            TriggerStatus::Completed | TriggerStatus::Dead => None,
        }
    }
}

/// What an occurrence made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Made {
    /// A job.
    Job(JobId),
    /// A plan.
    Plan(PlanId),
    /// An operation was carried out: what it answered, for people.
    Operation(String),
    /// A URL answered with this status.
    Called(u16),
}

/// Something that happened to a trigger, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Note {
    /// When.
    pub at: Ms,
    /// To which occurrence.
    pub occurrence: Ms,
    /// What.
    pub what: Noted,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Noted {
    /// It fired.
    Fired(Made),
    /// It and others were missed.
    Missed {
        /// How many.
        count: u64,
        /// The newest of them.
        last: Ms,
    },
    /// It was left out.
    Skipped(String),
    /// It failed and will be tried again.
    Failed(String),
    /// It failed for the last time.
    Died(String),
    /// It waits for a person.
    Held,
    /// A person fired it.
    Added(Asker),
}

impl TriggerSpec {
    /// What holds whatever is stored. Every store asks this first.
    pub fn check(&self) -> Result<(), Refusal> {
        let bytes = self.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Refusal::Invalid(format!(
                "the payload is {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are allowed"
            )));
        }
        if self.max_retries > RETRIES_MAX {
            return Err(Refusal::Invalid(format!(
                "maxRetries is {}; at most {RETRIES_MAX} are allowed",
                self.max_retries
            )));
        }
        self.target.check()
    }
}

impl Trigger {
    /// When the store must look at it next: its time, or the end of its owner's lease.
    #[must_use]
    pub fn wake_at(&self) -> Option<Ms> {
        self.run.wake_at(self.paused.is_some())
    }

    /// Whose occurrences these are.
    #[must_use]
    pub fn origin(&self) -> &TriggerId {
        self.parent.as_ref().unwrap_or(&self.id)
    }

    /// The idempotency key of what an occurrence makes: the trigger and the time.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}@{}", self.origin(), self.run.trigger_at.get())
    }
}

#[cfg(test)]
mod tests;
