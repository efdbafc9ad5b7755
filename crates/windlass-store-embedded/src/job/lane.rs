//! A lane: one tenant's live jobs in one queue. Of those that wait it holds the next ones of each priority in memory
//! and knows where the rest begins, so that memory does not grow with what is stored and a claim does not look at what
//! was claimed before.

use std::collections::BTreeMap;

use windlass_core::id::JobId;
use windlass_core::job::JobStatus;
use windlass_core::time::Ms;

use super::record;
use crate::key::{self, Place};
use crate::kv::{KvError, Read, Value};

/// Waiting jobs of one priority that are read at once …
const READ: usize = 512;
/// … and that are held, at most.
const HELD_MAX: usize = 2 * READ;
/// What a held job takes beside its record, about.
const ENTRY_BYTES: usize = 96;

/// Where a lane waits for its next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spot {
    /// In its queue's ring: something can be claimed, or may be.
    Ring,
    /// Until its next job's time.
    Timer(Ms),
    /// Until its tenant has room.
    Blocked,
    /// Nothing waits.
    Idle,
}

pub(super) struct Lane {
    /// PENDING jobs.
    pub(super) waiting: u64,
    /// RUNNING jobs.
    pub(super) running: u32,
    pub(super) spot: Spot,
    /// The count differs from the stored one.
    pub(super) dirty: bool,
    /// RUNNING jobs whose lease has run out, by their place.
    pub(super) lost: BTreeMap<Place, JobId>,
    /// What waits, by priority; `None` if that has not been looked at.
    levels: Option<BTreeMap<u8, Level>>,
    /// What is held takes so much memory.
    pub(super) bytes: usize,
    /// Its number among the lanes that hold something.
    pub(super) holder: Option<u64>,
}

/// Jobs of one priority that wait: all up to `upto` are held.
#[derive(Default)]
struct Level {
    held: BTreeMap<(Ms, u64), Value>,
    /// `None`: all are held.
    upto: Option<(Ms, u64)>,
}

impl Lane {
    /// One that has no jobs yet.
    pub(super) fn empty() -> Lane {
        Lane { levels: Some(BTreeMap::new()), ..Lane::stored(0) }
    }

    /// One of which only the count is known.
    pub(super) fn stored(waiting: u64) -> Lane {
        Lane {
            waiting,
            running: 0,
            spot: Spot::Idle,
            dirty: false,
            lost: BTreeMap::new(),
            levels: None,
            bytes: 0,
            holder: None,
        }
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.levels.is_some()
    }

    /// Lets go of what is held.
    pub(super) fn unload(&mut self) {
        (self.levels, self.bytes, self.holder) = (None, 0, None);
    }

    /// A job waits at `place` from now on.
    pub(super) fn add(&mut self, place: Place, record: &Value) {
        let Some(levels) = &mut self.levels else { return };
        let level = levels.entry(place.level).or_default();
        if level.upto.is_none_or(|upto| (place.run_at, place.seq) <= upto) {
            self.bytes += record.len() + ENTRY_BYTES;
            level.held.insert((place.run_at, place.seq), record.clone());
            self.bytes -= level.shorten();
        }
    }

    /// A job does not wait at `place` any more.
    pub(super) fn take(&mut self, place: Place) -> Option<Value> {
        let levels = self.levels.as_mut()?;
        let level = levels.get_mut(&place.level)?;
        let record = level.held.remove(&(place.run_at, place.seq))?;
        self.bytes -= record.len() + ENTRY_BYTES;
        if level.held.is_empty() && level.upto.is_none() {
            levels.remove(&place.level);
        }
        Some(record)
    }

    /// The record of a job that waits.
    pub(super) fn held(&self, place: Place) -> Option<&Value> {
        self.levels.as_ref()?.get(&place.level)?.held.get(&(place.run_at, place.seq))
    }

