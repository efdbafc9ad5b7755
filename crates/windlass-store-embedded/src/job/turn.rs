//! A worker's turn: what it settles, what it keeps alive, what it claims.

use windlass_core::id::{QueueName, WorkerId};
use windlass_core::job::JobStatus;
use windlass_core::job::rules::{self, Delivered, Expired, Outcome};
use windlass_core::port::job::{Beaten, Delivery, Turn};
use windlass_core::port::{PortError, Refusal};
use windlass_core::time::Ms;

use super::index::{Index, Whose};
use super::lane::Spot;
use super::record::{Kept, Text};
use crate::key;
use crate::kv::{KvError, Value};
use crate::tx::Tx;

/// Lanes that one turn looks into for the first time, at most: after that many it answers that there is more.
const LOADS_MAX: u32 = 4_096;

/// A turn, with large results in records of their own.
pub(super) struct Prepared {
    worker: WorkerId,
    lease_ms: u64,
    settle: Vec<(Delivery, Outcome, Option<Value>)>,
    beat: Vec<Delivery>,
    want: Vec<(QueueName, u32)>,
}

/// What a turn came to, before what was claimed is whole.
pub(super) struct Taken {
    pub(super) settled: Vec<Result<JobStatus, Refusal>>,
    pub(super) beaten: Vec<Result<Beaten, Refusal>>,
    pub(super) claimed: Vec<Kept>,
    pub(super) next: Option<Ms>,
    pub(super) at: Ms,
}

impl Prepared {
    pub(super) fn new(turn: &Turn) -> Result<Prepared, PortError> {
        turn.check()?;
        let settle = turn.settle.iter().map(|(delivery, outcome)| {
            let apart = match outcome {
                // One that is too large is refused below.
                Outcome::Completed(result) if rules::check_result(result).is_ok() => Text::of(Some(result.clone()))?.1,
                _ => None,
            };
            Ok((*delivery, outcome.clone(), apart))
        });
        Ok(Prepared {
            worker: turn.worker.clone(),
            lease_ms: turn.lease_ms,
            settle: settle.collect::<Result<_, KvError>>()?,
            beat: turn.beat.clone(),
            want: turn.want.clone(),
        })
    }
}

fn unknown(delivery: &Delivery) -> Refusal {
    Refusal::NotFound(format!("job {}", delivery.job))
}

impl Index {
    pub(super) fn turn(&mut self, tx: &mut Tx<'_>, turn: Prepared, now: Ms) -> Result<Taken, KvError> {
        let Prepared { worker, lease_ms, settle, beat, want } = turn;
        let mut taken = Taken { settled: Vec::new(), beaten: Vec::new(), claimed: Vec::new(), next: None, at: now };
        for (delivery, outcome, apart) in settle {
            taken.settled.push(self.settle(tx, &delivery, outcome, apart, now)?);
        }
        for delivery in &beat {
            taken.beaten.push(self.beat(tx, delivery, lease_ms, now)?);
        }
        let wanted: usize = want.iter().map(|(_, n)| *n as usize).sum();
        taken.claimed.reserve(wanted.min(64));
        let mut claim = Claim { worker: &worker, lease_ms, now, loads: LOADS_MAX, claimed: &mut taken.claimed };
        for (queue, n) in &want {
            self.present(queue, now.plus(lease_ms));
            self.claim(tx, queue, *n as usize, &mut claim)?;
        }
        if claim.loads == 0 {
            taken.next = Some(now);
        } else if taken.claimed.len() < wanted {
            taken.next = want.iter().filter_map(|(queue, _)| self.next(queue, now)).min();
        }
        Ok(taken)
    }

