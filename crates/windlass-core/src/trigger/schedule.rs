//! Schedules: at which times a trigger fires, as functions of times. Nothing here reads a clock, and nothing here
//! takes longer because a schedule was left alone for years: intervals are arithmetic, and cron is searched by
//! months and counted by days.
//!
//! Four kinds: once at a time, once after a delay, every so often, and [`cron`] in a time zone. What is done about
//! occurrences that fell due while nobody looked is [`misfire`]. Whether a trigger is paused, claimed or retried is
//! not known here.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::known::Known;
use crate::time::{Ms, duration::write_ms};

pub mod cron;
mod decode;
pub mod misfire;

pub use cron::Cron;
pub use misfire::{Misfire, Missed, Verdict, judge};

/// The shortest interval: what is due more often than this is a loop, not a schedule.
pub const EVERY_MS_MIN: u64 = 100;
/// The longest interval and the longest delay: ten years of 365 days.
pub const WAIT_MS_MAX: u64 = 3_650 * 24 * 60 * 60 * 1_000;
/// Occurrences that a preview lists, at most.
pub const UPCOMING_MAX: usize = 1_000;

/// Reading a cron expression and finding its zone takes longer than reading all the rest of a trigger.
static KNOWN: Known<Schedule> = Known::new();

/// Reads a schedule as a store has it. Intervals are read fast, and most are their trigger's own.
pub fn read(text: &str) -> Result<Schedule, serde_json::Error> {
    if text.starts_with(r#"{"cron""#) { KNOWN.read(text) } else { serde_json::from_str(text) }
}

/// When a trigger fires. In JSON an object with one of the keys `at`, `after`, `every` and `cron`:
///
/// ```json
/// {"at": "2026-12-24T18:00:00Z"}
/// {"after": "90s"}
/// {"every": "5m"}
/// {"every": "1d", "from": "2026-01-01T06:00:00Z"}
/// {"cron": "0 9 * * mon-fri", "zone": "Europe/Berlin"}
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Once, at this time; at once if it has passed.
    At(Ms),
    /// Once, this many milliseconds after the trigger was saved.
    After(u64),
    /// Again and again. Occurrences stay on the grid of their beginning, however late each of them is carried out.
    Every {
        /// From one occurrence to the next.
        every_ms: u64,
        /// The first occurrence. Without it, that is one interval after the trigger was saved.
        from: Option<Ms>,
    },
    /// When the clock on a wall shows certain times.
    Cron(Cron),
}

/// Why something is no schedule or no misfire policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}; {help}", place(pointer))]
pub struct BadSchedule {
    /// The value it is about, as a JSON pointer (RFC 6901) from the schedule; empty for all of it.
    pub pointer: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!("{pointer}: ") }
}

impl BadSchedule {
    pub(crate) fn new(pointer: &str, message: impl Into<String>, help: impl Into<String>) -> BadSchedule {
        BadSchedule { pointer: pointer.to_owned(), message: message.into(), help: help.into() }
    }
}

