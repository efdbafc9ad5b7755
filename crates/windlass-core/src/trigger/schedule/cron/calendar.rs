//! A cron expression as sets of numbers, searched and counted in a calendar without zones. A time here is the number
//! of seconds since 1970 that a clock shows which is never changed.

use std::ops::Range;

use jiff::Timestamp;
use jiff::tz::Offset;

const DAY: i64 = 86_400;

/// What each field matches; bit n of a set stands for the number n.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Calendar {
    pub(super) seconds: u64,
    pub(super) minutes: u64,
    pub(super) hours: u64,
    pub(super) months: u64,
    pub(super) month_days: MonthDays,
    pub(super) week_days: WeekDays,
    /// A day that matches either field will do; else it must match both.
    pub(super) either: bool,
}

/// The field day-of-month.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct MonthDays {
    /// From 1.
    pub(super) days: u64,
    /// `L`.
    pub(super) last: bool,
    /// `LW`.
    pub(super) last_weekday: bool,
    /// `15W`, from 1.
    pub(super) nearest_weekday: u64,
}

/// The field day-of-week; Sunday is 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct WeekDays {
    pub(super) days: u64,
    /// `5L`.
    pub(super) last: u64,
    /// `5#1` to `5#5`.
    pub(super) nth: [u64; 5],
}

/// One month: its first day, counted since 1970, and which.
#[derive(Clone, Copy)]
struct Month {
    start: i64,
    len: i64,
    number: u32,
}

impl Month {
    /// The month that a day is in; none outside the years that a calendar has.
    fn of(day: i64) -> Option<Month> {
        let date = Offset::UTC.to_datetime(Timestamp::from_second(day.checked_mul(DAY)?).ok()?).date();
        let number = u32::try_from(date.month()).ok()?;
        Some(Month { start: day - i64::from(date.day()) + 1, len: i64::from(date.days_in_month()), number })
    }

    /// Sunday is 0. The first day of 1970 was a Thursday.
    fn weekday(&self, index: i64) -> u32 {
        (self.start + index + 4).rem_euclid(7) as u32
    }

    /// The weekday, Monday to Friday, that is nearest to a day and in the same month.
    fn nearest_weekday(&self, index: i64) -> i64 {
        match self.weekday(index) {
            6 if index == 0 => index + 2,
            6 => index - 1,
            0 if index == self.len - 1 => index - 2,
            0 => index + 1,
            _ => index,
        }
    }
}

impl Calendar {
    /// The first match in a range.
    pub(super) fn first(&self, within: Range<i64>) -> Option<i64> {
        let day = within.start.div_euclid(DAY);
        let mut month = Month::of(day)?;
        let mut left = self.days(&month) & from_bit(day - month.start);
        if has(left, day - month.start) {
            if let Some(second) = self.second_from(within.start.rem_euclid(DAY)) {
                return Some(day * DAY + second).filter(|found| within.contains(found));
            }
            left &= from_bit(day - month.start + 1);
        }
        while left == 0 {
            month = Month::of(month.start + month.len)?;
            if month.start * DAY >= within.end {
                return None;
            }
            left = self.days(&month);
        }
        let day = month.start + i64::from(left.trailing_zeros());
        Some(day * DAY + self.second_from(0)?).filter(|found| within.contains(found))
    }

    /// The last match in a range.
    pub(super) fn last(&self, within: Range<i64>) -> Option<i64> {
        let (day, second) = (within.end.div_euclid(DAY), within.end.rem_euclid(DAY));
        let mut month = Month::of(day)?;
        let mut left = self.days(&month) & below_bit(day - month.start + 1);
        if has(left, day - month.start) {
            if let Some(second) = self.second_before(second) {
                return Some(day * DAY + second).filter(|found| within.contains(found));
            }
            left &= below_bit(day - month.start);
        }
        while left == 0 {
            if month.start * DAY <= within.start {
                return None;
            }
            month = Month::of(month.start - 1)?;
            left = self.days(&month);
        }
        let day = month.start + 63 - i64::from(left.leading_zeros());
        Some(day * DAY + self.second_before(DAY)?).filter(|found| within.contains(found))
    }

    /// How many matches there are in a range: days by months, and times by days.
    pub(super) fn count(&self, within: Range<i64>) -> u64 {
        if within.is_empty() {
            return 0;
        }
        let (first, last) = (within.start.div_euclid(DAY), within.end.div_euclid(DAY));
        let mut days = 0;
        let mut next = Month::of(first);
        while let Some(month) = next.filter(|month| month.start < last) {
            let whole = from_bit((first - month.start).max(0)) & below_bit((last - month.start).min(month.len));
            days += u64::from((self.days(&month) & whole).count_ones());
            next = Month::of(month.start + month.len);
        }
        let part = |day: i64, second: i64| if self.on(day) { self.seconds_before(second) } else { 0 };
        let all = days * self.seconds_before(DAY) + part(last, within.end.rem_euclid(DAY));
        all - part(first, within.start.rem_euclid(DAY))
    }

