//! Bounds of calls, and cursors.

use windlass_core::port::{BATCH_MAX, Cursor, PAGE_MAX, PortError};

pub(crate) fn check_batch(items: usize) -> Result<(), PortError> {
    match items {
        n if n > BATCH_MAX => Err(PortError::Invalid(format!("{n} items in one call; at most {BATCH_MAX} are taken"))),
        _ => Ok(()),
    }
}

pub(crate) fn check_limit(limit: u32) -> Result<(), PortError> {
    match limit {
        1..=PAGE_MAX => Ok(()),
        _ => Err(PortError::Invalid(format!("a page of {limit}; 1 to {PAGE_MAX} are allowed"))),
    }
}

pub(crate) fn bad() -> PortError {
    PortError::Invalid("this is no cursor of this list".to_owned())
}

/// A cursor is the kind of its list and the place of the last item, which holds nothing but what ids and numbers hold.
pub(crate) fn cursor(kind: &str, place: &str) -> Cursor {
    Cursor(format!("{kind}.{}", place.replace(' ', "~")))
}

/// The place that a cursor of this kind of list stands on; empty at the beginning.
pub(crate) fn place(kind: &str, after: Option<&Cursor>) -> Result<String, PortError> {
    let Some(Cursor(text)) = after else { return Ok(String::new()) };
    let place = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.')).ok_or_else(bad)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-~:".contains(c);
    match !place.is_empty() && place.len() <= 400 && place.chars().all(fits) {
        true => Ok(place.replace('~', " ")),
        false => Err(bad()),
    }
}
