//! Every bound of a plan file that is not a bound of the stored types, in one table.

use std::ops::RangeInclusive;

/// A plan file, in bytes, at most.
pub const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maps and lists inside each other, at most.
pub const DEPTH_MAX: usize = 64;
/// `config` and `previous`, each, as compact JSON, at most.
pub const SETTINGS_BYTES_MAX: usize = 256 * 1024;
/// One template, at most.
pub const TEMPLATE_BYTES_MAX: usize = 64 * 1024;

/// `json`, `payload`, `args` and `equals`, as compact JSON: what a job's payload may have.
pub(super) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// URLs of one poll.
pub(super) const URLS_MAX: usize = 1_000;
/// A handler's name, in bytes.
pub(super) const HANDLER_NAME_BYTES_MAX: usize = 128;

const SECOND: u64 = 1_000;
const DAY: u64 = 24 * 60 * 60 * SECOND;

// Durations, in milliseconds.
pub(super) const TIMEOUT: RangeInclusive<u64> = 1..=7 * DAY;
pub(super) const SLEEP: RangeInclusive<u64> = 0..=30 * DAY;
pub(super) const BACKOFF: RangeInclusive<u64> = 0..=DAY;
/// Shorter than this is a flood, not a poll.
pub(super) const POLL_EVERY: RangeInclusive<u64> = 10..=DAY;

// Whole numbers.
pub(super) const MAX_CONCURRENCY: RangeInclusive<u64> = 1..=10_000;
pub(super) const RETRY_LIMIT: RangeInclusive<u64> = 0..=1_000;
pub(super) const RETRY_MAX: RangeInclusive<u64> = 0..=100;
pub(super) const POLL_ATTEMPTS: RangeInclusive<u64> = 1..=10_000;
pub(super) const STATUS: RangeInclusive<u64> = 100..=599;

// Defaults that no stored type has.
pub(super) const POLL_EVERY_MS: u64 = 3 * SECOND;
pub(super) const POLL_ATTEMPTS_DEFAULT: u32 = 10;
