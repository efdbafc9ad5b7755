//! Schedules as stores read them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::Schedule;

/// Schedules that are remembered.
const KNOWN_MAX: usize = 4_096;

/// Reading a cron expression and finding its zone takes longer than reading all the rest of a trigger, and many triggers
/// share few of them.
static KNOWN: LazyLock<Mutex<HashMap<String, Schedule>>> = LazyLock::new(Mutex::default);

/// Reads the JSON of a schedule, or remembers it.
pub fn read(text: &str) -> Result<Schedule, serde_json::Error> {
    if !text.starts_with(r#"{"cron""#) {
        return serde_json::from_str(text);
    }
    if let Some(known) = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(text) {
        return Ok(known.clone());
    }
    let schedule: Schedule = serde_json::from_str(text)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(text.to_owned(), schedule.clone());
    Ok(schedule)
}
