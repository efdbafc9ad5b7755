//! JSON that belongs to users: configuration, context, results. Kept as compact text, so that a
//! 64-bit number, a key order or a Unicode escape comes back exactly as it was given.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// A valid JSON text without insignificant white space. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// JSON `null`.
    #[must_use]
    pub fn null() -> Json {
        Json("null".into())
    }

    /// Checks that `text` is JSON and keeps it without its white space.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        let _valid: &RawValue = serde_json::from_str(text)?;
        Ok(Json(compact(text).into()))
    }

    /// The JSON of any value that has one.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Json, serde_json::Error> {
        serde_json::to_string(value).map(|text| Json(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes it.
    pub fn to<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

/// `#[serde(default, deserialize_with = "given")]` for an optional JSON: a `null` that was given is a
/// value, only an absent key is none.
pub(crate) fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// White space outside strings goes; everything else stays as written.
fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        if !inside && c.is_ascii_whitespace() {
            continue;
        }
        out.push(c);
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            _ => {}
        }
    }
    out
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // The text was checked when this value was made; RawValue only borrows it.
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Ok(Json(compact(raw.get()).into()))
    }
}

#[cfg(test)]
mod tests;
