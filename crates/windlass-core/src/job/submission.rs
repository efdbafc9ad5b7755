//! Submissions as a store judges them: what is there already, and whether there is room.

use std::collections::{HashMap, HashSet};

use super::NewJob;
use super::limit::Scope;
use crate::id::{JobId, QueueName, TenantId};
use crate::port::Refusal;
use crate::port::job::Submitted;

/// Ids and keys that came before in the same statement.
#[derive(Debug, Default)]
pub struct Seen<'j> {
    ids: HashSet<JobId>,
    keys: HashSet<Key<'j>>,
}

/// Queue, tenant (empty for none) and key.
pub type Key<'j> = (&'j str, &'j str, &'j str);

/// A job's, if it has one.
#[must_use]
pub fn key_of(job: &NewJob) -> Option<Key<'_>> {
    job.key.as_deref().map(|key| (job.queue.as_str(), job.tenant.as_ref().map_or("", TenantId::as_str), key))
}

impl<'j> Seen<'j> {
    /// Whether neither came before.
    pub fn is_new(&mut self, job: &'j NewJob) -> bool {
        let new_key = key_of(job).is_none_or(|key| self.keys.insert(key));
        self.ids.insert(job.id) && new_key
    }
}

/// What is stored of what was submitted, and how much more may wait.
#[derive(Debug, Default)]
pub struct Stored {
    /// Digests of stored jobs, by id.
    pub ids: HashMap<JobId, u64>,
    /// And by queue, tenant and key.
    pub keys: HashMap<(String, String, String), (JobId, u64)>,
    /// Queues that are limited.
    pub queues: HashMap<QueueName, Room>,
    /// Tenants that are limited.
    pub tenants: HashMap<TenantId, Room>,
}

/// How much may wait, and how much does, counted no further than that.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// At most.
    pub limit: u32,
    /// Now.
    pub waiting: u32,
}

impl Stored {
    /// Judges the `n`th group; what it adds, `new`, is seen by the groups after it.
    pub fn group<'g>(
        &mut self,
        n: usize,
        group: &'g [NewJob],
        new: &mut Vec<(usize, &'g NewJob)>,
    ) -> Result<Vec<Submitted>, Refusal> {
        let before = new.len();
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            match self.one(job) {
                Ok(answer) => {
                    if !answer.existing {
                        self.add(job);
                        new.push((n, job));
                    }
                    answers.push(answer);
                }
                Err(refusal) => {
                    for (_, job) in new.drain(before..) {
                        self.remove(job);
                    }
                    return Err(refusal);
                }
            }
        }
        Ok(answers)
    }

    fn one(&self, job: &NewJob) -> Result<Submitted, Refusal> {
        let same = self.ids.get(&job.id).map(|digest| (job.id, *digest));
        let same = same.or_else(|| self.keys.get(&owned(key_of(job)?)).copied());
        match same {
            Some((id, digest)) if digest == job.digest() => return Ok(Submitted { id, existing: true }),
            Some(_) => return Err(Refusal::OpReused),
            None => {}
        }
        let full = |scope: Scope, room: Option<&Room>| match room {
            Some(room) if room.waiting >= room.limit => Err(Refusal::Full { scope, limit: room.limit }),
            _ => Ok(()),
        };
        full(Scope::Queue(job.queue.clone()), self.queues.get(&job.queue))?;
        if let Some(tenant) = &job.tenant {
            full(Scope::Tenant(tenant.clone()), self.tenants.get(tenant))?;
        }
        Ok(Submitted { id: job.id, existing: false })
    }

    fn add(&mut self, job: &NewJob) {
        self.ids.insert(job.id, job.digest());
        if let Some(key) = key_of(job) {
            self.keys.insert(owned(key), (job.id, job.digest()));
        }
        self.rooms(job, |room| room.waiting += 1);
    }

    fn remove(&mut self, job: &NewJob) {
        self.ids.remove(&job.id);
        if let Some(key) = key_of(job) {
            self.keys.remove(&owned(key));
        }
        self.rooms(job, |room| room.waiting -= 1);
    }

    fn rooms(&mut self, job: &NewJob, change: impl Fn(&mut Room)) {
        if let Some(room) = self.queues.get_mut(&job.queue) {
            change(room);
        }
        if let Some(room) = job.tenant.as_ref().and_then(|tenant| self.tenants.get_mut(tenant)) {
            change(room);
        }
    }
}

fn owned((queue, tenant, key): Key<'_>) -> (String, String, String) {
    (queue.to_owned(), tenant.to_owned(), key.to_owned())
}
