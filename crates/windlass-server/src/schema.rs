//! Words of the API that have a schema: identifiers, times, durations, and JSON that is somebody else's.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use windlass_core::time::Ms;
use windlass_core::time::duration::parse_ms;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident $schema:tt)+) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

words! {
    /// An identifier.
    Id { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" }
    /// A job's id.
    Uuid { "type": "string", "format": "uuid", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$" }
    /// Any JSON.
    Any { "description": "any JSON" }
    /// A name of whoever does something.
    Name { "type": "string", "minLength": 1, "maxLength": 128 }
    /// Why.
    Text { "type": "string", "minLength": 1, "maxLength": 1024 }
    /// An object whose members are not listed here.
    Object { "type": "object" }
}

/// A moment: RFC 3339 in answers; RFC 3339 or milliseconds since 1970 in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Ms);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bad = || serde::de::Error::custom("not a time: write RFC 3339 such as 2026-12-24T18:00:00Z");
        match NumberOrText::deserialize(from)? {
            NumberOrText::Number(ms) if ms <= Ms::MAX.get() => Ok(Time(Ms::new(ms))),
            NumberOrText::Number(_) => Err(bad()),
            NumberOrText::Text(text) => Ms::parse(&text).map(Time).ok_or_else(bad),
        }
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        match generator.contract().is_serialize() {
            true => json_schema!({ "type": "string", "format": "date-time" }),
            false => json_schema!({ "type": ["string", "integer"], "format": "date-time", "minimum": 0 }),
        }
    }
}

/// A duration in a request: `30s`, or milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) u64);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bad = || serde::de::Error::custom("not a duration: write 30s, 1h30m, 250ms, or a number of milliseconds");
        match NumberOrText::deserialize(from)? {
            NumberOrText::Number(ms) => Ok(Span(ms)),
            NumberOrText::Text(text) => parse_ms(&text).map(Span).ok_or_else(bad),
        }
    }
}

impl JsonSchema for Span {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "minimum": 0, "examples": ["30s", 30000] })
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText<'a> {
    Number(u64),
    Text(#[serde(borrow)] Cow<'a, str>),
}
