//! Turns, and what a claim may give.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::rules::{Delivered, deliver};
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::job::{Turn, Turned};
use windlass_core::time::Ms;

use super::Data;

/// Who takes turns; the jobs without a tenant are one of them.
type Tenant = Option<TenantId>;

/// A queue's turns, as one way to the store sees them.
#[derive(Default)]
pub(super) struct Ring {
    /// Since when each tenant that could be served waits: it became so, or was served last.
    since: BTreeMap<Tenant, u64>,
    /// When each was served last.
    served: BTreeMap<Tenant, u64>,
}

impl Ring {
    /// As long as another waits, nobody is served twice; only what was served after `begun` counts.
    fn may_serve(&self, tenant: &Tenant, begun: u64) -> bool {
        let others = self.since.iter().filter(|(other, _)| *other != tenant);
        let last = self.served.get(tenant).copied().filter(|last| *last > begun).unwrap_or_default();
        others.into_iter().all(|(_, since)| last <= *since)
    }
}

impl Data {
    /// All turns of a call. `chosen` is what a store claimed; its choice is followed or refused.
    pub(super) fn turn(
        &mut self,
        turns: &[Turn],
        chosen: Option<&[Vec<JobId>]>,
        rival: usize,
        at: Ms,
    ) -> Result<Vec<Turned>, String> {
        let mut answers = Vec::new();
        for turn in turns {
            let settled = turn.settle.iter().map(|said| self.settle(said, at)).collect();
            let beaten = turn.beat.iter().map(|of| self.beat(of, turn.lease_ms, at)).collect();
            answers.push(Turned { settled, beaten, claimed: Vec::new(), next: None, at });
        }
        for (i, turn) in turns.iter().enumerate() {
            let together = turns.len() > 1;
            answers[i].claimed = self.claim(turn, together, chosen.map(|chosen| &chosen[i][..]), rival, at)?;
            let wanted: u32 = turn.want.iter().map(|(_, n)| n).sum();
            if answers[i].claimed.len() < wanted as usize {
                answers[i].next = self.next(turn, at);
            }
        }
        Ok(answers)
    }

    fn claim(
        &mut self,
        turn: &Turn,
        together: bool,
        chosen: Option<&[JobId]>,
        rival: usize,
        now: Ms,
    ) -> Result<Vec<Job>, String> {
        let mut claimed: Vec<Job> = Vec::new();
        for (queue, n) in &turn.want {
            self.rivals[rival].asked.insert(queue.clone());
            let until = self.workers.entry(queue.clone()).or_insert(Ms::ZERO);
            *until = (*until).max(now.plus(turn.lease_ms));
            if *n > 0 && !self.of_queue(queue).1 {
                self.judge(Some(queue), usize::MAX, now);
            }
            let begun = self.moment;
            for _ in 0..*n {
                let may = self.may_claim(rival, queue, begun, now);
                let store = chosen.map(|chosen| {
                    let next = chosen.get(claimed.len());
                    next.copied().filter(|id| self.jobs.get(id).is_some_and(|job| job.queue == *queue))
                });
                let pick = match store {
                    None => may.first().copied(),
                    Some(None) if may.is_empty() => None,
                    // Another of the turns may have got what the limit leaves.
                    Some(None) if together && self.are_limited(&may) => None,
                    Some(Some(pick)) if may.contains(&pick) => Some(pick),
                    // Likewise, and then it is the others' turn.
                    Some(Some(pick))
                        if together && self.are_limited(&may) && self.firsts(queue, now).contains(&pick) =>
                    {
                        Some(pick)
                    }
                    Some(pick) => return Err(format!("claims {pick:?} from {queue}, where it is the turn of {may:?}")),
                };
                let Some(pick) = pick else { break };
                claimed.push(self.deliver(pick, turn, rival, now)?);
            }
        }
        match chosen {
            Some(chosen) if chosen.len() > claimed.len() => Err(format!("claims {:?} too", &chosen[claimed.len()..])),
            _ => Ok(claimed),
        }
    }

    /// Whether all of them wait under a limit of their tenant's, which holds over queues.
    fn are_limited(&self, jobs: &[JobId]) -> bool {
        let tenant = |id: &JobId| self.jobs.get(id).filter(|job| job.status == JobStatus::Pending)?.tenant.as_ref();
        jobs.iter().all(|id| tenant(id).is_some_and(|tenant| self.of_tenant(tenant).0.running.is_some()))
    }

    /// What is first of each tenant's, whoever's turn it is.
    fn firsts(&self, queue: &QueueName, now: Ms) -> Vec<JobId> {
        self.ready(queue, now).values().flat_map(|ready| self.first(ready)).collect()
    }

    fn deliver(&mut self, pick: JobId, turn: &Turn, rival: usize, now: Ms) -> Result<Job, String> {
        let job = self.jobs[&pick].clone();
        if job.status == JobStatus::Pending {
            self.moment += 1;
            let ring = self.rivals[rival].rings.entry(job.queue.clone()).or_default();
            ring.since.insert(job.tenant.clone(), self.moment);
            ring.served.insert(job.tenant.clone(), self.moment);
        }
        let fence = self.draw();
        match deliver(job, &turn.worker, fence, turn.lease_ms, now) {
            Delivered::Claimed(job) => {
                self.put(job.clone());
                Ok(job)
            }
            Delivered::Settled(job) => Err(format!("claims what must end: {job:?}")),
        }
    }

