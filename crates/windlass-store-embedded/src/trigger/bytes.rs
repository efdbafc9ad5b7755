//! Numbers and texts in bytes: a number is seven bits at a time, the lowest first; a text has its length before it.

use windlass_core::time::Ms;

use crate::kv::{KvError, Value};

/// The format of a trigger's records; those of `record` are numbered below it.
const TRIGGER: u8 = 4;
const HEAD_BYTES: usize = 5;

/// A record under construction.
pub(super) struct Out(Vec<u8>);

impl Out {
    pub(super) fn new() -> Out {
        let mut bytes = Vec::with_capacity(320);
        bytes.extend_from_slice(&[TRIGGER, 0, 0, 0, 0]);
        Out(bytes)
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn at(&mut self, at: Ms) {
        self.number(at.get());
    }

    /// Nothing is 0, and a number is one more.
    pub(super) fn option(&mut self, number: Option<u64>) {
        self.number(number.map_or(0, |number| number + 1));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// No name is empty, so that an empty one is none.
    pub(super) fn name(&mut self, name: Option<&str>) {
        self.text(name.unwrap_or_default());
    }

    /// What comes last needs no length.
    pub(super) fn rest(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// With its checksum.
    pub(super) fn sealed(mut self) -> Value {
        let sum = crc32fast::hash(&self.0[HEAD_BYTES..]);
        self.0[1..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
        self.0.into()
    }

    /// Without one: a part of another record.
    pub(super) fn part(mut self) -> Vec<u8> {
        self.0.drain(..HEAD_BYTES);
        self.0
    }
}

/// A record that is read from its beginning to its end.
pub(super) struct In<'a>(&'a [u8]);

pub(super) fn damaged() -> KvError {
    KvError::Corrupt("a trigger's record is damaged".into())
}

impl<'a> In<'a> {
    /// Checks format and checksum first.
    pub(super) fn open(record: &'a [u8]) -> Result<In<'a>, KvError> {
        match record {
            [TRIGGER, a, b, c, d, body @ ..] if crc32fast::hash(body) == u32::from_le_bytes([*a, *b, *c, *d]) => {
                Ok(In(body))
            }
            _ => Err(damaged()),
        }
    }

    /// A part of a record that was checked.
    pub(super) fn part(bytes: &'a [u8]) -> In<'a> {
        In(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, KvError> {
        let (first, rest) = self.0.split_first().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(super) fn number(&mut self) -> Result<u64, KvError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(damaged())
    }

    pub(super) fn small(&mut self) -> Result<u32, KvError> {
        u32::try_from(self.number()?).map_err(|_| damaged())
    }

    pub(super) fn at(&mut self) -> Result<Ms, KvError> {
        self.number().map(Ms::new)
    }

    pub(super) fn option(&mut self) -> Result<Option<u64>, KvError> {
        Ok(self.number()?.checked_sub(1))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, KvError> {
        let bytes = usize::try_from(self.number()?).map_err(|_| damaged())?;
        let (text, rest) = self.0.split_at_checked(bytes).ok_or_else(damaged)?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| damaged())
    }

    pub(super) fn parse<T: std::str::FromStr>(&mut self) -> Result<T, KvError> {
        self.text()?.parse().map_err(|_| damaged())
    }

    pub(super) fn name<T: std::str::FromStr>(&mut self) -> Result<Option<T>, KvError> {
        match self.text()? {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| damaged()),
        }
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }
}
