//! What changes a job, but for claims.

use windlass_core::fence::Fence;
use windlass_core::id::{JobId, QueueName, TenantId};
use windlass_core::job::limit::{Limits, Rule, Scope, of_tenant};
use windlass_core::job::rules::{self, Asked, Expired, JobAsk, Outcome};
use windlass_core::job::{Asker, Job, JobStatus, NewJob};
use windlass_core::port::Refusal;
use windlass_core::port::job::{Beaten, Delivery, Submitted};
use windlass_core::time::Ms;

use super::Data;

impl Data {
    /// Writes a job, and notes its end.
    pub(super) fn put(&mut self, job: Job) {
        job.check().expect("the rules keep the record's own");
        let before = self.jobs.get(&job.id).map(|before| before.status);
        if job.status.is_ended() && !before.is_some_and(JobStatus::is_ended) {
            self.ended.push(job.id);
        }
        self.jobs.insert(job.id, job);
    }

    fn get(&self, id: &JobId) -> Result<Job, Refusal> {
        self.jobs.get(id).cloned().ok_or_else(|| Refusal::NotFound(format!("job {id}")))
    }

    /// A group, whole or not at all.
    pub(super) fn submit(&mut self, group: &[NewJob], now: Ms) -> Result<Vec<Submitted>, Refusal> {
        group.iter().try_for_each(NewJob::check)?;
        let mut made: Vec<JobId> = Vec::new();
        let mut answers = Vec::new();
        for new in group {
            match self.submit_one(new, now) {
                Ok(submitted) => {
                    made.extend(Some(submitted.id).filter(|_| !submitted.existing));
                    answers.push(submitted);
                }
                Err(why) => {
                    made.iter().for_each(|id| _ = self.jobs.remove(id));
                    return Err(why);
                }
            }
        }
        Ok(answers)
    }

    fn submit_one(&mut self, new: &NewJob, now: Ms) -> Result<Submitted, Refusal> {
        let with_key = || {
            let same = |job: &&Job| (&job.key, &job.tenant, &job.queue) == (&new.key, &new.tenant, &new.queue);
            new.key.as_ref().and_then(|_| self.jobs.values().find(same))
        };
        if let Some(there) = self.jobs.get(&new.id).or_else(with_key) {
            let same = there.digest == new.digest();
            return if same { Ok(Submitted { id: there.id, existing: true }) } else { Err(Refusal::OpReused) };
        }
        self.room(new)?;
        self.seq += 1;
        self.put(rules::accept(new, self.seq, now));
        Ok(Submitted { id: new.id, existing: false })
    }

    fn room(&self, new: &NewJob) -> Result<(), Refusal> {
        let full = |scope: Scope, limits: Limits, of: &dyn Fn(&Job) -> bool| {
            let Some(limit) = limits.waiting else { return Ok(()) };
            let waiting = self.jobs.values().filter(|job| job.status == JobStatus::Pending && of(job)).count();
            if waiting >= limit as usize { Err(Refusal::Full { scope, limit }) } else { Ok(()) }
        };
        full(Scope::Queue(new.queue.clone()), self.of_queue(&new.queue).0, &|job| job.queue == new.queue)?;
        let Some(tenant) = &new.tenant else { return Ok(()) };
        full(Scope::Tenant(tenant.clone()), self.of_tenant(tenant).0, &|job| job.tenant == new.tenant)
    }

    /// A queue's bounds, and whether it is held.
    pub(super) fn of_queue(&self, queue: &QueueName) -> (Limits, bool) {
        let rule = self.rules.get(&Scope::Queue(queue.clone()));
        rule.map_or((Limits::NONE, false), |rule| (rule.limits, rule.held.is_some()))
    }

    /// A tenant's bounds, and whether it is held.
    pub(super) fn of_tenant(&self, tenant: &TenantId) -> (Limits, bool) {
        of_tenant(self.rules.get(&Scope::Tenant(tenant.clone())), self.rules.get(&Scope::EachTenant))
    }

    pub(super) fn set_rules(&mut self, rules: &[Rule]) {
        for rule in rules {
            if rule.limits == Limits::NONE && rule.held.is_none() {
                self.rules.remove(&rule.scope);
            } else {
                self.rules.insert(rule.scope.clone(), rule.clone());
            }
        }
    }

    pub(super) fn settle(&mut self, (of, outcome): &(Delivery, Outcome), now: Ms) -> Result<JobStatus, Refusal> {
        let job = self.get(&of.job)?;
        let stands = job.status;
        match rules::settle(job, of.fence, outcome.clone(), now)? {
            Some(job) => {
                let status = job.status;
                self.put(job);
                Ok(status)
            }
            None => Ok(stands),
        }
    }

    pub(super) fn beat(&mut self, of: &Delivery, lease_ms: u64, now: Ms) -> Result<Beaten, Refusal> {
        let job = rules::beat(self.get(&of.job)?, of.fence, lease_ms, now)?;
        let beaten = Beaten { until: job.lease_until, cancel: job.cancel.is_some() };
        self.put(job);
        Ok(beaten)
    }

    pub(super) fn ask(&mut self, id: &JobId, ask: JobAsk, asker: &Asker, now: Ms) -> Result<Asked, Refusal> {
        let asker = Asker { at: now, ..asker.clone() };
        let (asked, job) = rules::ask(self.get(id)?, ask, asker)?;
        job.into_iter().for_each(|job| self.put(job));
        Ok(asked)
    }

    /// Judges what ran out and will not be delivered again, of one queue or of all.
    pub(super) fn judge(&mut self, queue: Option<&QueueName>, limit: usize, now: Ms) -> u32 {
        let of = |job: &&Job| queue.is_none_or(|queue| *queue == job.queue);
        let ran_out = |job: &&Job| job.status == JobStatus::Running && job.lease_until <= now;
        let settled: Vec<Job> = self
            .jobs
            .values()
            .filter(|job| of(job) && ran_out(job))
            .filter_map(|job| match rules::expire(job.clone(), now) {
                Expired::Settled(job) => Some(job),
                Expired::Again(_) => None,
            })
            .take(limit)
            .collect();
        let count = settled.len() as u32;
        settled.into_iter().for_each(|job| self.put(job));
        count
    }

    pub(super) fn purge(&mut self, before: Ms, limit: u32) -> u32 {
        let old = self.jobs.values().filter(|job| job.completed_at.is_some_and(|at| at < before));
        let old: Vec<JobId> = old.map(|job| job.id).take(limit as usize).collect();
        old.iter().for_each(|id| _ = self.jobs.remove(id));
        old.len() as u32
    }

    pub(super) fn draw(&mut self) -> Fence {
        self.fence = Fence(self.fence.0 + 1);
        self.fence
    }
}
