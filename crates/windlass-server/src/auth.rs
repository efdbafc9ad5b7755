//! Who asks, and what they may. Keys are in a file ([`keys`]); without one, whoever reaches the loopback address may do
//! everything, and nobody else reaches it.

pub mod keys;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use windlass_core::by::By;
use windlass_core::id::{QueueName, TenantId};
use windlass_core::time::Ms;

use crate::problem::Problem;
use keys::{Keys, Unknown};

/// What a key may do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Viewer,
    /// Claim jobs, answer for them, and read one.
    Worker,
    /// Look and operate.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// Every one.
    pub const ALL: [Role; 4] = [Role::Viewer, Role::Worker, Role::Operator, Role::Admin];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Worker => "worker",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = String;
    fn from_str(text: &str) -> Result<Role, String> {
        let found = Role::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| format!("{text:?} is no role; one is viewer, worker, operator or admin"))
    }
}

/// What a route asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing, not even a key.
    Public,
    /// Some key.
    Key,
    /// To look.
    View,
    /// To look, or to work: one job.
    ViewOrWork,
    /// To work.
    Work,
    /// To operate.
    Operate,
    /// To do what concerns everybody.
    Admin,
}

impl Need {
    /// Whether a role has it.
    #[must_use]
    pub const fn is_met(self, role: Role) -> bool {
        match (self, role) {
            (Need::Public | Need::Key, _) | (_, Role::Admin) => true,
            (Need::View, _) => !matches!(role, Role::Worker),
            (Need::ViewOrWork, _) => true,
            (Need::Work, _) => matches!(role, Role::Worker),
            (Need::Operate, _) => matches!(role, Role::Operator),
            (Need::Admin, _) => false,
        }
    }

    /// The least role, for messages.
    #[must_use]
    pub const fn role(self) -> &'static str {
        match self {
            Need::Public => "none",
            Need::Key => "any",
            Need::View => "viewer",
            Need::ViewOrWork => "viewer or worker",
            Need::Work => "worker",
            Need::Operate => "operator",
            Need::Admin => "admin",
        }
    }
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who {
    /// The key's name: the `by` of what it does. `None` without keys.
    pub by: Option<By>,
    /// What it may do.
    pub role: Role,
    /// Only what is theirs; `None`: everybody's.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// Only in these; `None`: in all.
    pub queues: Option<BTreeSet<QueueName>>,
}

impl Who {
    pub(crate) fn anybody_here() -> Who {
        Who { by: None, role: Role::Admin, tenants: None, queues: None }
    }

    /// Whether a tenant's things are this key's to see.
    pub(crate) fn sees(&self, tenant: &TenantId) -> bool {
        self.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant))
    }

    /// What has no tenant is nobody's who is limited to some.
    pub(crate) fn sees_maybe(&self, tenant: Option<&TenantId>) -> bool {
        match (&self.tenants, tenant) {
            (None, _) => true,
            (Some(tenants), Some(tenant)) => tenants.contains(tenant),
            (Some(_), None) => false,
        }
    }

    pub(crate) fn sees_queue(&self, queue: &QueueName) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(queue))
    }

    /// Refuses what concerns everybody to whoever is limited to some tenants.
    pub(crate) fn for_everybody(&self, what: &str) -> Result<(), Problem> {
        match self.tenants {
            None => Ok(()),
            Some(_) => Err(Problem::beyond(format!("{what} concerns every tenant, and this key is limited to some"))),
        }
    }
}

/// How the server knows who asks.
pub(crate) enum Door {
    /// Whoever reaches it. It listens on loopback only.
    Open(Arc<Who>),
    /// Whoever has a key.
    Keys(Keys),
}

impl Door {
    pub(crate) fn who(&self, headers: &HeaderMap, now: Ms) -> Result<Arc<Who>, Problem> {
        match self {
            Door::Open(who) => from_here(headers).map(|()| Arc::clone(who)),
            Door::Keys(keys) => {
                let given = headers.get(header::AUTHORIZATION).ok_or_else(|| {
                    Problem::no_key(
                        "this server wants an API key: Authorization: Bearer wl_…; `windlass key create` makes one",
                    )
                })?;
                let token = given.to_str().ok().and_then(bearer);
                let token = token.ok_or_else(|| Problem::bad_key("the Authorization header is not `Bearer wl_…`"))?;
                keys.find(token, now).map_err(|unknown| match unknown {
                    Unknown::Never => Problem::bad_key("this key is not known here; it may have been revoked"),
                    Unknown::Expired(at) => Problem::expired_key(format!("this key expired at {at}")),
                })
            }
        }
    }
}

fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// A page of somebody else's that runs in a browser on this machine can reach loopback, too. It cannot hide where it
/// comes from (`Origin`), nor which name it used (`Host`).
fn from_here(headers: &HeaderMap) -> Result<(), Problem> {
    let no = |what: &str| {
        Err(Problem::elsewhere(format!(
            "without API keys only this machine is served, and the {what} header names another"
        )))
    };
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    match text(header::HOST) {
        Some(host) if !is_loopback(host) => return no("Host"),
        _ => {}
    }
    match text(header::ORIGIN) {
        Some(origin) if !origin.split_once("://").is_some_and(|(_, host)| is_loopback(host)) => no("Origin"),
        _ => Ok(()),
    }
}

/// `127.0.0.1`, `localhost` or `[::1]`, with a port or without.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for host in ["127.0.0.1", "127.0.0.1:7070", "localhost:1", "[::1]:7070", "[::1]", "127.8.8.8"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:80", "10.0.0.1:80", "", "?", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
