//! The queues of a worker: what waits here of each, how much runs, and how much more of it fits.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName};
use windlass_core::job::Job;
use windlass_core::port::BATCH_MAX;
use windlass_core::port::job::{CLAIM_MAX, QUEUES_MAX};

use super::Lane;
use crate::error::Error;

/// Up to so many are asked for in one turn, whatever fits.
const WHOLE_MAX: u32 = 32;

/// A queue that is worked on.
pub(super) struct Place {
    pub(super) lane: Lane,
    /// Claimed and not begun, each with when it came.
    pub(super) waiting: VecDeque<(Job, Instant)>,
    pub(super) running: u32,
    /// Asked for in turns that are on their way.
    asked: u32,
    /// How many are claimed ahead, at the pace of late.
    ahead: u32,
    /// One that began waited long here, compared with the store.
    pub(super) slow: bool,
    /// There may be work in the store.
    pub(super) look: bool,
}

impl Place {
    pub(super) fn has_slot(&self) -> bool {
        self.running < self.lane.concurrency
    }

    fn free(&self) -> u32 {
        let waiting = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        let taken = self.running.saturating_add(self.asked).saturating_add(waiting);
        let all = self.lane.concurrency.saturating_add(self.ahead);
        // Two turns may be on their way: what one asks for is worked on while the store is at the other.
        all.saturating_sub(taken).min(all.div_ceil(2).max(WHOLE_MAX))
    }

    /// The store is asked. What waits long here could begin elsewhere.
    pub(super) fn asks(&mut self) {
        if std::mem::take(&mut self.slow) {
            self.ahead /= 2;
        }
    }

    /// The store gave all that was asked for, and before it came handlers had nothing left to do: more is claimed ahead.
    pub(super) fn gave_all(&mut self) {
        if self.waiting.is_empty() && self.has_slot() {
            self.ahead = self.ahead.saturating_mul(2).max(1).min(self.lane.prefetch);
        }
    }

    /// What has waited so long goes back; as many as run stay, they begin soon.
    pub(super) fn hand_back(&mut self, long: Duration) -> Vec<Job> {
        let mut back = Vec::new();
        while self.waiting.len() > self.lane.concurrency as usize
            && self.waiting.back().is_some_and(|(_, since)| since.elapsed() >= long)
            && let Some((job, _)) = self.waiting.pop_back()
        {
            self.ahead = 0;
            back.push(job);
        }
        back
    }
}

/// The places of a worker that works on these queues.
pub(super) fn places(lanes: Vec<Lane>) -> Result<Vec<Place>, Error> {
    if lanes.is_empty() || lanes.len() > QUEUES_MAX {
        return Err(Error::Invalid(format!("a worker works on 1 to {QUEUES_MAX} queues, not on {}", lanes.len())));
    }
    let mut queues = HashSet::new();
    if let Some(twice) = lanes.iter().find(|lane| !queues.insert(&lane.queue)) {
        return Err(Error::Invalid(format!("a worker has one handler for a queue; {} has two", twice.queue)));
    }
    // It speaks of all of them in one call.
    let all: u64 = lanes.iter().map(|lane| u64::from(lane.concurrency.max(1))).sum();
    let Some(left) = (BATCH_MAX as u64).checked_sub(all) else {
        return Err(Error::Invalid(format!(
            "a worker has at most {BATCH_MAX} jobs at once; this one would have {all}"
        )));
    };
    let share = u32::try_from(left / lanes.len() as u64).unwrap_or(u32::MAX);
    let place = |lane: Lane| {
        let (concurrency, prefetch) = (lane.concurrency.max(1), lane.prefetch.min(share));
        Place {
            ahead: prefetch.min(concurrency),
            slow: false,
            lane: Lane { concurrency, prefetch, ..lane },
            waiting: VecDeque::new(),
            running: 0,
            asked: 0,
            look: true,
        }
    };
    Ok(lanes.into_iter().map(place).collect())
}

/// How many more jobs of each queue fit, `most` together if there are not more queues than that. No queue's room takes
/// away all of what one call may ask for. With `all`, queues without room are named too, which says that a worker is there.
pub(super) fn room(places: &[Place], most: u32, all: bool) -> Vec<(QueueName, u32)> {
    let queues = u32::try_from(places.len()).unwrap_or(CLAIM_MAX).max(1);
    let most = most.clamp(queues, CLAIM_MAX);
    let share = most / queues;
    let free = |place: &Place| if place.look { place.free() } else { 0 };
    let mut left = most - places.iter().map(|place| free(place).min(share)).sum::<u32>();
    let room = places.iter().map(|place| {
        let first = free(place).min(share);
        let more = (free(place) - first).min(left);
        left -= more;
        (place.lane.queue.clone(), first + more)
    });
    room.filter(|(_, free)| all || *free > 0).collect()
}

/// This much is asked for.
pub(super) fn asked(places: &mut [Place], want: &[(QueueName, u32)]) {
    each(places, want, |place, n| place.asked += n);
}

/// It was answered, or never will be.
pub(super) fn heard(places: &mut [Place], want: &[(QueueName, u32)]) {
    each(places, want, |place, n| place.asked -= n);
}

fn each(places: &mut [Place], want: &[(QueueName, u32)], change: impl Fn(&mut Place, u32)) {
    for (queue, n) in want {
        if let Some(place) = places.iter_mut().find(|place| place.lane.queue == *queue) {
            change(place, *n);
        }
    }
}

/// Takes a job away that waits here: any delivery of it, or one.
pub(super) fn take(places: &mut [Place], job: JobId, fence: Option<Fence>) -> Option<Job> {
    places.iter_mut().find_map(|place| {
        let is_it = |(waits, _): &(Job, Instant)| waits.id == job && fence.is_none_or(|fence| waits.fence == fence);
        let at = place.waiting.iter().position(is_it)?;
        place.waiting.remove(at).map(|(job, _)| job)
    })
}
