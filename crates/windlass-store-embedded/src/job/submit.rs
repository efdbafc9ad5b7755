//! Submissions: whoever submits works out what it can; the writer only judges and stamps.

use std::collections::BTreeMap;

use windlass_core::id::{JobId, TenantId};
use windlass_core::job::limit::Scope;
use windlass_core::job::rules;
use windlass_core::job::{Job, NewJob, When};
use windlass_core::port::Refusal;
use windlass_core::port::job::Submitted;
use windlass_core::time::Ms;

use super::index::Index;
use super::record::{Kept, PAYLOAD, Text};
use super::step;
use crate::key;
use crate::kv::{KvError, Read as _, Value};
use crate::record;
use crate::tx::Tx;

/// A submission, as far as it is known.
pub(super) struct Draft {
    kept: Kept,
    when: When,
    /// A payload that is large.
    apart: Option<Value>,
}

impl Draft {
    pub(super) fn new(new: &NewJob) -> Result<Result<Draft, Refusal>, KvError> {
        if let Err(refusal) = new.check() {
            return Ok(Err(refusal));
        }
        let mut job = rules::draft(new);
        let (payload, apart) = Text::of(job.payload.take())?;
        Ok(Ok(Draft { kept: Kept { job, payload, result: Text::None }, when: new.when, apart }))
    }
}

/// What a group would make, if all of it is taken.
#[derive(Default)]
struct Group {
    answers: Vec<Submitted>,
    /// The first job of each id and of each key, by its place in the group.
    ids: BTreeMap<JobId, usize>,
    keys: BTreeMap<Vec<u8>, usize>,
    new: Vec<usize>,
    waiting: BTreeMap<Scope, u64>,
}

impl Index {
    /// All of a group, or nothing.
    pub(super) fn submit(
        &mut self,
        tx: &mut Tx<'_>,
        drafts: Vec<Draft>,
        now: Ms,
    ) -> Result<Result<Vec<Submitted>, Refusal>, KvError> {
        let mut group = Group::default();
        for (at, draft) in drafts.iter().enumerate() {
            let there = match self.there(tx, &group, &drafts, &draft.kept.job)? {
                Some((_, digest)) if digest != draft.kept.job.digest => return Ok(Err(Refusal::OpReused)),
                there => there,
            };
            if there.is_none() {
                if let Err(full) = self.room(&mut group, &draft.kept.job) {
                    return Ok(Err(full));
                }
                group.ids.insert(draft.kept.job.id, at);
                group.keys.extend(key_of(&draft.kept.job).map(|key| (key, at)));
                group.new.push(at);
            }
            let id = there.map_or(draft.kept.job.id, |(id, _)| id);
            group.answers.push(Submitted { id, existing: there.is_some() });
        }
        let mut new = group.new.into_iter().peekable();
        for (at, draft) in drafts.into_iter().enumerate() {
            if new.next_if_eq(&at).is_some() {
                self.take(tx, draft, now)?;
            }
        }
        Ok(Ok(group.answers))
    }

    /// The job that this one is, with its digest: the same id, or the same key.
    fn there(&self, tx: &Tx<'_>, group: &Group, drafts: &[Draft], job: &Job) -> Result<Option<(JobId, u64)>, KvError> {
        let of = |job: &Job| (job.id, job.digest);
        if let Some(at) = group.ids.get(&job.id) {
            return Ok(Some(of(&drafts[*at].kept.job)));
        }
        if let Some(kept) = self.find(tx, &job.id)? {
            return Ok(Some(of(&kept.job)));
        }
        let Some(key) = key_of(job) else { return Ok(None) };
        if let Some(at) = group.keys.get(&key) {
            return Ok(Some(of(&drafts[*at].kept.job)));
        }
        let Some(value) = tx.get(&key)? else { return Ok(None) };
        let id = record::decode_bytes(&value)?.try_into().ok().and_then(JobId::of_bytes);
        let id = id.ok_or_else(|| KvError::Corrupt("an idempotency key leads to no job".into()))?;
        Ok(step::find(tx, &id)?.map(|kept| of(&kept.job)))
    }

    /// Whether one more may wait.
    fn room(&self, group: &mut Group, job: &Job) -> Result<(), Refusal> {
        if self.rules.is_empty() {
            return Ok(());
        }
        let tenant = job.tenant.as_ref();
        let in_queue = self.queues.get(&job.queue).map_or(0, |queue| queue.waiting);
        let of_tenant = tenant.and_then(|tenant| self.tenants.get(tenant)).map_or(0, |tenant| tenant.waiting);
        let queue = (Scope::Queue(job.queue.clone()), self.queue_limits(&job.queue).0, in_queue);
        let limits = self.tenant_limits(&job.tenant).0;
        let tenant = tenant.map(|tenant: &TenantId| (Scope::Tenant(tenant.clone()), limits, of_tenant));
        for (scope, limits, waiting) in [Some(queue), tenant].into_iter().flatten() {
            let Some(limit) = limits.waiting else { continue };
            let more = group.waiting.entry(scope.clone()).or_default();
            if waiting + *more >= u64::from(limit) {
                return Err(Refusal::Full { scope, limit });
            }
            *more += 1;
        }
        Ok(())
    }

    fn take(&mut self, tx: &mut Tx<'_>, draft: Draft, now: Ms) -> Result<(), KvError> {
        // Fences only grow, and so does the order of submission: one counter is enough.
        let seq = tx.draw_fence()?.0;
        let Draft { mut kept, when, apart } = draft;
        kept.job = rules::stamp(kept.job, when, seq, now);
        self.waits(tx, &kept, now)?;
        if let Some(payload) = apart {
            tx.put(key::job_text(&kept.job.id, PAYLOAD), payload);
        }
        if let Some(key) = key_of(&kept.job) {
            tx.put(key, record::encode_bytes(kept.job.id.bytes()));
        }
        Ok(())
    }
}

fn key_of(job: &Job) -> Option<Vec<u8>> {
    Some(key::job_key(&job.queue, job.tenant.as_ref(), job.key.as_ref()?))
}
