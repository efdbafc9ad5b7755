//! Bounds of the server. Everything that somebody outside can make larger has one.

use std::time::Duration;

/// The largest page of a list, and what is given without a limit.
pub(crate) const PAGE_DEFAULT: u32 = 100;
/// The longest wait that may be asked for.
pub(crate) const WAIT_MS_MAX: u64 = 60_000;
/// Jobs in one submission.
pub(crate) const JOBS_MAX: usize = 1_000;
/// Arrays and objects inside each other.
pub(crate) const DEPTH_MAX: usize = 64;
/// The longest idempotency key.
pub(crate) const KEY_BYTES_MAX: usize = 256;

/// What one server takes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; further ones wait to be accepted.
    pub connections: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// How long the head of a request may take.
    pub head: Duration,
    /// How long its body may take.
    pub body: Duration,
    /// How long a client may leave what was sent to it unread, when there is no room for more.
    pub write: Duration,
    /// Streams of events.
    pub streams: usize,
    /// Requests that wait (`?wait=`).
    pub waits: usize,
    /// How long a stop waits for requests that are being answered.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 1_024,
            body_bytes: 16 << 20,
            head: Duration::from_secs(30),
            body: Duration::from_secs(30),
            write: Duration::from_secs(30),
            streams: 256,
            waits: 512,
            drain: Duration::from_secs(5),
        }
    }
}