impl Schedule {
    /// Reads a schedule from the text of a JSON object.
    pub fn parse(text: &str) -> Result<Schedule, BadSchedule> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| BadSchedule::new("", format!("the schedule is not JSON: {error}"), decode::ONE_OF))?;
        Schedule::from_value(&value)
    }

    /// Reads a schedule from JSON.
    pub fn from_value(value: &Value) -> Result<Schedule, BadSchedule> {
        decode::schedule(value)
    }

    /// Whether there is a next occurrence after one.
    #[must_use]
    pub fn is_recurring(&self) -> bool {
        matches!(self, Schedule::Every { .. } | Schedule::Cron(_))
    }

    /// The first occurrence of a schedule saved at `saved_at`: the first one that is not before it, except that a
    /// time that has passed is kept as it is, and so is due at once.
    #[must_use]
    pub fn first(&self, saved_at: Ms) -> Option<Ms> {
        match self {
            Schedule::At(at) => Some(*at),
            _ => self.at_or_after(saved_at, saved_at),
        }
    }

    /// The first occurrence after `after`, never `after` itself. `anchor` is when the trigger was saved: delays and
    /// intervals count from there and do not drift.
    #[must_use]
    pub fn next(&self, after: Ms, anchor: Ms) -> Option<Ms> {
        if after == Ms::MAX { None } else { self.at_or_after(after.plus(1), anchor) }
    }

    /// The next `n` occurrences after `after`, [`UPCOMING_MAX`] at most.
    #[must_use]
    pub fn upcoming(&self, after: Ms, anchor: Ms, n: usize) -> Vec<Ms> {
        let next = |last: &Ms| self.next(*last, anchor);
        std::iter::successors(next(&after), next).take(n.min(UPCOMING_MAX)).collect()
    }

    /// The first occurrence that is not before `from`.
    fn at_or_after(&self, from: Ms, anchor: Ms) -> Option<Ms> {
        match self {
            Schedule::Every { every_ms, .. } => {
                let start = self.start(anchor);
                let whole = steps_before(start, from, *every_ms).checked_mul(*every_ms)?;
                start.get().checked_add(whole).filter(|ms| *ms <= Ms::MAX.get()).map(Ms::new)
            }
            Schedule::Cron(cron) => cron.at_or_after(from),
            Schedule::At(_) | Schedule::After(_) => Some(self.start(anchor)).filter(|at| *at >= from),
        }
    }

    /// The last occurrence that is not after `upto`.
    fn latest(&self, upto: Ms, anchor: Ms) -> Option<Ms> {
        match self {
            Schedule::Cron(cron) => cron.latest(upto),
            _ if upto < self.start(anchor) => None,
            Schedule::Every { every_ms, .. } => {
                let start = self.start(anchor);
                Some(start.plus(upto.since(start) / every_ms * every_ms))
            }
            Schedule::At(_) | Schedule::After(_) => Some(self.start(anchor)),
        }
    }

    /// The `nth` of the occurrences that are not after `upto`, the newest being the first.
    fn nth_newest(&self, nth: u32, upto: Ms, anchor: Ms) -> Option<Ms> {
        let newest = self.latest(upto, anchor)?;
        match self {
            Schedule::Every { every_ms, .. } => {
                let back = every_ms.checked_mul(u64::from(nth) - 1)?;
                (back <= newest.since(self.start(anchor))).then(|| newest.minus(back))
            }
            _ => {
                (1..nth).try_fold(newest, |at, _| if at == Ms::ZERO { None } else { self.latest(at.minus(1), anchor) })
            }
        }
    }

    /// How many occurrences there are from `from` on and before `before`.
    fn count(&self, from: Ms, before: Ms, anchor: Ms) -> u64 {
        let start = self.start(anchor);
        match self {
            Schedule::Every { every_ms, .. } => {
                steps_before(start, before, *every_ms).saturating_sub(steps_before(start, from, *every_ms))
            }
            Schedule::Cron(cron) => cron.count(from, before),
            Schedule::At(_) | Schedule::After(_) => u64::from(from <= start && start < before),
        }
    }

    /// The earliest occurrence there can be.
    fn start(&self, anchor: Ms) -> Ms {
        match self {
            Schedule::At(at) => *at,
            Schedule::After(wait_ms) => anchor.plus(*wait_ms),
            Schedule::Every { every_ms, from } => from.unwrap_or_else(|| anchor.plus(*every_ms)),
            Schedule::Cron(_) => Ms::ZERO,
        }
    }
}

/// How many points of the grid from `start` on lie before `at`.
fn steps_before(start: Ms, at: Ms, every_ms: u64) -> u64 {
    at.since(start).div_ceil(every_ms)
}

impl Serialize for Schedule {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let texts = match self {
            Schedule::At(at) => [Some(("at", at.to_string())), None],
            Schedule::After(wait_ms) => [Some(("after", write_ms(*wait_ms))), None],
            Schedule::Every { every_ms, from } => {
                [Some(("every", write_ms(*every_ms))), from.map(|from| ("from", from.to_string()))]
            }
            Schedule::Cron(cron) => [Some(("cron", cron.text().to_owned())), Some(("zone", cron.zone().to_owned()))],
        };
        to.collect_map(texts.into_iter().flatten())
    }
}

impl<'de> Deserialize<'de> for Schedule {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        Schedule::from_value(&value).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
