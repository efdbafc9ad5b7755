//! Lists.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::id::{QueueName, TenantId};
use windlass_core::job::limit::Scope;
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::job::{DEPTH_MAX, JobFilter, QueueView};
use windlass_core::time::Ms;

use super::Data;

impl Data {
    /// What fits, by its place in the list.
    pub(super) fn list(&self, filter: &JobFilter) -> BTreeMap<String, Job> {
        let fits = |job: &&Job| {
            filter.queue.as_ref().is_none_or(|queue| *queue == job.queue)
                && (filter.tenant.is_none() || filter.tenant == job.tenant)
                && (filter.statuses.is_empty() || filter.statuses.contains(&job.status))
        };
        self.jobs.values().filter(fits).map(|job| (place(job), job.clone())).collect()
    }

    pub(super) fn queues(&self, now: Ms) -> BTreeMap<String, QueueView> {
        let live = self.jobs.values().filter(|job| !job.status.is_ended()).map(|job| job.queue.clone());
        let ruled = self.rules.keys().filter_map(|scope| match scope {
            Scope::Queue(queue) => Some(queue.clone()),
            _ => None,
        });
        let asked = self.workers.iter().filter(|(_, until)| **until > now).map(|(queue, _)| queue.clone());
        let names: BTreeSet<QueueName> = live.chain(ruled).chain(asked).collect();
        names.into_iter().map(|queue| (queue.to_string(), self.view(queue, now))).collect()
    }

    fn view(&self, queue: QueueName, now: Ms) -> QueueView {
        let of = |status| self.jobs.values().filter(move |job| job.status == status);
        let waiting = || of(JobStatus::Pending).filter(|job| job.queue == queue);
        let running = of(JobStatus::Running).filter(|job| job.queue == queue);
        QueueView {
            waiting: (waiting().count() as u32).min(DEPTH_MAX),
            running: (running.count() as u32).min(DEPTH_MAX),
            oldest: waiting().map(|job| job.run_at).filter(|run_at| *run_at <= now).min(),
            worker_until: self.workers.get(&queue).copied().filter(|until| *until > now),
            queue,
        }
    }
}

/// Sorts as a list does. No identifier has a control character, so the shorter of two comes first.
fn place(job: &Job) -> String {
    let tenant = job.tenant.as_ref().map_or("", TenantId::as_str);
    let some = u8::from(job.tenant.is_some());
    let ended = |kind: u8| {
        let newest = u64::MAX - job.completed_at.unwrap_or(Ms::ZERO).get();
        format!("{kind} {newest:020} {}", job.id)
    };
    match job.status {
        JobStatus::Pending | JobStatus::Running => {
            let first = i16::from(i8::MAX) - i16::from(job.priority);
            let (run_at, seq) = (job.run_at.get(), job.seq);
            format!("0 {}\x01{some}{tenant}\x01{first:03} {run_at:020} {seq:020}", job.queue)
        }
        JobStatus::Failed => ended(1),
        JobStatus::Cancelled => ended(2),
        JobStatus::Completed => ended(3),
    }
}
