//! The rules of the tenant lock: who gets it, who keeps it, who may give it back.

use serde::{Deserialize, Serialize};

use crate::by::{By, Reason};
use crate::fence::Fence;
use crate::id::{PlanId, TaskId, TenantId};
use crate::time::Ms;

/// How long a tenant lock is granted for: two hours of plan and half an hour in hand.
pub const LOCK_MS: u64 = 9_000_000;

/// Who holds a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Holder {
    /// Whose lock it is.
    #[serde(rename = "tenantId")]
    pub tenant: TenantId,
    /// The plan …
    #[serde(rename = "planId")]
    pub plan: PlanId,
    /// … and the task that hold it.
    #[serde(rename = "taskId")]
    pub task: TaskId,
    /// The fence drawn with it.
    pub fence: Fence,
    /// First granted to this task.
    pub since: Ms,
    /// Granted until; from then on it is nobody's.
    pub until: Ms,
}

/// Nothing of the tenant starts, resumes or is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Freeze {
    /// Whose.
    #[serde(rename = "tenantId")]
    pub tenant: TenantId,
    /// Who froze it.
    pub by: By,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Since when.
    pub at: Ms,
}

/// A lock that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// Whose.
    pub tenant: TenantId,
    /// For which plan …
    pub plan: PlanId,
    /// … and task.
    pub task: TaskId,
    /// For how long.
    pub ttl_ms: u64,
}

/// A lock that is held, as its holder knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Whose.
    pub tenant: TenantId,
    /// By which task.
    pub task: TaskId,
    /// Under which fence.
    pub fence: Fence,
}

/// Why a lock is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGranted {
    /// Another task holds it.
    Held(Holder),
    /// The tenant is frozen.
    Frozen(Freeze),
}

/// Who holds the lock now: an expired one is nobody's.
#[must_use]
pub fn holder(stored: Option<&Holder>, now: Ms) -> Option<&Holder> {
    stored.filter(|holder| holder.until > now)
}

/// Grants the lock under `fence`: to anyone when it is nobody's, and again, under a higher fence,
/// to the task that holds it (that is how a retry after a crash does not wait for the end of the lock).
pub fn acquire(
    stored: Option<&Holder>,
    freeze: Option<&Freeze>,
    want: &Acquire,
    fence: Fence,
    now: Ms,
) -> Result<Holder, NotGranted> {
    if let Some(freeze) = freeze {
        return Err(NotGranted::Frozen(freeze.clone()));
    }
    let since = match holder(stored, now) {
        Some(other) if other.task != want.task => return Err(NotGranted::Held(other.clone())),
        Some(same) => same.since,
        None => now,
    };
    let Acquire { tenant, plan, task, ttl_ms } = want.clone();
    Ok(Holder { tenant, plan, task, fence, since, until: now.plus(ttl_ms) })
}

/// The lock if `held` is still its holder: same task, same fence, not expired. Renew and release
/// are for nobody else.
#[must_use]
pub fn still<'a>(stored: Option<&'a Holder>, held: &Held, now: Ms) -> Option<&'a Holder> {
    holder(stored, now).filter(|holder| holder.task == held.task && holder.fence == held.fence)
}

#[cfg(test)]
mod tests;
