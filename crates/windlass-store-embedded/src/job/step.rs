//! The steps that a job makes, in the batch and in the index at once: whatever can fail comes first.

use windlass_core::id::JobId;
use windlass_core::job::{Job, JobStatus};
use windlass_core::time::Ms;

use super::index::{Index, Running};
use super::record::{Kept, PAYLOAD, RESULT, Text};
use crate::key::{self, Place};
use crate::kv::{KvError, Read as _, Value};
use crate::record;
use crate::tx::Tx;

impl Index {
    /// A job as it is stored.
    pub(super) fn find(&self, tx: &Tx<'_>, id: &JobId) -> Result<Option<Kept>, KvError> {
        match self.running.get(id) {
            Some(running) => Ok(Some(running.kept.clone())),
            None => find(tx, id),
        }
    }

    /// A job waits from now on.
    pub(super) fn waits(&mut self, tx: &mut Tx<'_>, kept: &Kept, now: Ms) -> Result<(), KvError> {
        let (job, record) = (&kept.job, kept.encode()?);
        let place = key::live_job(job);
        tx.put(key::job(&job.id), record::encode_bytes(&place));
        tx.put(place, record.clone());
        self.count(job, 1, 0);
        self.hold(&job.queue, &job.tenant, |lane| lane.add(Place::of(job), &record));
        self.wake(&job.queue, &job.tenant, job.run_at, now);
        tx.jobs_changed = true;
        Ok(())
    }

