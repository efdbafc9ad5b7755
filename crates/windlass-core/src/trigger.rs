//! Triggers: what is to happen, and when. The rules of *when* are in [`schedule`]: times, intervals, cron, time
//! zones, and what becomes of an occurrence that nobody was there for.

pub mod schedule;
