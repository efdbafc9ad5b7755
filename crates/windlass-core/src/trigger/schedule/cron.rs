//! Cron: the times that a clock on a wall in some time zone shows.
//!
//! **Fields.** `minute hour day-of-month month day-of-week`, or six with the second in front; without it the second
//! is 0. A field is `*`, a number or a name (`jan`, `mon`), a range `a-b`, either of `*` and a range with a step `/n`,
//! or a list of those with commas. Day-of-week 0 and 7 are Sunday. Day-of-month also knows `L` (the last day), `LW`
//! (the last weekday) and `15W` (the weekday nearest to the 15th, in the same month); day-of-week `5L` (the last
//! Friday) and `5#2` (the second Friday). `?` in one of the two is `*`.
//!
//! **Which days.** As in Vixie's cron: if day-of-month and day-of-week are both restricted, a day that matches either
//! will do. A field that contains `*` or `?` is not restricted, also with a step; then a day must match both.
//!
//! **When the clock is changed.** As in Vixie's cron there are two sorts of expressions, told apart by their text:
//!
//! * *Running*: the second, minute or hour field contains `*`, as in `*/5 * * * *`, `0 * * * *`, `*/10 9-17 * * *`.
//!   It fires whenever the clock shows a matching time. When the clock goes back, it fires in both passes of the
//!   repeated hour; when the clock goes forward, the times that are left out are left out.
//! * *Fixed*: any other, as in `30 2 * * *`, `0 9-17 * * *`. Each matching time of the calendar fires once. When the
//!   clock goes back, that is the first pass. When it goes forward, times that are left out fire at the first instant
//!   after the gap; if there are several, or if that instant matches too, it still fires once.
//!
//! Both rules hold for every change of a zone's offset, whatever its size and reason. The rules of the zones are built
//! in, so that instances on different machines agree.
//!
//! **How.** A zone's time is a sequence of `Span`s, each with one offset. Inside a span, local time is UTC and a
//! constant, and a search there is a search in a `Calendar`, which knows no zones. croner, which was looked at,
//! gives up in gaps of more than two hours and cannot count.

use std::ops::Range;
use std::sync::Arc;

use self::calendar::Calendar;
use self::zone::{Span, Zone};
use super::BadSchedule;
use crate::plan::file::problem::shown;
use crate::time::Ms;

mod calendar;
mod field;
mod zone;

/// An expression's text, in bytes, at most.
pub const CRON_BYTES_MAX: usize = 256;

/// The rarest thing the calendar has to offer, a 29th of February on a certain weekday, comes every 40 years at
/// worst. What was not found in this time never comes.
const SEARCH_SECONDS: i64 = 41 * 366 * 86_400;

/// A cron expression and its time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: Arc<str>,
    calendar: Calendar,
    runs: bool,
    zone: Zone,
}

impl Cron {
    /// Reads an expression, which must fire some day, and the IANA name of a time zone.
    pub fn parse(text: &str, zone: &str) -> Result<Cron, BadSchedule> {
        let bad = |(message, help): (String, String)| BadSchedule::new("/cron", message, help);
        if text.len() > CRON_BYTES_MAX {
            let message = format!("the expression has {} bytes; at most {CRON_BYTES_MAX} are allowed", text.len());
            return Err(bad((message, "make several triggers of it".to_owned())));
        }
        let (calendar, runs) = field::parse(text).map_err(bad)?;
        if calendar.first(0..SEARCH_SECONDS).is_none() {
            let message = format!("{} never fires: no month it names has such a day", shown(text));
            return Err(bad((message, "change the day or the month; `L` is the last day of any month".to_owned())));
        }
        let zone = Zone::named(zone)?;
        Ok(Cron { text: text.split_whitespace().collect::<Vec<_>>().join(" ").into(), calendar, runs, zone })
    }

    /// The expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name of the time zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.name()
    }

    /// Whether it is a *running* expression, which fires in both passes of a repeated hour and not for times that
    /// the clock leaves out; if not, it is a *fixed* one.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.runs
    }

    /// The first occurrence that is not before `from`.
    pub(super) fn at_or_after(&self, from: Ms) -> Option<Ms> {
        let mut from = seconds_up(from);
        let until = (from + SEARCH_SECONDS).min(seconds_up(Ms::MAX) + 1);
        while from < until {
            let span = self.zone.span(from);
            if let Some(found) = self.first_in(&span, from..until) {
                return u64::try_from(found * 1_000).ok().map(Ms::new);
            }
            from = span.end;
        }
        None
    }

    /// The last occurrence that is not after `upto`.
    pub(super) fn latest(&self, upto: Ms) -> Option<Ms> {
        let mut until = seconds_up(upto.plus(1));
        let from = (until - SEARCH_SECONDS).max(0);
        while from < until {
            let span = self.zone.span(until - 1);
            if let Some(found) = self.last_in(&span, from..until) {
                return u64::try_from(found * 1_000).ok().map(Ms::new);
            }
            until = span.start;
        }
        None
    }

    /// How many occurrences there are from `from` on and before `before`.
    pub(super) fn count(&self, from: Ms, before: Ms) -> u64 {
        let (mut from, before) = (seconds_up(from), seconds_up(before));
        let mut count = 0;
        while from < before {
            let span = self.zone.span(from);
            count += self.count_in(&span, from..before);
            from = span.end;
        }
        count
    }

    fn first_in(&self, span: &Span, within: Range<i64>) -> Option<i64> {
        if self.makes_up(span, &within) {
            return Some(span.start);
        }
        self.calendar.first(self.local(span, within)).map(|local| local - span.offset)
    }

    fn last_in(&self, span: &Span, within: Range<i64>) -> Option<i64> {
        let made_up = self.makes_up(span, &within).then_some(span.start);
        self.calendar.last(self.local(span, within)).map(|local| local - span.offset).or(made_up)
    }

    fn count_in(&self, span: &Span, within: Range<i64>) -> u64 {
        // The instant after a gap is one occurrence, also if it makes up for others and matches itself.
        let first_local = span.start + span.offset;
        let made_up = self.makes_up(span, &within) && self.calendar.first(first_local..first_local + 1).is_none();
        self.calendar.count(self.local(span, within)) + u64::from(made_up)
    }

    /// The local times of a span that count. For a fixed expression, those that the clock shows for the second time
    /// do not; after a gap there are none of these, and the `max` changes nothing.
    fn local(&self, span: &Span, within: Range<i64>) -> Range<i64> {
        let from = within.start.max(span.start) + span.offset;
        let until = within.end.min(span.end) + span.offset;
        if self.runs { from..until } else { from.max(span.start + span.offset_before)..until }
    }

    /// Whether the span's first instant fires for times that the clock left out just before.
    fn makes_up(&self, span: &Span, within: &Range<i64>) -> bool {
        let left_out = span.start + span.offset_before..span.start + span.offset;
        !self.runs && within.contains(&span.start) && !left_out.is_empty() && self.calendar.first(left_out).is_some()
    }
}

/// Whole seconds since 1970, rounded up: occurrences are whole seconds, so "not before" and "before" a moment mean
/// the same of the next second.
fn seconds_up(at: Ms) -> i64 {
    i64::try_from(at.get().div_ceil(1_000)).unwrap_or(i64::MAX)
}