    /// What a claim may give now; the model's own choice first.
    fn may_claim(&mut self, rival: usize, queue: &QueueName, begun: u64, now: Ms) -> Vec<JobId> {
        let again: Vec<JobId> = self.ran_out(queue, now).iter().map(|job| job.id).collect();
        if !again.is_empty() {
            return again;
        }
        self.look();
        let ready = self.ready(queue, now);
        let Some(ring) = self.rivals[rival].rings.get(queue) else { return Vec::new() };
        // Where several ask, a store may have one ring for all of them, and each sees turns that were others': then what one
        // claim gives is all that can be judged.
        let alone = self.rivals.iter().filter(|rival| rival.asked.contains(queue)).count() <= 1;
        let begun = if alone { 0 } else { begun };
        let mut tenants: Vec<&Tenant> = ready.keys().filter(|tenant| ring.may_serve(tenant, begun)).collect();
        tenants.sort_by_key(|tenant| ring.since.get(*tenant));
        tenants.into_iter().flat_map(|tenant| self.first(&ready[tenant])).collect()
    }

    /// Of one tenant's, those that nobody goes before; there is one unless times may have been the same.
    fn first(&self, jobs: &[&Job]) -> Vec<JobId> {
        let before = |a: &Job, b: &Job| {
            a.priority > b.priority
                || a.priority == b.priority
                    && (a.run_at.plus(self.slack_ms) < b.run_at || a.run_at <= b.run_at && a.seq < b.seq)
        };
        let first = jobs.iter().filter(|job| !jobs.iter().any(|other| before(other, job)));
        first.map(|job| job.id).collect()
    }

    /// What may be delivered again.
    fn ran_out(&self, queue: &QueueName, now: Ms) -> Vec<&Job> {
        let ran_out = |job: &&Job| job.status == JobStatus::Running && job.lease_until <= now;
        self.jobs.values().filter(|job| job.queue == *queue && ran_out(job) && !self.is_held(job)).collect()
    }

    /// What waits and could be delivered, by tenant.
    fn ready(&self, queue: &QueueName, now: Ms) -> BTreeMap<Tenant, Vec<&Job>> {
        let mut ready: BTreeMap<Tenant, Vec<&Job>> = BTreeMap::new();
        let waits = |job: &&Job| job.status == JobStatus::Pending && job.run_at <= now;
        for job in self.jobs.values().filter(|job| job.queue == *queue && waits(job)) {
            ready.entry(job.tenant.clone()).or_default().push(job);
        }
        // What stops one of a tenant's jobs in a queue stops them all.
        ready.retain(|_, jobs| !self.is_held(jobs[0]) && self.has_slot(jobs[0]));
        ready
    }

    fn is_held(&self, job: &Job) -> bool {
        self.of_queue(&job.queue).1 || job.tenant.as_ref().is_some_and(|tenant| self.of_tenant(tenant).1)
    }

    fn has_slot(&self, job: &Job) -> bool {
        let running = |of: &dyn Fn(&Job) -> bool| {
            self.jobs.values().filter(|job| job.status == JobStatus::Running && of(job)).count()
        };
        let below =
            |limit: Option<u32>, of: &dyn Fn(&Job) -> bool| limit.is_none_or(|limit| running(of) < limit as usize);
        below(self.of_queue(&job.queue).0.running, &|other| other.queue == job.queue)
            && job.tenant.as_ref().is_none_or(|tenant| {
                below(self.of_tenant(tenant).0.running, &|other| other.tenant.as_ref() == Some(tenant))
            })
    }

    /// Notes who began to wait, and who does not wait any more, as every rival's clock has it.
    pub(super) fn look(&mut self) {
        self.moment += 1;
        let queues: BTreeSet<QueueName> = self.jobs.values().map(|job| job.queue.clone()).collect();
        for queue in &queues {
            for rival in 0..self.rivals.len() {
                let waiting: Vec<Tenant> = self.ready(queue, self.now(rival)).into_keys().collect();
                let ring = self.rivals[rival].rings.entry(queue.clone()).or_default();
                ring.since.retain(|tenant, _| waiting.contains(tenant));
                for tenant in waiting {
                    ring.since.entry(tenant).or_insert(self.moment);
                }
            }
        }
    }

    /// When something of the wanted queues becomes claimable by time alone.
    fn next(&self, turn: &Turn, at: Ms) -> Option<Ms> {
        let wanted = |job: &&Job| turn.want.iter().any(|(queue, _)| *queue == job.queue);
        let times = self.jobs.values().filter(wanted).map(|job| match job.status {
            JobStatus::Pending => job.run_at,
            JobStatus::Running => job.lease_until,
            _ => Ms::ZERO,
        });
        times.filter(|time| *time > at).min()
    }
}
