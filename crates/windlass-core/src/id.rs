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
    /// One write, so that a repeat of it can be told from a second one.
    OpId
}

#[cfg(test)]
mod tests;
