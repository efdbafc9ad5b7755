//! A job's identity: UUID v4, always.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A job. 36 characters outside, 16 bytes inside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(uuid::Uuid);

/// Why a text is no job's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no job id; one is a UUID of version 4, like 550e8400-e29b-41d4-a716-446655440000")]
pub struct BadJobId(String);

impl JobId {
    /// The id that 128 random bits make.
    #[must_use]
    pub fn random(bits: u128) -> JobId {
        JobId(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
    }

    /// Its bytes, which sort as its text does.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// From its bytes; `None` if they are not of version 4.
    #[must_use]
    pub fn of_bytes(bytes: [u8; 16]) -> Option<JobId> {
        let id = uuid::Uuid::from_bytes(bytes);
        (id.get_version_num() == 4 && id.get_variant() == uuid::Variant::RFC4122).then_some(JobId(id))
    }
}

impl FromStr for JobId {
    type Err = BadJobId;
    fn from_str(text: &str) -> Result<Self, BadJobId> {
        // Only the usual form: braces, URNs and upper case are other spellings of the same id.
        let bad = || BadJobId(text.chars().take(64).collect());
        let id = uuid::Uuid::try_parse(text).map_err(|_| bad())?;
        let spelled = text.len() == 36 && !text.bytes().any(|byte| byte.is_ascii_uppercase());
        JobId::of_bytes(*id.as_bytes()).filter(|_| spelled).ok_or_else(bad)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({self})")
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
