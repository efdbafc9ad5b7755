//! How a record is stored: a format version, a checksum, and JSON that refuses what it does not know.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kv::{KvError, Value};

/// Format 1: the version, CRC-32 of the rest, JSON.
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 5;

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<Value, KvError> {
    let mut bytes = Vec::with_capacity(512);
    bytes.extend_from_slice(&[VERSION, 0, 0, 0, 0]);
    serde_json::to_writer(&mut bytes, record).map_err(|error| KvError::Corrupt(error.to_string()))?;
    let sum = crc32fast::hash(&bytes[HEAD_BYTES..]);
    bytes[1..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    Ok(bytes.into())
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, KvError> {
    let body = body(bytes)?;
    serde_json::from_slice(body).map_err(|error| KvError::Corrupt(format!("a record does not decode: {error}")))
}

fn body(bytes: &[u8]) -> Result<&[u8], KvError> {
    match bytes {
        [VERSION, a, b, c, d, body @ ..] => match crc32fast::hash(body) == u32::from_le_bytes([*a, *b, *c, *d]) {
            true => Ok(body),
            false => Err(KvError::Corrupt("a record's checksum does not match".into())),
        },
        [version, ..] if *version != VERSION => {
            Err(KvError::Corrupt(format!("a record has format {version}; this program reads {VERSION}")))
        }
        _ => Err(KvError::Corrupt("a record is cut short".into())),
    }
}

pub(crate) fn encode_u64(number: u64) -> Value {
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&crc32fast::hash(&number.to_le_bytes()).to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.into()
}

pub(crate) fn decode_u64(bytes: &[u8]) -> Result<u64, KvError> {
    let body = body(bytes)?;
    body.try_into().map(u64::from_le_bytes).map_err(|_| KvError::Corrupt("a number is cut short".into()))
}

#[cfg(test)]
mod tests;
