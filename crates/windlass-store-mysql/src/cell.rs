//! Values on their way out of rows. Everything comes as text.

use std::str::FromStr;

use mysql_async::{Row, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::error::{corrupt, unanswered};

/// A row, read from its first column to its last.
#[derive(Clone)]
pub(crate) struct Cells<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r Row) -> Cells<'r> {
        Cells { row, next: 0 }
    }

    fn name(&self, at: usize) -> String {
        self.row.columns_ref().get(at).map_or_else(|| format!("column {at}"), |column| column.name_str().into_owned())
    }

    pub(crate) fn text_or_none(&mut self) -> Result<Option<&'r str>, PortError> {
        let at = self.next;
        self.next += 1;
        match self.row.as_ref(at) {
            Some(Value::NULL) => Ok(None),
            Some(Value::Bytes(bytes)) => {
                std::str::from_utf8(bytes).map(Some).map_err(|why| corrupt(&self.name(at), why))
            }
            Some(_) => Err(corrupt(&self.name(at), "it is no text")),
            None => Err(corrupt(&self.name(at), "there is no such column")),
        }
    }

    pub(crate) fn text(&mut self) -> Result<&'r str, PortError> {
        let at = self.next;
        self.text_or_none()?.ok_or_else(|| corrupt(&self.name(at), "there is nothing"))
    }

    /// Text that is checked as it is read: ids, names, numbers.
    pub(crate) fn parse<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        self.text()?.parse().map_err(|why| corrupt(&self.name(at), why))
    }

    pub(crate) fn parse_or_none<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<Option<T>, PortError> {
        let at = self.next;
        self.text_or_none()?.map(str::parse).transpose().map_err(|why| corrupt(&self.name(at), why))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, PortError> {
        self.parse::<u8>().map(|flag| flag != 0)
    }

    pub(crate) fn at(&mut self) -> Result<Ms, PortError> {
        let at = self.next;
        self.at_or_none()?.ok_or_else(|| corrupt(&self.name(at), "there is no time"))
    }

    pub(crate) fn at_or_none(&mut self) -> Result<Option<Ms>, PortError> {
        let at = self.next;
        let Some(text) = self.text_or_none()? else { return Ok(None) };
        moment(text).map(Some).ok_or_else(|| corrupt(&self.name(at), "it is no time"))
    }

    /// A word of an enum, as JSON writes it.
    pub(crate) fn word<T: DeserializeOwned>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        let text = self.text()?.to_owned();
        serde_json::from_value(serde_json::Value::String(text)).map_err(|why| corrupt(&self.name(at), why))
    }

    /// A JSON document.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        serde_json::from_str(self.text()?).map_err(|why| corrupt(&self.name(at), why))
    }

    pub(crate) fn json_or_none<T: DeserializeOwned>(&mut self) -> Result<Option<T>, PortError> {
        let at = self.next;
        self.text_or_none()?.map(serde_json::from_str).transpose().map_err(|why| corrupt(&self.name(at), why))
    }
}

/// `2026-11-15 16:05:00.123`, in UTC.
fn moment(text: &str) -> Option<Ms> {
    let digits = |range: std::ops::Range<usize>| text.get(range)?.parse::<i64>().ok();
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let ms = if text.len() > 19 { digits(20..23)? } else { 0 };
    // Days since 1970 in years that begin in March, so that the day that comes and goes is the last.
    let (shifted, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468;
    let all = (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms;
    u64::try_from(all).ok().map(Ms::new)
}

/// The answers of a script, one after the other.
pub(crate) struct Answers(std::vec::IntoIter<Vec<Row>>);

impl Answers {
    pub(crate) fn of(all: Vec<Vec<Row>>) -> Answers {
        Answers(all.into_iter())
    }

    pub(crate) fn next(&mut self) -> Result<Vec<Row>, PortError> {
        self.0.next().ok_or_else(unanswered)
    }

    /// The one time that was asked for.
    pub(crate) fn now(&mut self) -> Result<Ms, PortError> {
        one(&self.next()?)?.at()
    }
}

/// The first row, which is always there.
pub(crate) fn one(rows: &[Row]) -> Result<Cells<'_>, PortError> {
    rows.first().map(Cells::of).ok_or_else(unanswered)
}

/// The JSON of one of our own values.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|why| PortError::Invalid(format!("a value has no JSON: {why}")))
}

/// The word of an enum, as JSON writes it, without its quotes.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String, PortError> {
    json(value).map(|text| text.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::literal;

    #[test]
    fn a_moment_comes_back_to_the_millisecond() {
        let leap = Ms::parse("2028-02-29T23:59:59.999Z").unwrap();
        for ms in [Ms::ZERO, Ms::new(1), Ms::new(946_684_800_000), leap, Ms::new(1_763_164_800_123), Ms::MAX] {
            let text = literal(ms).replace('T', " ");
            assert_eq!(moment(text.trim_matches('\'')), Some(ms));
        }
        assert_eq!(moment("1970-01-01 00:00:01"), Some(Ms::new(1_000)));
        assert_eq!((moment(""), moment("0000-00-00 00:00:00.000"), moment("yesterday")), (None, None, None));
    }
}