    fn settle(
        &mut self,
        tx: &mut Tx<'_>,
        delivery: &Delivery,
        outcome: Outcome,
        apart: Option<Value>,
        now: Ms,
    ) -> Result<Result<JobStatus, Refusal>, KvError> {
        let Some(kept) = self.find(tx, &delivery.job)? else { return Ok(Err(unknown(delivery))) };
        let status = kept.job.status;
        match rules::settle(kept.job.clone(), delivery.fence, outcome, now) {
            Ok(Some(job)) => {
                let status = job.status;
                self.moves(tx, &kept, job, apart, now)?;
                Ok(Ok(status))
            }
            Ok(None) => Ok(Ok(status)),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    fn beat(
        &mut self,
        tx: &mut Tx<'_>,
        delivery: &Delivery,
        lease_ms: u64,
        now: Ms,
    ) -> Result<Result<Beaten, Refusal>, KvError> {
        let Some(kept) = self.find(tx, &delivery.job)? else { return Ok(Err(unknown(delivery))) };
        match rules::beat(kept.job, delivery.fence, lease_ms, now) {
            Ok(job) => {
                let beaten = Beaten { until: job.lease_until, cancel: job.cancel.is_some() };
                self.goes_on(tx, job)?;
                Ok(Ok(beaten))
            }
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// A worker asks for a queue.
    fn present(&mut self, queue: &QueueName, until: Ms) {
        let queue = self.queues.entry(queue.clone()).or_default();
        queue.worker_until = queue.worker_until.max(Some(until));
    }

    /// When something in the queue will be claimable that is not now.
    fn next(&self, queue: &QueueName, now: Ms) -> Option<Ms> {
        let queue = self.queues.get(queue)?;
        let timer = queue.timers.first().map(|(at, _)| *at);
        let lease = queue.leases.first().map(|(until, _)| *until);
        timer.into_iter().chain(lease).filter(|at| *at > now).min()
    }

    /// Jobs of a queue whose lease has run out by `now` are known as such.
    pub(super) fn expire(&mut self, name: &QueueName, now: Ms) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        while let Some((until, id)) = queue.leases.first().copied()
            && until <= now
        {
            match self.running.get(&id) {
                Some(running) => queue.set_lost(&running.kept.job, true),
                None => drop(queue.leases.pop_first()),
            }
        }
    }

    /// Up to `n` of a queue: first what was delivered before and not answered, then tenants take turns.
    fn claim(&mut self, tx: &mut Tx<'_>, name: &QueueName, n: usize, claim: &mut Claim<'_>) -> Result<(), KvError> {
        let (limits, held) = self.queue_limits(name);
        self.expire(name, claim.now);
        if held {
            return Ok(());
        }
        let end = claim.claimed.len() + n;
        self.claim_lost(tx, name, end, claim)?;
        if let Some(queue) = self.queues.get_mut(name) {
            queue.ring_timers(claim.now);
        }
        while claim.claimed.len() < end && claim.loads > 0 {
            let Some(queue) = self.queues.get_mut(name) else { break };
            if limits.running.is_some_and(|limit| queue.running >= limit) {
                break;
            }
            let Some(whose) = queue.ring.pop_front() else { break };
            self.lane_turn(tx, name, &whose, claim)?;
        }
        Ok(())
    }

    /// What runs already and was not heard of takes no place of anybody's: limits do not stop it, holds do.
    fn claim_lost(
        &mut self,
        tx: &mut Tx<'_>,
        name: &QueueName,
        end: usize,
        claim: &mut Claim<'_>,
    ) -> Result<(), KvError> {
        let lost = self.queues.get(name).into_iter().flat_map(|queue| queue.lost.iter().cloned());
        for whose in lost.collect::<Vec<Whose>>() {
            if self.tenant_limits(&whose).1 {
                continue;
            }
            while claim.claimed.len() < end
                && let Some(kept) = self.lost(name, &whose, claim.now)
            {
                self.deliver(tx, kept, claim)?;
            }
        }
        Ok(())
    }

    /// One lane's turn: at most one job; it goes to the ring's end, or to where it waits.
    fn lane_turn(
        &mut self,
        tx: &mut Tx<'_>,
        name: &QueueName,
        whose: &Whose,
        claim: &mut Claim<'_>,
    ) -> Result<(), KvError> {
        let (limits, held) = self.tenant_limits(whose);
        let running = whose.as_ref().and_then(|tenant| self.tenants.get(tenant)).map_or(0, |tenant| tenant.running);
        let blocked = held || limits.running.is_some_and(|limit| running >= limit);
        let due = if blocked { None } else { self.due(tx, name, whose, claim)? };
        let Some(due) = due else { return self.park(tx, name, whose, blocked, claim.now) };
        if let Some(queue) = self.queues.get_mut(name) {
            queue.ring.push_back(whose.clone());
        }
        self.deliver(tx, Kept::decode(&due)?, claim)
    }

    /// The first job of a lane that waits and whose time has come.
    fn due(
        &mut self,
        tx: &Tx<'_>,
        name: &QueueName,
        whose: &Whose,
        claim: &mut Claim<'_>,
    ) -> Result<Option<Value>, KvError> {
        let now = claim.now;
        let found = self.hold(name, whose, |lane| {
            if lane.waiting == 0 {
                return Ok(None);
            }
            claim.loads -= u32::from(!lane.is_loaded());
            let place = lane.due(tx, &key::lane(name, whose.as_ref()), now)?;
            Ok(place.and_then(|place| lane.held(place).cloned()))
        });
        found.unwrap_or(Ok(None))
    }

    /// The first job of a lane whose lease has run out.
    fn lost(&mut self, name: &QueueName, whose: &Whose, now: Ms) -> Option<Kept> {
        let queue = self.queues.get_mut(name)?;
        while let Some((_, id)) = queue.lanes.get(whose)?.lost.first_key_value() {
            let job = &self.running.get(id)?.kept.job;
            if rules::is_claimable(job, now) {
                return self.running.get(id).map(|running| running.kept.clone());
            }
            // It ran out by a clock that was ahead of this one.
            queue.set_lost(job, false);
        }
        None
    }

    /// Nothing of the lane can be claimed: it waits where it will be found when something can.
    fn park(&mut self, tx: &Tx<'_>, name: &QueueName, whose: &Whose, blocked: bool, now: Ms) -> Result<(), KvError> {
        let next = match blocked {
            true => None,
            false => self.hold(name, whose, |lane| match lane.waiting {
                0 => Ok(None),
                _ => lane.next(tx, &key::lane(name, whose.as_ref())),
            }),
        };
        let next = next.unwrap_or(Ok(None))?;
        let Some(queue) = self.queues.get_mut(name) else { return Ok(()) };
        let Some(lane) = queue.lanes.get_mut(whose) else { return Ok(()) };
        match (blocked, whose) {
            (true, Some(tenant)) if lane.waiting > 0 => {
                lane.spot = Spot::Blocked;
                self.tenants.entry(tenant.clone()).or_default().blocked.insert(name.clone());
            }
            _ => {
                lane.spot = Spot::Idle;
                if let Some(at) = next {
                    self.wake(name, whose, at, now);
                }
            }
        }
        self.tidy(name, whose);
        Ok(())
    }

    fn deliver(&mut self, tx: &mut Tx<'_>, kept: Kept, claim: &mut Claim<'_>) -> Result<(), KvError> {
        let fence = tx.draw_fence()?;
        match rules::deliver(kept.job.clone(), claim.worker, fence, claim.lease_ms, claim.now) {
            Delivered::Claimed(job) => {
                let kept = Kept { job, ..kept };
                claim.claimed.push(kept.clone());
                self.delivered(tx, kept)
            }
            Delivered::Settled(job) => self.moves(tx, &kept, job, None, claim.now),
        }
    }

    /// Judges up to `limit` jobs whose lease has run out and that are not delivered again.
    pub(super) fn sweep(&mut self, tx: &mut Tx<'_>, limit: u32, now: Ms) -> Result<u32, KvError> {
        let names: Vec<QueueName> = self.queues.keys().cloned().collect();
        let mut judged = 0;
        for name in names {
            self.expire(&name, now);
            let Some(queue) = self.queues.get(&name) else { continue };
            let lost = queue.lost.iter().filter_map(|whose| queue.lanes.get(whose)).flat_map(|lane| lane.lost.values());
            let lost: Vec<_> = lost.copied().collect();
            for id in lost {
                let Some(kept) = self.running.get(&id).map(|running| running.kept.clone()) else { continue };
                if judged == limit || !rules::is_claimable(&kept.job, now) {
                    continue;
                }
                if let Expired::Settled(job) = rules::expire(kept.job.clone(), now) {
                    self.moves(tx, &kept, job, None, now)?;
                    judged += 1;
                }
            }
        }
        Ok(judged)
    }
}

/// A turn's claims so far.
struct Claim<'a> {
    worker: &'a WorkerId,
    lease_ms: u64,
    now: Ms,
    /// Lanes that may still be looked into for the first time.
    loads: u32,
    claimed: &'a mut Vec<Kept>,
}
