//! How much of a queue or of a tenant may wait and run, and whether anything of it may be claimed.

use serde::{Deserialize, Serialize};

use super::Asker;
use crate::id::{QueueName, TenantId};

/// What a limit is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// A queue, all tenants together.
    Queue(QueueName),
    /// A tenant, all queues together.
    Tenant(TenantId),
    /// Each tenant that has no limits of its own.
    EachTenant,
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scope::Queue(queue) => write!(f, "queue {queue}"),
            Scope::Tenant(tenant) => write!(f, "tenant {tenant}"),
            Scope::EachTenant => f.write_str("each tenant"),
        }
    }
}

/// Bounds; `None` is no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    /// Jobs that run at once, at most: further ones wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Jobs that are PENDING, at most: further ones are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u32>,
}

impl Limits {
    /// Nothing is bounded.
    pub const NONE: Limits = Limits { running: None, waiting: None };
}

/// What is set for a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// For what.
    pub scope: Scope,
    /// Its bounds.
    #[serde(default)]
    pub limits: Limits,
    /// Nothing of it is claimed since: a paused queue, a frozen tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Asker>,
}

/// What holds of one tenant: its own bounds if it has any, those of each tenant otherwise; held if either is. Jobs
/// without a tenant are bound by their queue alone.
#[must_use]
pub fn of_tenant(own: Option<&Rule>, each: Option<&Rule>) -> (Limits, bool) {
    let limits = |rule: Option<&Rule>| rule.map(|rule| rule.limits).filter(|limits| *limits != Limits::NONE);
    let held = [own, each].into_iter().flatten().any(|rule| rule.held.is_some());
    (limits(own).or(limits(each)).unwrap_or(Limits::NONE), held)
}
