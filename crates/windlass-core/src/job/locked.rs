//! Jobs in a transaction's hands: locked, judged one after the other, and written where they have changed.

use std::collections::{BTreeMap, HashSet};

use super::rules::{Asked, Expired, JobAsk, ask, beat, expire, settle};
use super::{Asker, Job, JobStatus};
use crate::id::JobId;
use crate::port::Refusal;
use crate::port::job::{Beaten, Delivery, Turn, Turned};
use crate::time::Ms;

/// Jobs that were locked, and which of them have changed.
#[derive(Debug)]
pub struct Locked {
    jobs: BTreeMap<JobId, Job>,
    changed: HashSet<JobId>,
    now: Ms,
}

impl Locked {
    /// These, at this moment.
    #[must_use]
    pub fn new(jobs: impl IntoIterator<Item = Job>, now: Ms) -> Locked {
        let jobs = jobs.into_iter().map(|job| (job.id, job)).collect();
        Locked { jobs, changed: HashSet::new(), now }
    }

    /// The moment they are judged at.
    #[must_use]
    pub fn now(&self) -> Ms {
        self.now
    }

    fn get(&self, id: JobId) -> Result<Job, Refusal> {
        self.jobs.get(&id).cloned().ok_or_else(|| Refusal::NotFound(format!("job {id}")))
    }

    /// All of them, as they are by now.
    pub fn all(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// Something has become of it.
    pub fn put(&mut self, job: Job) {
        self.changed.insert(job.id);
        self.jobs.insert(job.id, job);
    }

    /// What a turn says, judged on what the turns before it left. Nothing is claimed here.
    pub fn turn(&mut self, turn: &Turn) -> Turned {
        let settled = turn.settle.iter().map(|(delivery, outcome)| {
            let job = self.get(delivery.job)?;
            let stands = job.status;
            match settle(job, delivery.fence, outcome.clone(), self.now)? {
                None => Ok(stands),
                Some(job) => {
                    let stands = job.status;
                    self.put(job);
                    Ok(stands)
                }
            }
        });
        let settled = settled.collect();
        let beaten = turn.beat.iter().map(|delivery| self.beat(*delivery, turn.lease_ms)).collect();
        Turned { settled, beaten, claimed: Vec::new(), next: None, at: self.now }
    }

    fn beat(&mut self, delivery: Delivery, lease_ms: u64) -> Result<Beaten, Refusal> {
        let job = beat(self.get(delivery.job)?, delivery.fence, lease_ms, self.now)?;
        let beaten = Beaten { until: job.lease_until, cancel: job.cancel.is_some() };
        self.put(job);
        Ok(beaten)
    }

    /// What a person asks, at this moment.
    pub fn ask(&mut self, id: JobId, what: JobAsk, asker: &Asker) -> Result<Asked, Refusal> {
        let (asked, job) = ask(self.get(id)?, what, Asker { at: self.now, ..asker.clone() })?;
        if let Some(job) = job {
            self.put(job);
        }
        Ok(asked)
    }

    /// Ends what ran out and is not delivered again; answers how many.
    pub fn expire(&mut self) -> u32 {
        let over: Vec<Job> = self.jobs.values().filter(|job| is_over(job, self.now)).cloned().collect();
        let mut judged = 0;
        for job in over {
            if let Expired::Settled(job) = expire(job, self.now) {
                judged += 1;
                self.put(job);
            }
        }
        judged
    }

    /// What is to be written.
    #[must_use]
    pub fn changed(&self) -> Vec<&Job> {
        self.changed.iter().filter_map(|id| self.jobs.get(id)).collect()
    }

    /// What has ended.
    #[must_use]
    pub fn ended(&self) -> Vec<JobId> {
        self.changed().into_iter().filter(|job| job.status.is_ended()).map(|job| job.id).collect()
    }

    /// Something waits again.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.changed().into_iter().any(|job| job.status == JobStatus::Pending)
    }
}

fn is_over(job: &Job, now: Ms) -> bool {
    job.status == JobStatus::Running && job.lease_until <= now
}
