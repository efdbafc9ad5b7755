//! Who did it, and why: kept with every event.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest name and the longest reason, in bytes.
pub const BY_BYTES_MAX: usize = 128;
/// See [`BY_BYTES_MAX`].
pub const REASON_BYTES_MAX: usize = 1024;

/// A person's or an instance's name: one printable line of 1 to 128 bytes.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct By(Arc<str>);

/// Why the work is done: printable text of at most 1,024 bytes, never empty.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reason(Arc<str>);

/// Why a text is no name or no reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// Nothing.
    #[error("must not be empty")]
    Empty,
    /// Too long.
    #[error("is {0} bytes long; at most {1} are allowed")]
    TooLong(usize, usize),
    /// A control character would spoil a log line.
    #[error("holds a control character")]
    Control,
}

fn check(text: &str, bytes_max: usize) -> Result<(), BadText> {
    match text {
        _ if text.trim().is_empty() => Err(BadText::Empty),
        _ if text.len() > bytes_max => Err(BadText::TooLong(text.len(), bytes_max)),
        _ if text.chars().any(char::is_control) => Err(BadText::Control),
        _ => Ok(()),
    }
}

macro_rules! texts {
    ($($name:ident $max:ident)+) => {$(
        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = BadText;
            fn from_str(text: &str) -> Result<Self, BadText> {
                check(text, $max).map(|()| Self(text.into()))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
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

texts! { By BY_BYTES_MAX Reason REASON_BYTES_MAX }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_printable_line() {
        assert_eq!("Zoë (on call)".parse::<By>().unwrap().as_str(), "Zoë (on call)");
        assert_eq!(" ".parse::<By>(), Err(BadText::Empty));
        assert_eq!("a\nb".parse::<By>(), Err(BadText::Control));
        assert_eq!("x".repeat(129).parse::<By>(), Err(BadText::TooLong(129, 128)));
        assert!(serde_json::from_str::<Reason>("\"\"").is_err());
    }
}
