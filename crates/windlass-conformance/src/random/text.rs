//! Answers as text that two stores can be compared by: what may differ between them is taken out.

use windlass_core::fence::Fence;
use windlass_core::port::{PortError, Refusal};
use windlass_core::time::Ms;

/// Times of a store are told apart to this grain; everything random happens at multiples of it.
pub(crate) const GRAIN_MS: u64 = 100_000;

/// What one store's fences and times mean.
pub(crate) struct Scale {
    /// When the sequence began, by the store's clock.
    pub(crate) base: Ms,
    /// Fences in the order in which they were drawn.
    pub(crate) fences: Vec<Fence>,
}

impl Scale {
    /// `text` with fences by their order and times of the store by their distance from its beginning.
    pub(crate) fn plain(&self, text: &str) -> String {
        let text = replace(text, "Fence(", |number| {
            let drawn = self.fences.iter().position(|fence| fence.0 == number)?;
            Some(format!("drawn {drawn}"))
        });
        replace(&text, "Ms(", |ms| {
            let grains = (ms + GRAIN_MS / 2).checked_sub(self.base.get())? / GRAIN_MS;
            // What lies centuries ahead was not read from a clock.
            (grains < 1_000_000).then(|| format!("base + {grains}"))
        })
    }
}

/// Replaces the number in every `<name><number>)`, where there is something to put in its place.
fn replace(text: &str, name: &str, by: impl Fn(u64) -> Option<String>) -> String {
    let mut parts = text.split(name);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.split(')').next().unwrap_or_default();
        let plain = number.parse().ok().and_then(&by).unwrap_or_else(|| number.to_owned());
        out.push_str(name);
        out.push_str(&plain);
        out.push_str(&part[number.len()..]);
    }
    out
}

/// A refusal without its prose, which is the store's own.
pub(crate) fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::NotFound(_) => "NotFound".to_owned(),
        Refusal::Exists(_) => "Exists".to_owned(),
        Refusal::Invalid(_) => "Invalid".to_owned(),
        Refusal::State { status, .. } => format!("State {status}"),
        other => format!("{other:?}"),
    }
}

/// One answer.
pub(super) fn answer<T: std::fmt::Debug>(answer: &Result<T, Refusal>) -> String {
    match answer {
        Ok(done) => format!("Ok {done:?}"),
        Err(why) => format!("Err {}", refusal(why)),
    }
}

/// A call that failed as a whole; random calls may be wrong, but nothing is ever unavailable.
pub(super) fn failed(why: &PortError) -> String {
    match why {
        PortError::Invalid(_) => "Invalid call".to_owned(),
        other => panic!("the store failed: {other}"),
    }
}
