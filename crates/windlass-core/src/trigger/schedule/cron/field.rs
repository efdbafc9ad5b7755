//! The fields of a cron expression, from text to sets of numbers.

use super::calendar::{Calendar, MonthDays, WeekDays};
use crate::plan::file::problem::shown;

/// What is wrong, and what to do.
type Bad = (String, String);

/// A field's name, its least and greatest number, and names for numbers from the least on.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const SECOND: Field = Field { name: "second", min: 0, max: 59, names: &[] };
const MINUTE: Field = Field { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: Field = Field { name: "hour", min: 0, max: 23, names: &[] };
const MONTH_DAY: Field = Field { name: "day-of-month", min: 1, max: 31, names: &[] };
const MONTH: Field = Field { name: "month", min: 1, max: 12, names: &MONTHS };
/// 7 is Sunday too, so that a week may end with it.
const WEEK_DAY: Field = Field { name: "day-of-week", min: 0, max: 7, names: &DAYS };

/// Words that stand for expressions.
const WORDS: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// What an expression matches, and whether it is a running one.
pub(super) fn parse(text: &str) -> Result<(Calendar, bool), Bad> {
    let lower = text.to_ascii_lowercase();
    let fields: Vec<&str> = expanded(lower.trim())?.split_whitespace().collect();
    let (second, [minute, hour, month_day, month, week_day]) = match fields[..] {
        [a, b, c, d, e] => ("0", [a, b, c, d, e]),
        [s, a, b, c, d, e] => (s, [a, b, c, d, e]),
        _ => {
            let message = format!("{} has {} fields; 5 or 6 are expected", shown(text), fields.len());
            let help = "write minute, hour, day-of-month, month and day-of-week, as in `0 9 * * mon-fri`; \
                        a sixth in front is the second";
            return Err((message, help.to_owned()));
        }
    };
    let open = |field: &str| field.contains(['*', '?']);
    let calendar = Calendar {
        seconds: set(&SECOND, second)?,
        minutes: set(&MINUTE, minute)?,
        hours: set(&HOUR, hour)?,
        months: set(&MONTH, month)?,
        month_days: month_days(month_day)?,
        week_days: week_days(week_day)?,
        either: !open(month_day) && !open(week_day),
    };
    Ok((calendar, [second, minute, hour].iter().any(|field| field.contains('*'))))
}

fn expanded(text: &str) -> Result<&str, Bad> {
    if !text.starts_with('@') {
        return Ok(text);
    }
    let found = WORDS.iter().find(|(word, _)| *word == text).map(|(_, expression)| *expression);
    found.ok_or_else(|| {
        let help = format!("write five fields, or one of {}", WORDS.map(|(word, _)| word).join(", "));
        (format!("{} is not known", shown(text)), help)
    })
}

fn set(field: &Field, text: &str) -> Result<u64, Bad> {
    text.split(',').try_fold(0, |set, item| Ok(set | field.item(item)?))
}

fn month_days(text: &str) -> Result<MonthDays, Bad> {
    let mut found = MonthDays::default();
    for item in open(text).split(',') {
        match (item, item.strip_suffix('w')) {
            ("l", _) => found.last = true,
            ("lw", _) => found.last_weekday = true,
            (_, Some(day)) => found.nearest_weekday |= 1 << MONTH_DAY.number(day)?,
            _ => found.days |= MONTH_DAY.item(item)?,
        }
    }
    Ok(found)
}

fn week_days(text: &str) -> Result<WeekDays, Bad> {
    let mut found = WeekDays::default();
    for item in open(text).split(',') {
        if let Some(day) = item.strip_suffix('l') {
            found.last |= sunday_once(1 << WEEK_DAY.number(day)?);
        } else if let Some((day, nth)) = item.split_once('#') {
            let nth = digits(nth).filter(|nth| (1..=5).contains(nth)).ok_or_else(|| {
                let message = format!("{} in the day-of-week field names no week of a month", shown(item));
                (message, "write a number from 1 to 5 after `#`, as in `fri#2`".to_owned())
            })?;
            found.nth[nth as usize - 1] |= sunday_once(1 << WEEK_DAY.number(day)?);
        } else {
            found.days |= sunday_once(WEEK_DAY.item(item)?);
        }
    }
    Ok(found)
}

/// `?` alone says what `*` says.
fn open(text: &str) -> &str {
    if text == "?" { "*" } else { text }
}

/// Sunday as 0 only.
fn sunday_once(days: u64) -> u64 {
    (days | days >> 7) & 0x7f
}

impl Field {
    /// `*`, `a`, `a-b`, and the first and the last of these with `/n`.
    fn item(&self, item: &str) -> Result<u64, Bad> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (from, to) = match range.split_once('-') {
            // A week's every second day is counted from Sunday to Saturday; the other Sunday is no eighth day.
            None if range == "*" => (self.min, if self.max == 7 { 6 } else { self.max }),
            None if step.is_some() => {
                let message = format!("{} in the {} field has a step but no range", shown(item), self.name);
                return Err((message, format!("write where it ends, as in `{range}-{}/n`", self.max)));
            }
            None => {
                let number = self.number(range)?;
                (number, number)
            }
            Some((from, to)) => (self.number(from)?, self.end(to)?),
        };
        if from > to {
            let message = format!("{} in the {} field ends before it begins", shown(item), self.name);
            return Err((message, format!("write two ranges, as in `{from}-{},{}-{to}`", self.max, self.min)));
        }
        let step = step.map_or(Ok(1), |step| self.step(step, item))?;
        Ok((from..=to).step_by(step).fold(0, |set, n| set | 1 << n))
    }

    fn step(&self, step: &str, item: &str) -> Result<usize, Bad> {
        let most = self.max - self.min + u32::from(self.max != 7);
        let inside = digits(step).filter(|n| (1..=most).contains(n));
        inside.map(|n| n as usize).ok_or_else(|| {
            let message = format!("the step of {} in the {} field is not from 1 to {most}", shown(item), self.name);
            (message, "write a smaller step, or use the schedule `every` for longer intervals".to_owned())
        })
    }

    /// A range may end with `sun`, as a week does.
    fn end(&self, text: &str) -> Result<u32, Bad> {
        if self.max == 7 && text == "sun" { Ok(7) } else { self.number(text) }
    }

    fn number(&self, text: &str) -> Result<u32, Bad> {
        if let Some(at) = self.names.iter().position(|name| *name == text) {
            return Ok(self.min + at as u32);
        }
        digits(text).filter(|n| (self.min..=self.max).contains(n)).ok_or_else(|| {
            let names = match self.names {
                [first, .., last] => format!(" or a name from {first} to {last}"),
                _ => String::new(),
            };
            let message = format!("{} is no {}", shown(text), self.name);
            (message, format!("write a number from {} to {}{names}", self.min, self.max))
        })
    }
}

/// A number of one or two digits; Rust would read a sign too.
fn digits(text: &str) -> Option<u32> {
    (matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}
