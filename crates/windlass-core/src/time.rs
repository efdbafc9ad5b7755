//! Time: UTC milliseconds inside, RFC 3339 outside. Nothing here reads a clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub mod duration;

/// A moment, in milliseconds since 1970, from then to the end of the year 9999 (less two days). Arithmetic stops
/// at both ends: a lease asked for "for ever" ends in 9999, it does not wrap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ms(u64);

impl Ms {
    /// 1970-01-01T00:00:00Z.
    pub const ZERO: Ms = Ms(0);
    /// 9999-12-30T00:00:00Z: the last day that every store and RFC 3339 can express.
    pub const MAX: Ms = Ms(253_402_128_000_000);

    /// The moment `ms` milliseconds after 1970, or [`Ms::MAX`] if that is later.
    #[must_use]
    pub const fn new(ms: u64) -> Ms {
        if ms > Self::MAX.0 { Self::MAX } else { Ms(ms) }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `ms` later, at most [`Ms::MAX`].
    #[must_use]
    pub const fn plus(self, ms: u64) -> Ms {
        Ms::new(self.0.saturating_add(ms))
    }

    /// `ms` earlier, at least [`Ms::ZERO`].
    #[must_use]
    pub const fn minus(self, ms: u64) -> Ms {
        Ms(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to here, 0 if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Ms) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Reads RFC 3339, or milliseconds since 1970 written as digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Ms> {
        let ms = match text.parse::<u64>() {
            Ok(ms) => ms,
            Err(_) => {
                let at: jiff::Timestamp = text.parse().ok()?;
                u64::try_from(at.as_millisecond()).ok()?
            }
        };
        (ms <= Self::MAX.0).then_some(Ms(ms))
    }
}

impl fmt::Display for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Within range by construction, so the fallback is never printed.
        match i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()) {
            Some(at) => write!(f, "{at:.3}"),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for Ms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ms({})", self.0)
    }
}

impl Serialize for Ms {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Ms {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let ms = u64::deserialize(from)?;
        if ms > Self::MAX.0 {
            return Err(serde::de::Error::custom("a time after the year 9999"));
        }
        Ok(Ms(ms))
    }
}

/// `#[serde(with = "rfc3339")]`: for documents that people read.
pub mod rfc3339 {
    use super::{Deserialize, Deserializer, Ms, Serializer};

    /// Writes RFC 3339.
    pub fn serialize<S: Serializer>(ms: &Ms, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(ms)
    }

    /// Reads RFC 3339. A time without a zone, as the source documents write it, is UTC.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Ms, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Ms::parse(&text)
            .or_else(|| Ms::parse(&format!("{text}Z")))
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not an RFC 3339 time")))
    }
}

#[cfg(test)]
mod tests;
