//! The strings inside a JSON text, changed one by one. Everything else – numbers, the order of keys,
//! white space – comes through as it was written, which decoding and encoding again does not promise.

use std::borrow::Cow;
use std::convert::Infallible;

use windlass_core::json::Json;

/// Where a string stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Before a colon.
    Key,
    /// Anywhere else.
    Value,
}

/// Hands every string to `change`, as it is written between its quotes. What that answers is the JSON to put
/// in its place, quotes included; nothing keeps it. The result is not checked to be JSON again.
pub(super) fn replace<E>(
    json: &str,
    mut change: impl FnMut(Place, &str) -> Result<Option<String>, E>,
) -> Result<Cow<'_, str>, E> {
    let mut out = String::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(open) = json[at..].find('"').map(|found| at + found) {
        let close = closing_quote(json, open);
        let place = if json[close + 1..].trim_start().starts_with(':') { Place::Key } else { Place::Value };
        if let Some(new) = change(place, &json[open + 1..close])? {
            out.push_str(&json[kept..open]);
            out.push_str(&new);
            kept = close + 1;
        }
        at = close + 1;
    }
    if kept == 0 {
        return Ok(Cow::Borrowed(json));
    }
    out.push_str(&json[kept..]);
    Ok(Cow::Owned(out))
}

/// The same for a change that cannot fail and answers text, not JSON.
pub(super) fn map(json: &Json, mut change: impl FnMut(&str) -> Option<String>) -> Json {
    let changed = replace::<Infallible>(json.as_str(), |_, raw| {
        Ok(change(&decoded(raw)).and_then(|text| serde_json::to_string(&text).ok()))
    });
    match changed {
        Ok(Cow::Owned(text)) => Json::parse(&text).unwrap_or_else(|_| Json::null()),
        Ok(Cow::Borrowed(_)) => json.clone(),
        Err(never) => match never {},
    }
}

/// Maps and lists inside each other in what a stage returns, at most: what reads the context later has such a bound.
const DEPTH_MAX: usize = 100;

/// `text` if it is one JSON document that can be kept as such.
pub(super) fn document(text: &str) -> Option<Json> {
    Json::parse(text).ok().filter(|json| depth(json.as_str()) <= DEPTH_MAX)
}

fn depth(json: &str) -> usize {
    let (mut deepest, mut now, mut at) = (0_usize, 0_usize, 0);
    while let Some(byte) = json.as_bytes().get(at) {
        match byte {
            b'"' => at = closing_quote(json, at),
            b'{' | b'[' => now += 1,
            b'}' | b']' => now = now.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(now);
        at += 1;
    }
    deepest
}

/// What a string as written between its quotes stands for.
pub(super) fn decoded(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    // Half a surrogate pair is JSON, but no text: it stays as it was written.
    serde_json::from_str::<String>(&format!("\"{raw}\"")).map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// `json` is valid, so there is one.
fn closing_quote(json: &str, open: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in json.as_bytes().iter().enumerate().skip(open + 1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at,
            _ => {}
        }
    }
    json.len().saturating_sub(1)
}

#[cfg(test)]
mod tests;
