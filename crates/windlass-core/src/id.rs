//! Identifiers. Every one is `[A-Za-z0-9_-]{1,64}`, case-sensitive, and checked where text enters:
//! there is no way to build one unchecked, so a store may put one into a key as it is.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest identifier, in characters (which are bytes here).
pub const ID_CHARS_MAX: usize = 64;

/// Why a text is no identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadId {
    /// Nothing is not a name.
    #[error("must not be empty")]
    Empty,
    /// Longer than [`ID_CHARS_MAX`].
    #[error("is {0} characters long; at most 64 are allowed")]
    TooLong(usize),
    /// A character outside the alphabet, and where.
    #[error("has {found:?} at position {at}; only letters, digits, '_' and '-' are allowed")]
    BadChar {
        /// The character.
        found: char,
        /// Its place, counted from 1.
        at: usize,
    },
}

fn check(text: &str) -> Result<(), BadId> {
    if text.is_empty() {
        return Err(BadId::Empty);
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if let Some((at, found)) = text.chars().enumerate().find(|(_, c)| !allowed(*c)) {
        return Err(BadId::BadChar { found, at: at + 1 });
    }
    if text.len() > ID_CHARS_MAX {
        return Err(BadId::TooLong(text.len()));
    }
    Ok(())
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident)+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                check(text).map(|()| Self(text.into()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    )+};
}

ids! {
    /// A plan: its name plus a suffix, or the `id:` its author gave it.
    PlanId
    /// One tenant's work inside a plan.
    TaskId
    /// Whoever the work is for.
    TenantId
    /// One running server; a new identity at every start.
    InstanceId
    /// A stage's name, unique within its task.
    StageName
    /// What a plan is called, before it has an id.
    PlanName
    /// A secret's name: a reference, never the secret.
    SecretName
    /// The queue jobs wait in.
    QueueName
    /// Whoever runs jobs; a new identity at every start.
    WorkerId
    /// "At these times, do that".
    TriggerId
    /// One write, so that a repeat of it can be told from a second one.
    OpId
}

impl OpId {
    /// The `n`th operation of an instance. Made of what was checked, so it needs no check.
    #[must_use]
    pub fn of(instance: &InstanceId, n: u64) -> OpId {
        OpId(format!("{}-{n}", cut(instance.as_str())).into())
    }
}

impl OpId {
    /// The operation that a key of 128 bits stands for.
    #[must_use]
    pub fn of_key(high: u64, low: u64) -> OpId {
        OpId(format!("key-{high:016x}{low:016x}").into())
    }
}

impl PlanId {
    /// A plan's name and what makes it its own.
    #[must_use]
    pub fn of(name: &PlanName, suffix: u32) -> PlanId {
        PlanId(format!("{}-{suffix:08x}", cut(name.as_str())).into())
    }
}

impl TaskId {
    /// The task at a place of its plan: the place is what follows the last `-`, so two plans never
    /// share one. A plan's id that leaves no room is shortened to its beginning and a number that
    /// stands for all of it.
    #[must_use]
    pub fn of(plan: &PlanId, position: u32) -> TaskId {
        let plan = plan.as_str();
        if plan.len() + 11 <= ID_CHARS_MAX {
            return TaskId(format!("{plan}-{position}").into());
        }
        let whole = plan
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        TaskId(format!("{}-{whole:016x}-{position}", &plan[..36]).into())
    }
}

impl TriggerId {
    /// An occurrence of a trigger that has a record of its own.
    #[must_use]
    pub fn of(trigger: &TriggerId, at_ms: u64) -> TriggerId {
        TriggerId(whole_or_short(trigger.as_str(), &at_ms.to_string()).into())
    }
}

/// A name and what follows its last `-`. A name that leaves no room is shortened to its beginning and a number that
/// stands for all of it.
fn whole_or_short(name: &str, last: &str) -> String {
    if name.len() + 1 + last.len() <= ID_CHARS_MAX {
        return format!("{name}-{last}");
    }
    let whole = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{whole:016x}-{last}", &name[..26])
}

/// What fits before a number: identifiers are ASCII, so any place is a character boundary.
fn cut(text: &str) -> &str {
    &text[..text.len().min(43)]
}

mod job;

pub use job::JobId;

#[cfg(test)]
mod tests;