    fn on(&self, day: i64) -> bool {
        Month::of(day).is_some_and(|month| has(self.days(&month), day - month.start))
    }

    /// The days of a month that match; bit 0 is the first.
    fn days(&self, month: &Month) -> u64 {
        if !has(self.months, i64::from(month.number)) {
            return 0;
        }
        let by_number = self.by_number(month);
        let by_weekday = self.by_weekday(month);
        if self.either { by_number | by_weekday } else { by_number & by_weekday }
    }

    fn by_number(&self, month: &Month) -> u64 {
        let MonthDays { days, last, last_weekday, nearest_weekday } = &self.month_days;
        let mut found = (days >> 1) & below_bit(month.len);
        if *last {
            found |= 1 << (month.len - 1);
        }
        if *last_weekday {
            // From a Sunday the nearest weekday is looked for inside the month, which is backwards here.
            found |= 1 << month.nearest_weekday(month.len - 1);
        }
        for index in (0..month.len).filter(|index| has(*nearest_weekday, index + 1)) {
            found |= 1 << month.nearest_weekday(index);
        }
        found
    }

    fn by_weekday(&self, month: &Month) -> u64 {
        let WeekDays { days, last, nth } = &self.week_days;
        let mut found = 0;
        for index in 0..month.len {
            let of_last_week = if index + 7 >= month.len { *last } else { 0 };
            let of_week = nth[(index / 7) as usize];
            if has(days | of_last_week | of_week, i64::from(month.weekday(index))) {
                found |= 1 << index;
            }
        }
        found
    }

    /// The first matching second of a day that is not before one.
    fn second_from(&self, second: i64) -> Option<i64> {
        let (h, m, s) = clock(second);
        let in_hour = |h: i64| {
            let in_minute = || lowest(self.seconds & from_bit(s)).filter(|_| has(self.minutes, m)).map(|s| (m, s));
            let later = || Some((lowest(self.minutes & from_bit(m + 1))?, lowest(self.seconds)?));
            in_minute().or_else(later).filter(|_| has(self.hours, h)).map(|(m, s)| (h, m, s))
        };
        let later = || Some((lowest(self.hours & from_bit(h + 1))?, lowest(self.minutes)?, lowest(self.seconds)?));
        in_hour(h).or_else(later).map(|(h, m, s)| (h * 60 + m) * 60 + s)
    }

    /// The last matching second of a day that is before one.
    fn second_before(&self, second: i64) -> Option<i64> {
        let (h, m, s) = clock(second);
        let in_hour = |h: i64| {
            let in_minute = || highest(self.seconds & below_bit(s)).filter(|_| has(self.minutes, m)).map(|s| (m, s));
            let earlier = || Some((highest(self.minutes & below_bit(m))?, highest(self.seconds)?));
            in_minute().or_else(earlier).filter(|_| has(self.hours, h)).map(|(m, s)| (h, m, s))
        };
        let earlier = || Some((highest(self.hours & below_bit(h))?, highest(self.minutes)?, highest(self.seconds)?));
        in_hour(h).or_else(earlier).map(|(h, m, s)| (h * 60 + m) * 60 + s)
    }

    /// How many seconds of a day match and are before one.
    fn seconds_before(&self, second: i64) -> u64 {
        let (h, m, s) = clock(second);
        let below = |set: u64, n: i64| u64::from((set & below_bit(n)).count_ones());
        let [minutes, seconds] = [self.minutes, self.seconds].map(|set| u64::from(set.count_ones()));
        let in_minute = if has(self.minutes, m) { below(self.seconds, s) } else { 0 };
        let in_hour = if has(self.hours, h) { below(self.minutes, m) * seconds + in_minute } else { 0 };
        below(self.hours, h) * minutes * seconds + in_hour
    }
}

fn clock(second: i64) -> (i64, i64, i64) {
    (second / 3_600, second / 60 % 60, second % 60)
}

fn has(set: u64, n: i64) -> bool {
    (0..64).contains(&n) && set >> n & 1 == 1
}

/// The numbers from n on.
fn from_bit(n: i64) -> u64 {
    !below_bit(n)
}

/// The numbers below n.
fn below_bit(n: i64) -> u64 {
    match n {
        ..=0 => 0,
        64.. => u64::MAX,
        n => (1 << n) - 1,
    }
}

fn lowest(set: u64) -> Option<i64> {
    (set != 0).then(|| i64::from(set.trailing_zeros()))
}

fn highest(set: u64) -> Option<i64> {
    (set != 0).then(|| 63 - i64::from(set.leading_zeros()))
}
