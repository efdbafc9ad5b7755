//! What the writer knows of all jobs without looking: which lanes there are and which of them have something to
//! claim, what runs and until when, and the rules. Nobody else writes, and a batch that fails ends the writer, so what
//! is here is what is stored. It is made from what is stored when the first call needs it, at a cost that grows
//! with lanes and with what runs, not with what waits.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::Job;
use windlass_core::job::limit::{self, Limits, Rule, Scope};
use windlass_core::time::Ms;

use super::lane::{Lane, Spot};
use super::record::Kept;
use crate::key::Place;

/// Memory of waiting jobs that are held, all lanes together.
const HELD_BYTES_MAX: usize = 32 << 20;

/// Which lane of a queue.
pub(super) type Whose = Option<TenantId>;

#[derive(Default)]
pub(crate) struct Index {
    pub(super) queues: BTreeMap<QueueName, Queue>,
    pub(super) tenants: BTreeMap<TenantId, Tenant>,
    pub(super) rules: BTreeMap<Scope, Rule>,
    /// Only ever asked by id: its order is nobody's business.
    pub(super) running: HashMap<JobId, Running>,
    pub(super) claims: super::claimed::Claims,
    /// Lanes whose count is to be written with this batch.
    pub(super) dirty: Vec<(QueueName, Whose)>,
    /// Where purges have left nothing.
    pub(super) purged: super::purge::Purged,
    /// Lanes that hold jobs, the longest ago first, and how much all of them hold.
    holders: BTreeMap<u64, (QueueName, Whose)>,
    held_bytes: usize,
}

/// A queue.
#[derive(Default)]
pub(super) struct Queue {
    pub(super) lanes: BTreeMap<Whose, Lane>,
    /// Lanes that take turns.
    pub(super) ring: VecDeque<Whose>,
    /// Lanes whose first job's time has not come.
    pub(super) timers: BTreeSet<(Ms, Whose)>,
    /// RUNNING jobs by the end of their lease …
    pub(super) leases: BTreeSet<(Ms, JobId)>,
    /// … and the lanes of those whose lease has run out.
    pub(super) lost: BTreeSet<Whose>,
    pub(super) waiting: u64,
    pub(super) running: u32,
    /// Until when a worker that asked for it is believed to be there.
    pub(super) worker_until: Option<Ms>,
}

/// A tenant, all queues together.
#[derive(Default)]
pub(super) struct Tenant {
    pub(super) waiting: u64,
    pub(super) running: u32,
    /// Queues where its lane waits until it has room.
    pub(super) blocked: BTreeSet<QueueName>,
}

/// A job that runs.
pub(super) struct Running {
    pub(super) kept: Kept,
    /// The batch that claimed it.
    pub(super) claim: u64,
}

impl Index {
    pub(super) fn queue_limits(&self, queue: &QueueName) -> (Limits, bool) {
        match self.rules.is_empty() {
            true => (Limits::NONE, false),
            false => self
                .rules
                .get(&Scope::Queue(queue.clone()))
                .map_or((Limits::NONE, false), |rule| (rule.limits, rule.held.is_some())),
        }
    }

    pub(super) fn tenant_limits(&self, whose: &Whose) -> (Limits, bool) {
        match whose {
            Some(tenant) if !self.rules.is_empty() => {
                let own = self.rules.get(&Scope::Tenant(tenant.clone()));
                limit::of_tenant(own, self.rules.get(&Scope::EachTenant))
            }
            _ => (Limits::NONE, false),
        }
    }

    /// Counts a job of a lane in or out of those that wait and those that run.
    pub(super) fn count(&mut self, job: &Job, waiting: i64, running: i32) {
        let queue = self.queues.entry(job.queue.clone()).or_default();
        let lane = queue.lanes.entry(job.tenant.clone()).or_insert_with(Lane::empty);
        queue.waiting = queue.waiting.saturating_add_signed(waiting);
        queue.running = queue.running.saturating_add_signed(running);
        lane.waiting = lane.waiting.saturating_add_signed(waiting);
        lane.running = lane.running.saturating_add_signed(running);
        if waiting != 0 && !lane.dirty {
            lane.dirty = true;
            self.dirty.push((job.queue.clone(), job.tenant.clone()));
        }
        if let Some(tenant) = &job.tenant {
            let tenant = self.tenants.entry(tenant.clone()).or_default();
            tenant.waiting = tenant.waiting.saturating_add_signed(waiting);
            tenant.running = tenant.running.saturating_add_signed(running);
        }
    }

    /// What `change` does to the jobs that a lane holds, with the memory of all lanes kept within its bound.
    pub(super) fn hold<T>(
        &mut self,
        queue: &QueueName,
        whose: &Whose,
        change: impl FnOnce(&mut Lane) -> T,
    ) -> Option<T> {
        let lane = self.queues.get_mut(queue)?.lanes.get_mut(whose)?;
        let before = lane.bytes;
        let changed = change(lane);
        self.held_bytes = self.held_bytes + lane.bytes - before;
        match (lane.holder, lane.bytes) {
            (None, 1..) => {
                let number = self.holders.last_key_value().map_or(0, |(last, _)| last + 1);
                lane.holder = Some(number);
                self.holders.insert(number, (queue.clone(), whose.clone()));
            }
            (Some(number), 0) => {
                lane.holder = None;
                self.holders.remove(&number);
            }
            _ => {}
        }
        while self.held_bytes > HELD_BYTES_MAX
            && let Some((_, (queue, whose))) = self.holders.pop_first()
        {
            if let Some(lane) = self.queues.get_mut(&queue).and_then(|queue| queue.lanes.get_mut(&whose)) {
                self.held_bytes -= lane.bytes;
                lane.unload();
            }
        }
        Some(changed)
    }

