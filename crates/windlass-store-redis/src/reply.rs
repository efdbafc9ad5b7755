//! What the server answers, read piece by piece. Whatever is not as expected is damage.

use std::str::FromStr;

use redis::Value;
use windlass_core::port::PortError;
use windlass_core::time::Ms;

use crate::error::corrupt;

/// The parts of an array, one after the other.
pub(crate) struct Parts {
    rest: std::vec::IntoIter<Value>,
}

pub(crate) fn parts(value: Value) -> Result<Parts, PortError> {
    Ok(Parts { rest: array(value)?.into_iter() })
}

pub(crate) fn array(value: Value) -> Result<Vec<Value>, PortError> {
    match value {
        Value::Array(all) => Ok(all),
        Value::Nil => Ok(Vec::new()),
        other => Err(corrupt("an answer", format!("{other:?} is no list"))),
    }
}

pub(crate) fn number<N: TryFrom<i64> + FromStr>(value: Value) -> Result<N, PortError> {
    let no = || corrupt("an answer", "no such number");
    match value {
        Value::Int(n) => N::try_from(n).map_err(|_| no()),
        other => text(other)?.parse().map_err(|_| no()),
    }
}

pub(crate) fn text(value: Value) -> Result<String, PortError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|error| corrupt("a text", error)),
        Value::SimpleString(text) => Ok(text),
        Value::Int(n) => Ok(n.to_string()),
        Value::Nil => Ok(String::new()),
        other => Err(corrupt("an answer", format!("{other:?} is no text"))),
    }
}

/// A text as it came.
pub(crate) fn bytes(value: &Value) -> Result<&[u8], PortError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        other => Err(corrupt("an answer", format!("{other:?} is no text"))),
    }
}

impl Parts {
    pub(crate) fn value(&mut self) -> Result<Value, PortError> {
        self.rest.next().ok_or_else(|| corrupt("an answer", "it is too short"))
    }

    /// A text; what is not there is empty.
    pub(crate) fn text(&mut self) -> Result<String, PortError> {
        text(self.value()?)
    }

    /// `None` for what is empty.
    pub(crate) fn some(&mut self) -> Result<Option<String>, PortError> {
        Ok(Some(self.text()?).filter(|text| !text.is_empty()))
    }

    pub(crate) fn parse<T: FromStr>(&mut self) -> Result<T, PortError>
    where
        T::Err: std::fmt::Display,
    {
        self.text()?.parse().map_err(|error| corrupt("a value", error))
    }

    pub(crate) fn number<N: TryFrom<i64> + FromStr>(&mut self) -> Result<N, PortError> {
        number(self.value()?)
    }

    pub(crate) fn at(&mut self) -> Result<Ms, PortError> {
        Ok(Ms::new(self.number()?))
    }

    pub(crate) fn parts(&mut self) -> Result<Parts, PortError> {
        parts(self.value()?)
    }
}

impl Iterator for Parts {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        self.rest.next()
    }
}
