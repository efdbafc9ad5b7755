//! Misfires: what becomes of occurrences that fell due while nobody looked.
//!
//! An occurrence is late when it is judged after its time, and *misfired* when it is late by more than the grace.
//! [`judge`] is asked about the stored occurrence and answers for every occurrence from there up to now: one is
//! fired, those before it are missed, those after it are still to come. Whatever the policy, each occurrence is
//! exactly one of the three.
//!
//! | policy | which one is fired | missed |
//! |---|---|---|
//! | `once` | the newest that is due: one run stands for all of them, and its time is the freshest | the older ones |
//! | `skip` | the oldest that is not misfired, or none | the misfired ones |
//! | `catch_up` | the oldest of the newest `max`; the others follow one by one, each with its own time | the older ones |
//!
//! A single occurrence (`at`, `after`) that misfired is fired by `once` and `catch_up`, and missed for good by `skip`.
//! While a catch-up lasts, occurrences that fall due join its end; if it is slower than they come, the oldest are
//! missed, so that what is behind never grows beyond `max`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{BadSchedule, Schedule, decode};
use crate::time::Ms;

/// How many occurrences `catch_up` keeps unless told.
pub const CATCH_UP_DEFAULT: u32 = 100;
/// How many it may be told to keep.
pub const CATCH_UP_MAX: u32 = 1_000;

/// What to do about occurrences that misfired. In JSON `"once"`, `"skip"`, `"catch_up"` or
/// `{"catch_up": {"max": 20}}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Misfire {
    /// Fire once for all of them.
    #[default]
    Once,
    /// Fire none of them.
    Skip,
    /// Fire each of the newest, in their order.
    CatchUp {
        /// How many, at most.
        max: u32,
    },
}

/// Occurrences that are not fired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// How many; at least one.
    pub count: u64,
    /// The oldest.
    pub first: Ms,
    /// The newest.
    pub last: Ms,
}

/// What happens to a schedule now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// The occurrence to fire now.
    pub fire: Option<Ms>,
    /// The occurrences before it, or before `next`, that are not fired at all.
    pub missed: Option<Missed>,
    /// The occurrence to store. It may be due already: then it is to be judged at once, as the next of a catch-up
    /// is. Nothing means that the schedule has ended.
    pub next: Option<Ms>,
}

impl Misfire {
    /// Reads a policy from JSON.
    pub fn from_value(value: &Value) -> Result<Misfire, BadSchedule> {
        decode::misfire(value)
    }
}

/// Judges a schedule at `now`. `due` is the occurrence that is stored for it, `anchor` when it was saved; an
/// occurrence that is at most `grace_ms` late has not misfired.
#[must_use]
pub fn judge(schedule: &Schedule, misfire: Misfire, due: Ms, now: Ms, grace_ms: u64, anchor: Ms) -> Verdict {
    if now < due {
        return Verdict { fire: None, missed: None, next: Some(due) };
    }
    let chosen =
        if now.since(due) <= grace_ms { Some(due) } else { choose(schedule, misfire, due, now, grace_ms, anchor) };
    // What is chosen may lie in the future, or nowhere: then everything that is due is missed.
    let kept_from = chosen.unwrap_or(Ms::MAX).min(now.plus(1));
    let missed = (kept_from > due).then(|| Missed {
        count: 1 + schedule.count(due.plus(1), kept_from, anchor),
        first: due,
        last: schedule.latest(kept_from.minus(1), anchor).map_or(due, |last| last.max(due)),
    });
    match chosen.filter(|at| *at <= now) {
        Some(at) => {
            Verdict { fire: Some(at), missed, next: schedule.next(at, anchor).filter(|_| schedule.is_recurring()) }
        }
        None => Verdict { fire: None, missed, next: chosen },
    }
}

/// The oldest occurrence that is kept, `due` having misfired.
fn choose(schedule: &Schedule, misfire: Misfire, due: Ms, now: Ms, grace_ms: u64, anchor: Ms) -> Option<Ms> {
    if !schedule.is_recurring() {
        return (misfire != Misfire::Skip).then_some(due);
    }
    let newer = match misfire {
        Misfire::Once => schedule.latest(now, anchor),
        Misfire::Skip => return schedule.at_or_after(now.minus(grace_ms), anchor),
        Misfire::CatchUp { max } if schedule.count(due.plus(1), now.plus(1), anchor) < u64::from(max) => None,
        Misfire::CatchUp { max } => schedule.nth_newest(max.max(1), now, anchor),
    };
    // What is stored counts as an occurrence also when the schedule has none at that time (any more).
    Some(newer.map_or(due, |newer| newer.max(due)))
}

impl Serialize for Misfire {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Misfire::Once => to.serialize_str("once"),
            Misfire::Skip => to.serialize_str("skip"),
            Misfire::CatchUp { max } => {
                to.collect_map([("catch_up", std::collections::BTreeMap::from([("max", max)]))])
            }
        }
    }
}

impl<'de> Deserialize<'de> for Misfire {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        Misfire::from_value(&value).map_err(serde::de::Error::custom)
    }
}