    /// The jobs that wait in a lane have changed: it may have a turn now, or earlier than it thought.
    pub(super) fn wake(&mut self, queue: &QueueName, whose: &Whose, at: Ms, now: Ms) {
        let Some(queue) = self.queues.get_mut(queue) else { return };
        let Some(lane) = queue.lanes.get_mut(whose) else { return };
        match lane.spot {
            Spot::Ring | Spot::Blocked => {}
            Spot::Timer(timer) if timer <= at => {}
            Spot::Timer(timer) => {
                queue.timers.remove(&(timer, whose.clone()));
                queue.seat(whose, at, now);
            }
            Spot::Idle => queue.seat(whose, at, now),
        }
    }

    /// A lane that has nothing any more is forgotten, and so is its tenant and its queue. One that is in the ring
    /// goes when its turn comes.
    pub(super) fn tidy(&mut self, name: &QueueName, whose: &Whose) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        let Some(lane) = queue.lanes.get(whose) else { return };
        if lane.waiting == 0 && lane.running == 0 && lane.spot != Spot::Ring && !lane.dirty {
            if let Spot::Timer(at) = lane.spot {
                queue.timers.remove(&(at, whose.clone()));
            }
            self.held_bytes -= lane.bytes;
            lane.holder.iter().for_each(|number| drop(self.holders.remove(number)));
            queue.lanes.remove(whose);
            queue.lost.remove(whose);
            if let Some(tenant) = whose
                && let Some(counts) = self.tenants.get_mut(tenant)
            {
                counts.blocked.remove(name);
                if counts.waiting == 0 && counts.running == 0 {
                    self.tenants.remove(tenant);
                }
            }
        }
        if queue.lanes.is_empty() && queue.worker_until.is_none() {
            self.queues.remove(name);
        }
    }

    /// A tenant may have room again: its lanes take turns again. Answers whether one did not.
    pub(super) fn unblock(&mut self, tenant: &TenantId) -> bool {
        let Some(counts) = self.tenants.get_mut(tenant) else { return false };
        let blocked = std::mem::take(&mut counts.blocked);
        for name in &blocked {
            if let Some(queue) = self.queues.get_mut(name) {
                queue.enter(&Some(tenant.clone()));
            }
        }
        !blocked.is_empty()
    }
}

impl Queue {
    /// Puts a lane where it waits for a job whose time is `at`.
    fn seat(&mut self, whose: &Whose, at: Ms, now: Ms) {
        let Some(lane) = self.lanes.get_mut(whose) else { return };
        if at <= now {
            lane.spot = Spot::Ring;
            self.ring.push_back(whose.clone());
        } else {
            lane.spot = Spot::Timer(at);
            self.timers.insert((at, whose.clone()));
        }
    }

    /// Puts a lane into the ring, wherever it was.
    pub(super) fn enter(&mut self, whose: &Whose) {
        let Some(lane) = self.lanes.get_mut(whose) else { return };
        if let Spot::Timer(at) = lane.spot {
            self.timers.remove(&(at, whose.clone()));
        }
        if lane.spot != Spot::Ring {
            lane.spot = Spot::Ring;
            self.ring.push_back(whose.clone());
        }
    }

    /// A lane does not wait for this moment any more: what it waits for now is seen when its turn comes.
    pub(super) fn unset(&mut self, whose: &Whose, at: Ms) {
        if self.lanes.get(whose).is_some_and(|lane| lane.spot == Spot::Timer(at)) {
            self.enter(whose);
        }
    }

    /// Lanes whose time has come take turns again.
    pub(super) fn ring_timers(&mut self, now: Ms) {
        while let Some((at, whose)) = self.timers.first().cloned()
            && at <= now
        {
            self.enter(&whose);
            // Also if there is no such lane: what has rung is over.
            self.timers.remove(&(at, whose));
        }
    }

    /// A job's lease has run out, or has not after all.
    pub(super) fn set_lost(&mut self, job: &Job, lost: bool) {
        let Some(lane) = self.lanes.get_mut(&job.tenant) else { return };
        let (until, place) = ((job.lease_until, job.id), Place::of(job));
        if lost {
            self.leases.remove(&until);
            lane.lost.insert(place, job.id);
            self.lost.insert(job.tenant.clone());
        } else {
            lane.lost.remove(&place);
            if lane.lost.is_empty() {
                self.lost.remove(&job.tenant);
            }
            self.leases.insert(until);
        }
    }

    /// A job's lease is over, whichever way.
    pub(super) fn forget_lease(&mut self, job: &Job) {
        self.leases.remove(&(job.lease_until, job.id));
        if let Some(lane) = self.lanes.get_mut(&job.tenant) {
            lane.lost.remove(&Place::of(job));
            if lane.lost.is_empty() {
                self.lost.remove(&job.tenant);
            }
        }
    }
}
