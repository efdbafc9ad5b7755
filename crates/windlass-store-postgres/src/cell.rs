//! Values on their way into parameters and out of rows.

use std::error::Error;
use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use windlass_core::id::JobId;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::error::corrupt;

/// What goes with a statement.
pub(crate) type Params = Vec<Box<dyn ToSql + Sync + Send>>;

/// `params![a, b]`: each value moves into its box.
macro_rules! params {
    ($($value:expr),* $(,)?) => { vec![$(Box::new($value) as Box<dyn tokio_postgres::types::ToSql + Sync + Send>),*] };
}
pub(crate) use params;

/// A moment as `timestamptz` sends it: microseconds since 2000.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp(pub(crate) Ms);

/// From 1970 to 2000, in milliseconds.
const EPOCH_MS: i64 = 946_684_800_000;

impl ToSql for Stamp {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let us = (i64::try_from(self.0.get())? - EPOCH_MS) * 1_000;
        out.extend_from_slice(&us.to_be_bytes());
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Stamp {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        let us = i64::from_be_bytes(raw.try_into()?);
        let ms = us.div_euclid(1_000) + EPOCH_MS;
        Ok(Stamp(Ms::new(u64::try_from(ms)?)))
    }

    accepts!(TIMESTAMPTZ);
}

/// A job's id as `uuid` sends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Id(pub(crate) JobId);

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(self.0.bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        JobId::of_bytes(raw.try_into()?).map(Id).ok_or_else(|| "it is not of version 4".into())
    }

    accepts!(UUID);
}

/// A row, read from left to right.
pub(crate) struct Cells<'r> {
    row: &'r Row,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn of(row: &'r Row) -> Cells<'r> {
        Cells { row, next: 0 }
    }

    /// Without the first `skipped` of its columns.
    pub(crate) fn after(row: &'r Row, skipped: usize) -> Cells<'r> {
        Cells { row, next: skipped }
    }

    pub(crate) fn get<T: FromSql<'r>>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        self.next += 1;
        self.row.try_get(at).map_err(|error| corrupt(&self.name(at), crate::error::said(&error)))
    }

    fn name(&self, at: usize) -> String {
        self.row.columns().get(at).map_or_else(|| format!("column {at}"), |column| column.name().to_owned())
    }

    pub(crate) fn at(&mut self) -> Result<Ms, PortError> {
        self.get::<Stamp>().map(|stamp| stamp.0)
    }

    pub(crate) fn at_or_none(&mut self) -> Result<Option<Ms>, PortError> {
        self.get::<Option<Stamp>>().map(|stamp| stamp.map(|stamp| stamp.0))
    }

    /// A `bigint` that is never negative.
    pub(crate) fn count<T: TryFrom<i64>>(&mut self) -> Result<T, PortError> {
        let n = self.get()?;
        self.in_range(n)
    }

    /// Likewise; nothing means none.
    pub(crate) fn count_or_zero<T: TryFrom<i64>>(&mut self) -> Result<T, PortError> {
        let n: Option<i64> = self.get()?;
        self.in_range(n.unwrap_or(0))
    }

    /// Of the column that was just read.
    fn in_range<T: TryFrom<i64>>(&self, n: i64) -> Result<T, PortError> {
        T::try_from(n).map_err(|_| corrupt(&self.name(self.next - 1), format!("{n} is out of range")))
    }

    /// Text that is checked as it is read: ids, names, numbers beyond 63 bits.
    pub(crate) fn parse<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        let text: &str = self.get()?;
        text.parse().map_err(|why| corrupt(&self.name(at), why))
    }

    pub(crate) fn parse_or_none<T: FromStr<Err: std::fmt::Display>>(&mut self) -> Result<Option<T>, PortError> {
        let at = self.next;
        let text: Option<&str> = self.get()?;
        text.map(str::parse).transpose().map_err(|why| corrupt(&self.name(at), why))
    }

    /// A word of an enum, as JSON writes it.
    pub(crate) fn word<T: DeserializeOwned>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        let text: String = self.get()?;
        serde_json::from_value(serde_json::Value::String(text)).map_err(|why| corrupt(&self.name(at), why))
    }

    /// A JSON document.
    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, PortError> {
        let at = self.next;
        serde_json::from_str(self.get()?).map_err(|why| corrupt(&self.name(at), why))
    }

    pub(crate) fn json_or_none<T: DeserializeOwned>(&mut self) -> Result<Option<T>, PortError> {
        let at = self.next;
        let text: Option<&str> = self.get()?;
        text.map(serde_json::from_str).transpose().map_err(|why| corrupt(&self.name(at), why))
    }
}

/// The JSON of one of our own values.
pub(crate) fn json<T: Serialize>(value: &T) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|why| PortError::Invalid(format!("a value has no JSON: {why}")))
}

/// The word of an enum, as JSON writes it, without its quotes.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String, PortError> {
    json(value).map(|text| text.trim_matches('"').to_owned())
}

/// An unsigned number where the database has signed ones. What does not fit fits nothing that is stored.
pub(crate) fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_back_to_the_millisecond() {
        for ms in [Ms::ZERO, Ms::new(1), Ms::new(946_684_800_000), Ms::new(1_763_164_800_123), Ms::MAX] {
            let mut out = BytesMut::new();
            Stamp(ms).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
            assert_eq!(Stamp::from_sql(&Type::TIMESTAMPTZ, &out).unwrap().0, ms);
        }
    }
}