    /// The first job that waits and whose time has come.
    pub(super) fn due(&mut self, read: &dyn Read, lane: &[u8], now: Ms) -> Result<Option<Place>, KvError> {
        self.fill(read, lane)?;
        let firsts = self.firsts().filter(|place| place.run_at <= now);
        Ok(firsts.min())
    }

    /// When the first job's time comes, whatever its priority.
    pub(super) fn next(&mut self, read: &dyn Read, lane: &[u8]) -> Result<Option<Ms>, KvError> {
        self.fill(read, lane)?;
        Ok(self.firsts().map(|place| place.run_at).min())
    }

    fn firsts(&self) -> impl Iterator<Item = Place> + '_ {
        self.levels.iter().flatten().filter_map(|(level, jobs)| {
            let ((run_at, seq), _) = jobs.held.first_key_value()?;
            Some(Place { level: *level, run_at: *run_at, seq: *seq })
        })
    }

    /// Reads until the first job of each priority is held.
    fn fill(&mut self, read: &dyn Read, lane: &[u8]) -> Result<(), KvError> {
        let Some(levels) = &mut self.levels else { return self.load(read, lane) };
        let mut empty = Vec::new();
        for (level, jobs) in levels.iter_mut() {
            while let (true, Some((run_at, seq))) = (jobs.held.is_empty(), jobs.upto) {
                let from = key::live(lane, Place { level: *level, run_at, seq: seq.saturating_add(1) });
                self.bytes += jobs.read(read, from, lane, *level)?;
            }
            if jobs.held.is_empty() {
                empty.push(*level);
            }
        }
        for level in empty {
            levels.remove(&level);
        }
        Ok(())
    }

    /// Reads the first jobs of every priority.
    fn load(&mut self, read: &dyn Read, lane: &[u8]) -> Result<(), KvError> {
        let mut levels = BTreeMap::new();
        let mut bytes = 0;
        let mut next = Some(0u8);
        while let Some(least) = next {
            // The priority of the first job that there is from here on.
            let (from, (_, to)) = (key::live(lane, Place::first_of(least)), key::within(lane.to_vec()));
            let mut found = None;
            read.scan(&from, &to, &mut |key, _| {
                found = Place::of_key(key).map(|place| place.level);
                Ok(false)
            })?;
            let Some(level) = found else { break };
            let mut jobs = Level::default();
            bytes += jobs.read(read, key::live(lane, Place::first_of(level)), lane, level)?;
            if !jobs.held.is_empty() || jobs.upto.is_some() {
                levels.insert(level, jobs);
            }
            next = level.checked_add(1);
        }
        (self.levels, self.bytes) = (Some(levels), bytes);
        self.fill(read, lane)
    }
}

impl Level {
    /// Holds the next jobs from `from` on; answers the memory they take.
    fn read(&mut self, read: &dyn Read, from: Vec<u8>, lane: &[u8], level: u8) -> Result<usize, KvError> {
        let to = match level.checked_add(1) {
            Some(next) => key::live(lane, Place::first_of(next)),
            None => key::within(lane.to_vec()).1,
        };
        let (mut bytes, mut seen, mut last) = (0, 0, None);
        read.scan(&from, &to, &mut |key, record| {
            let place = Place::of_key(key).ok_or_else(|| KvError::Corrupt("a job's key is cut short".into()))?;
            let at = (place.run_at, place.seq);
            if record::status(record)? == JobStatus::Pending {
                bytes += record.len() + ENTRY_BYTES;
                self.held.insert(at, record.clone());
            }
            seen += 1;
            last = Some(at);
            Ok(seen < READ)
        })?;
        self.upto = last.filter(|_| seen == READ);
        Ok(bytes)
    }

    /// Lets go of the last ones if there are too many; answers the memory they took.
    fn shorten(&mut self) -> usize {
        let mut bytes = 0;
        while self.held.len() > HELD_MAX
            && let Some((_, record)) = self.held.pop_last()
        {
            bytes += record.len() + ENTRY_BYTES;
            self.upto = self.held.last_key_value().map(|(at, _)| *at);
        }
        bytes
    }
}