    /// A job that waited does not any more; its record goes.
    fn unwaits(&mut self, tx: &mut Tx<'_>, job: &Job) {
        tx.remove(key::live_job(job));
        self.count(job, -1, 0);
        self.hold(&job.queue, &job.tenant, |lane| lane.take(Place::of(job)));
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.unset(&job.tenant, job.run_at);
        }
        self.tidy(&job.queue, &job.tenant);
    }

    /// A job was delivered: it waited before, or its lease had run out.
    pub(super) fn delivered(&mut self, tx: &mut Tx<'_>, kept: Kept) -> Result<(), KvError> {
        let record = kept.encode()?;
        let job = &kept.job;
        tx.put(key::live_job(job), record);
        match self.running.get(&job.id) {
            Some(before) => {
                if let Some(queue) = self.queues.get_mut(&job.queue) {
                    queue.forget_lease(&before.kept.job);
                }
                self.claims.leave(&job.id, before.claim);
            }
            None => {
                self.count(job, -1, 1);
                self.hold(&job.queue, &job.tenant, |lane| lane.take(Place::of(job)));
            }
        }
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.leases.insert((job.lease_until, job.id));
        }
        let claim = self.claims.join(job.id, job.fence);
        self.running.insert(job.id, Running { kept, claim });
        Ok(())
    }

    /// A job goes on running: its lease is longer, or its end is asked for.
    pub(super) fn goes_on(&mut self, tx: &mut Tx<'_>, job: Job) -> Result<(), KvError> {
        let Some(running) = self.running.get_mut(&job.id) else { return Ok(()) };
        let kept = Kept { job, ..running.kept.clone() };
        let record = kept.encode()?;
        let before = std::mem::replace(&mut running.kept, kept);
        let job = &running.kept.job;
        tx.put(key::live_job(job), record);
        if before.job.lease_until != job.lease_until
            && let Some(queue) = self.queues.get_mut(&job.queue)
        {
            queue.forget_lease(&before.job);
            queue.leases.insert((job.lease_until, job.id));
        }
        Ok(())
    }

    /// A job leaves where it stands, RUNNING, PENDING or FAILED, for where `job` says. `result` is the record of a
    /// result that is large.
    pub(super) fn moves(
        &mut self,
        tx: &mut Tx<'_>,
        before: &Kept,
        mut job: Job,
        result: Option<Value>,
        now: Ms,
    ) -> Result<(), KvError> {
        tx.lasts = true;
        let text = match (job.result.take(), &result) {
            (Some(_), Some(_)) => Text::Apart,
            (given, _) => given.map_or(Text::None, Text::New),
        };
        let kept = Kept { job, payload: before.payload.clone(), result: text };
        if kept.job.status.is_ended() {
            self.ends(tx, before, &kept, result)
        } else {
            // Encoded twice, so that nothing has changed when it cannot be.
            kept.encode()?;
            self.leaves(tx, &before.job);
            self.waits(tx, &kept, now)
        }
    }

    fn ends(&mut self, tx: &mut Tx<'_>, before: &Kept, kept: &Kept, result: Option<Value>) -> Result<(), KvError> {
        let record = kept.encode()?;
        self.leaves(tx, &before.job);
        let (id, place) = (kept.job.id, key::ended_job(&kept.job));
        if let Some(result) = result {
            tx.put(key::job_text(&id, RESULT), result);
        }
        self.purged.forget(&place);
        tx.put(key::job(&id), record::encode_bytes(&place));
        tx.put(place, record);
        tx.ended.push(id);
        Ok(())
    }

    /// A job is not where it was any more.
    fn leaves(&mut self, tx: &mut Tx<'_>, before: &Job) {
        match before.status {
            JobStatus::Pending => self.unwaits(tx, before),
            JobStatus::Running => self.stops(tx, before),
            _ => tx.remove(key::ended_job(before)),
        }
    }

    /// A job does not run any more: who waited for its place may begin.
    fn stops(&mut self, tx: &mut Tx<'_>, before: &Job) {
        tx.remove(key::live_job(before));
        if let Some(running) = self.running.remove(&before.id) {
            self.claims.leave(&before.id, running.claim);
        }
        if let Some(queue) = self.queues.get_mut(&before.queue) {
            queue.forget_lease(before);
        }
        self.count(before, 0, -1);
        if !self.rules.is_empty() {
            let of_queue = self.queue_limits(&before.queue).0.running;
            let of_tenant = self.tenant_limits(&before.tenant).0.running;
            let unblocked = before.tenant.as_ref().is_some_and(|tenant| self.unblock(tenant));
            tx.jobs_changed |= of_queue.or(of_tenant).is_some() || unblocked;
        }
        self.tidy(&before.queue, &before.tenant);
    }

    /// A job is forgotten: one that has ended.
    pub(super) fn forget(tx: &mut Tx<'_>, kept: &Kept) -> Result<(), KvError> {
        let job = &kept.job;
        if let Some(text) = &job.key {
            let key = key::job_key(&job.queue, job.tenant.as_ref(), text);
            if tx.get(&key)?.is_some_and(|value| record::decode_bytes(&value).is_ok_and(|id| id == job.id.bytes())) {
                tx.remove(key);
            }
        }
        for (text, part) in [(&kept.payload, PAYLOAD), (&kept.result, RESULT)] {
            if text.is_apart() {
                tx.remove(key::job_text(&job.id, part));
            }
        }
        tx.remove(key::ended_job(job));
        tx.remove(key::job(&job.id));
        Ok(())
    }

    /// What the index adds to the batch.
    pub(crate) fn seal(&mut self, mut row: impl FnMut(Vec<u8>, Option<Value>)) {
        for (queue, whose) in std::mem::take(&mut self.dirty) {
            let lane = self.queues.get_mut(&queue).and_then(|queue| queue.lanes.get_mut(&whose));
            let Some(lane) = lane else { continue };
            lane.dirty = false;
            let count = (lane.waiting > 0).then(|| record::encode_u64(lane.waiting));
            row(key::lane_count(&queue, whose.as_ref()), count);
            self.tidy(&queue, &whose);
        }
        for (key, value) in self.claims.seal(&self.running) {
            row(key, value);
        }
    }
}

/// A job as it is stored, wherever it stands.
pub(super) fn find(read: &(impl crate::kv::Read + ?Sized), id: &JobId) -> Result<Option<Kept>, KvError> {
    let Some(place) = read.get(&key::job(id))? else { return Ok(None) };
    match read.get(record::decode_bytes(&place)?)? {
        Some(value) => Kept::decode(&value).map(Some),
        None => Err(KvError::Corrupt(format!("job {id} is not where its id leads"))),
    }
}
