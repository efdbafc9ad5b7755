//! How a record is stored: a format version, a checksum, and JSON that refuses what it does not know.
//! Records that are larger than a few words are packed against a dictionary of the words they are
//! made of: a durable commit takes as long as the bytes it writes, and most of a record's bytes are
//! the names of its fields.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::kv::{KvError, Value};

/// The version, CRC-32 of the rest, JSON.
const PLAIN: u8 = 1;
/// The version, CRC-32 of the rest, the JSON's length (4 bytes, little end first), and the JSON as an
/// LZ4 block that may refer to [`WORDS`].
const PACKED: u8 = 2;
pub(crate) const HEAD_BYTES: usize = 5;
/// The version, CRC-32 of the rest, and a job as `job/record.rs` writes it.
pub(crate) const JOB: u8 = 3;
/// Not worth packing below.
const PACK_BYTES_MIN: usize = 96;
/// No record is larger when it is unpacked: the bound of what is written, with room to spare.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// The dictionary of [`PACKED`]. A part of the format: it never changes, another one needs another
/// version.
const WORDS: &[u8] = br#"{"id":"","since":,"until":}{"fence":,"latest":"","started":""}{"digest":0,"version":1,"seq":1,"at":,"answer":{}}"control":{"pause":{"cause":"PERSON","by":"","reason":""},"cancel":{"cause":"PLAN"},"start":{"kind":"RETRY","range":{"from":0,"to":},"pass":2}}"hold":{"cause":"APPROVAL"},"endedAt":"failure":{"kind":"STAGE","message":"","stage":"","attempt":1,"at":}"context":{}{"config":{"endpoint":"http://127.0.0.1:","version":},"previous":{"endpoint":"http://","version":}}{"plan":{"planId":"","name":"","status":"RUNNING","tasks":,"maxConcurrency":,"onFailure":"continue","onConflict":"skip","recovery":"manual","conductor":"","cancelled":false,"createdAt":,"startedAt":,"updatedAt":},"version":,"seq":}{"first":1,"events":[{"at":,"fact":{"TaskCreated":{"position":,"stages":["stage-0","stage-1"]}}},{"at":,"fact":{"TaskStarted":{"range":{"from":0,"to":},"pass":1,"instance":"","fence":}}},{"at":,"fact":{"TaskCompleted":{}}}]}{"tenantId":"","planId":"","taskId":"","fence":,"since":,"until":}{"first":,"events":[{"at":,"fact":{"StageCompleted":{"at":{"index":,"stage":"stage-"},"tookMs":}}},{"at":,"fact":{"StageStarted":{"index":,"stage":"stage-"}}}]}{"lastCompletedStageIndex":,"completedStages":["stage-0","stage-1","stage-2"],"contextData":{"stage-0":{"status":200},"stage-1":{"status":200}},"savedAt":"202-01-01T00:00:00.000Z","version":,"executorInstance":"","fence":,"pass":1,"stageDurations":{"stage-0":,"stage-1":}}{"task":{"taskId":"task-","tenantId":"tenant-","planId":"plan-","position":,"status":"PENDING","stages":,"completed":0,"pass":1,"retries":0,"takenBack":false,"fence":0,"readyAt":0,"createdAt":,"updatedAt":},"checkpoint":0,"version":1,"seq":1}{"task":{"taskId":"","tenantId":"","planId":"","position":,"status":"RUNNING","stages":,"completed":,"stage":,"attempt":{"number":1,"kind":"FIRST","range":{"from":0,"to":},"done":},"pass":1,"retries":0,"takenBack":false,"owner":"","fence":,"readyAt":0,"createdAt":,"startedAt":,"updatedAt":},"checkpoint":,"version":,"seq":,"op":{"id":"","digest":0,"at":}}"#;

