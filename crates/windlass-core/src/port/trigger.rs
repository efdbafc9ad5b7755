//! The port for triggers.

use async_trait::async_trait;

use super::{Cursor, Each, Mark, Page, PortError};
use crate::fence::Fence;
use crate::id::{InstanceId, TenantId, TriggerId};
use crate::job::DURATION_MS_MAX;
use crate::time::Ms;
use crate::trigger::rules::Outcome;
use crate::trigger::{Note, Trigger, TriggerStatus};

/// Triggers that one call claims, at most.
pub const CLAIM_MAX: u32 = 1_000;

/// What holds of every claim and renewal: a lease of some length, of at most as many as may be claimed. Every store asks
/// this first.
pub fn check_lease(lease_ms: u64, limit: u32) -> Result<(), PortError> {
    if lease_ms == 0 || lease_ms > DURATION_MS_MAX {
        return Err(PortError::Invalid(format!("a lease of {lease_ms} ms; 1 to {DURATION_MS_MAX} are allowed")));
    }
    check_due(limit)
}

/// How many due triggers may be asked for.
pub fn check_due(limit: u32) -> Result<(), PortError> {
    match limit {
        0..=CLAIM_MAX => Ok(()),
        _ => Err(PortError::Invalid(format!("{limit} due triggers in one call; at most {CLAIM_MAX} are allowed"))),
    }
}

/// A trigger written by a person: judged by [`save`](crate::trigger::rules::save).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Save {
    /// The trigger, with the version it was read at; 0: it must not exist.
    pub trigger: Trigger,
    /// What to tell people.
    pub notes: Vec<Note>,
}

/// An occurrence that somebody owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Of which trigger.
    pub trigger: TriggerId,
    /// Under which fence.
    pub fence: Fence,
}

/// What is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// Claimed, by the time at which each was to be looked at, then by id.
    pub claimed: Vec<Trigger>,
    /// When the next one that was not claimed is to be looked at; it may have passed.
    pub next: Option<Ms>,
    /// Since when there has been a scheduler, by every claim so far, without a gap between one's lease and the next
    /// one's claim.
    pub alive_since: Ms,
    /// When, by the store's clock.
    pub at: Ms,
}

/// What to list, by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TriggerFilter {
    /// Of this tenant.
    pub tenant: Option<TenantId>,
    /// Standing here; empty means anywhere.
    pub statuses: Vec<TriggerStatus>,
    /// Only those that wait for a person: held and DEAD.
    pub waiting: bool,
}

/// Triggers. Due times and leases are judged by the store's clock; fences come from the store's one counter. The cost of
/// a claim grows with what is due, not with what is stored.
#[async_trait]
pub trait Triggers: Send + Sync {
    /// Writes triggers, each whole or not at all; answers their versions. The same notes are kept as with
    /// [`Triggers::settle`].
    async fn save(&self, saves: &[Save]) -> Each<u64>;

    /// Removes triggers with their notes, whoever carries them out; `false` for one that is not there.
    async fn remove(&self, triggers: &[TriggerId]) -> Result<Vec<bool>, PortError>;

    /// Claims up to `limit` triggers whose [`wake_at`](Trigger::wake_at) has come, in its order, by
    /// [`claim`](crate::trigger::rules::claim): each goes to one caller. What was claimed when the answer is lost is
    /// due again when the lease has run out. A `limit` of 0 only says that a scheduler is there.
    async fn claim_due(&self, owner: &InstanceId, lease_ms: u64, limit: u32) -> Result<Due, PortError>;

    /// Writes what claimed occurrences came to by [`settle`](crate::trigger::rules::settle), each with its child and notes
    /// whole or not at all; `paused` and what people say stay. Refused: Stale, NotFound. A child that is there already stays as
    /// it is. A repeat after a lost answer changes nothing and is answered as before.
    async fn settle(&self, settles: &[(Claim, Outcome)]) -> Each<()>;

    /// Prolongs claims to `lease_ms` from now; answers until when. Refused: as above, and State once it is settled.
    async fn renew(&self, claims: &[Claim], lease_ms: u64) -> Each<Ms>;

    /// Reads.
    async fn load(&self, triggers: &[TriggerId]) -> Result<Vec<Option<Trigger>>, PortError>;

    /// A trigger's newest notes, the oldest first.
    async fn notes(&self, trigger: &TriggerId) -> Result<Vec<Note>, PortError>;

    /// A page of a list. A trigger that is there from the first page to the last is listed exactly once. Pages may be short
    /// before the end: `next` says whether there is more.
    async fn list(
        &self,
        filter: &TriggerFilter,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<Trigger>, PortError>;

    /// What would be claimed up to `upto`, in order, without claiming it.
    async fn find_due(&self, upto: Ms, limit: u32) -> Result<Vec<Trigger>, PortError>;

    /// Waits until something was saved after `since` that may be due earlier than what was known, at most `wait_ms`;
    /// answers how far things are.
    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError>;

    /// Forgets at most `limit` triggers that ended before `before`, with their notes; answers how many. DEAD ones wait for a
    /// person and stay.
    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError>;
}