pub(crate) fn encode<T: Serialize>(record: &T) -> Result<Value, KvError> {
    let mut plain = Vec::with_capacity(1024);
    plain.extend_from_slice(&[PLAIN, 0, 0, 0, 0]);
    serde_json::to_writer(&mut plain, record).map_err(|error| KvError::Corrupt(error.to_string()))?;
    let body = &plain[HEAD_BYTES..];
    if body.len() > RECORD_BYTES_MAX {
        return Err(KvError::Corrupt(format!("a record of {} bytes is too large", body.len())));
    }
    if body.len() >= PACK_BYTES_MIN {
        let mut packed = vec![0; HEAD_BYTES + 4 + lz4_flex::block::get_maximum_output_size(body.len())];
        let room = &mut packed[HEAD_BYTES + 4..];
        if let Ok(bytes) = lz4_flex::block::compress_into_with_dict(body, room, WORDS)
            && bytes + 4 < body.len()
        {
            packed[0] = PACKED;
            packed[HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&(body.len() as u32).to_le_bytes());
            packed.truncate(HEAD_BYTES + 4 + bytes);
            return Ok(sealed(packed));
        }
    }
    Ok(sealed(plain))
}

/// Puts the checksum into the head.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Value {
    let sum = crc32fast::hash(&bytes[HEAD_BYTES..]);
    bytes[1..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
    bytes.into()
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, KvError> {
    let wrong = |error: serde_json::Error| KvError::Corrupt(format!("a record does not decode: {error}"));
    match body(bytes)? {
        (PLAIN, json) => serde_json::from_slice(json).map_err(wrong),
        (JOB, _) => Err(KvError::Corrupt("a job stands where another record should".into())),
        (_, packed) => serde_json::from_slice(&unpack(packed)?).map_err(wrong),
    }
}

fn unpack(packed: &[u8]) -> Result<Vec<u8>, KvError> {
    let damaged = || KvError::Corrupt("a packed record does not unpack".into());
    let (size, block) = packed.split_first_chunk::<4>().ok_or_else(damaged)?;
    let size = u32::from_le_bytes(*size) as usize;
    if size > RECORD_BYTES_MAX {
        return Err(damaged());
    }
    let mut json = vec![0; size];
    match lz4_flex::block::decompress_into_with_dict(block, &mut json, WORDS) {
        Ok(bytes) if bytes == size => Ok(json),
        _ => Err(damaged()),
    }
}

/// The format and what stands behind the checksum, once that is right.
pub(crate) fn body(bytes: &[u8]) -> Result<(u8, &[u8]), KvError> {
    match bytes {
        [version @ (PLAIN | PACKED | JOB), a, b, c, d, body @ ..] => {
            match crc32fast::hash(body) == u32::from_le_bytes([*a, *b, *c, *d]) {
                true => Ok((*version, body)),
                false => Err(KvError::Corrupt("a record's checksum does not match".into())),
            }
        }
        [version, ..] if !matches!(*version, PLAIN | PACKED | JOB) => {
            Err(KvError::Corrupt(format!("a record has format {version}; this program reads {PLAIN} to {JOB}")))
        }
        _ => Err(KvError::Corrupt("a record is cut short".into())),
    }
}

pub(crate) fn encode_u64(number: u64) -> Value {
    let mut bytes = vec![PLAIN, 0, 0, 0, 0];
    bytes.extend_from_slice(&number.to_le_bytes());
    sealed(bytes)
}

pub(crate) fn decode_u64(bytes: &[u8]) -> Result<u64, KvError> {
    let (_, body) = body(bytes)?;
    body.try_into().map(u64::from_le_bytes).map_err(|_| KvError::Corrupt("a number is cut short".into()))
}

/// Bytes as they are, with a checksum.
pub(crate) fn encode_bytes(bytes: &[u8]) -> Value {
    let mut record = Vec::with_capacity(HEAD_BYTES + bytes.len());
    record.extend_from_slice(&[PLAIN, 0, 0, 0, 0]);
    record.extend_from_slice(bytes);
    sealed(record)
}

pub(crate) fn decode_bytes(bytes: &[u8]) -> Result<&[u8], KvError> {
    body(bytes).map(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests;
