//! Lists of jobs: live ones stand by queue, tenant and place, ended ones by status and time, each with its whole
//! record, so that a list is one walk. A cursor is the key of the last record that was looked at.

use windlass_core::id::QueueName;
use windlass_core::id::TenantId;
use windlass_core::job::limit::Scope;
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::job::DEPTH_MAX;
use windlass_core::port::job::{JobFilter, LOOK_MAX, QueueView};
use windlass_core::port::{Cursor, Page, PortError};
use windlass_core::time::Ms;

use super::index::Index;
use super::record::Kept;
use crate::key;
use crate::kv::{KvError, Read};
use crate::state::list::{cursor_after, cursor_of, place_of};
use crate::tx::Tx;

/// Texts of one page, at most: a page of the largest jobs is short.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Lanes of a queue that are looked into for its oldest job, at most.
const LANES_MAX: usize = 1_000;

const LIVE: [JobStatus; 2] = [JobStatus::Pending, JobStatus::Running];
const ENDED: [JobStatus; 3] = [JobStatus::Failed, JobStatus::Cancelled, JobStatus::Completed];

pub(super) fn list(
    read: &dyn Read,
    filter: &JobFilter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Job>, PortError> {
    let wanted = |status: &JobStatus| filter.statuses.is_empty() || filter.statuses.contains(status);
    let mut runs = Vec::new();
    if LIVE.iter().any(wanted) {
        runs.push(key::within(key::live_in(filter.queue.as_ref())));
    }
    runs.extend(ENDED.iter().filter(|status| wanted(status)).map(|status| key::within(key::ended_with(*status))));
    // Live keys begin with a letter that sorts behind that of ended ones; lists show them first.
    let after = after.map(|cursor| place_of(cursor).map(|key| (order(&key), key))).transpose()?;
    let mut page = Walk { items: Vec::new(), last: None, looked: 0, bytes: 0, limit: limit as usize };
    for (mut from, to) in runs {
        if let Some((at, key)) = &after {
            match order(&from).cmp(at) {
                std::cmp::Ordering::Less => continue,
                std::cmp::Ordering::Equal => from = from.max([key.as_slice(), &[0]].concat()),
                std::cmp::Ordering::Greater => {}
            }
        }
        while let Some(next) = page.walk(read, filter, &wanted, (&from, &to))? {
            from = next;
        }
        if page.is_full() {
            return Ok(Page { items: page.items, next: page.last.map(|key| cursor_of(&key)) });
        }
    }
    Ok(Page { items: page.items, next: None })
}

/// Which run of a list a key is in.
fn order(key: &[u8]) -> (bool, u8) {
    match key {
        [b'q', ..] => (false, 0),
        [_, rank, ..] => (true, *rank),
        _ => (true, 0),
    }
}

struct Walk {
    items: Vec<Job>,
    /// The key of the last record that was looked at.
    last: Option<Vec<u8>>,
    looked: usize,
    bytes: usize,
    limit: usize,
}

impl Walk {
    fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.looked >= LOOK_MAX || self.bytes >= PAGE_BYTES_MAX
    }

    /// Walks until the page is full or the run is at its end; answers where to go on if the rest of a lane can be
    /// left out.
    fn walk(
        &mut self,
        read: &dyn Read,
        filter: &JobFilter,
        wanted: &dyn Fn(&JobStatus) -> bool,
        (from, to): (&[u8], &[u8]),
    ) -> Result<Option<Vec<u8>>, KvError> {
        let mut jump = None;
        if self.is_full() {
            return Ok(None);
        }
        read.scan(from, to, &mut |key, value| {
            self.looked += 1;
            self.last = Some(key.to_vec());
            let kept = Kept::decode(value)?;
            if key.first() == Some(&b'q') {
                jump = filter.tenant.as_ref().and_then(|tenant| past(&kept.job, tenant));
                if jump.is_some() {
                    return Ok(false);
                }
            }
            let job = &kept.job;
            let fits = wanted(&job.status)
                && filter.queue.as_ref().is_none_or(|queue| *queue == job.queue)
                && filter.tenant.as_ref().is_none_or(|tenant| Some(tenant) == job.tenant.as_ref());
            if fits {
                let job = kept.whole(read)?;
                let text = [&job.payload, &job.result].into_iter().flatten();
                self.bytes += text.map(|text| text.as_str().len()).sum::<usize>();
                self.items.push(job);
            }
            Ok(!self.is_full())
        })?;
        Ok(jump.filter(|_| !self.is_full()))
    }
}

/// Where a walk for one tenant goes on from another one's job.
fn past(job: &Job, tenant: &TenantId) -> Option<Vec<u8>> {
    match job.tenant.as_ref().cmp(&Some(tenant)) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(key::lane(&job.queue, Some(tenant))),
        std::cmp::Ordering::Greater => Some(key::within(key::live_in(Some(&job.queue))).1),
    }
}

impl Index {
    /// Queues by name: those with live jobs, a rule, or a worker that is there.
    pub(super) fn queues(
        &mut self,
        tx: &Tx<'_>,
        after: Option<&Cursor>,
        limit: u32,
        now: Ms,
    ) -> Result<Page<QueueView>, PortError> {
        let after = match cursor_after(after, &[])? {
            Some(key) => String::from_utf8(key).map_err(|_| PortError::Invalid("not a cursor of this list".into()))?,
            None => String::new(),
        };
        let alive = self.queues.iter().filter(|(_, queue)| {
            queue.waiting > 0 || queue.running > 0 || queue.worker_until.is_some_and(|until| until > now)
        });
        let ruled = self.rules.keys().filter_map(|scope| match scope {
            Scope::Queue(queue) => Some(queue),
            _ => None,
        });
        let names: std::collections::BTreeSet<QueueName> =
            alive.map(|(name, _)| name).chain(ruled).filter(|name| name.as_str() >= after.as_str()).cloned().collect();
        let more = names.len() > limit as usize;
        let names: Vec<QueueName> = names.into_iter().take(limit as usize).collect();
        let next = names.last().filter(|_| more).map(|last| cursor_of(last.as_str().as_bytes()));
        let items = names.into_iter().map(|name| self.view(tx, name, now)).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    fn view(&mut self, tx: &Tx<'_>, name: QueueName, now: Ms) -> Result<QueueView, KvError> {
        let mut view = QueueView { queue: name, waiting: 0, running: 0, oldest: None, worker_until: None };
        let Some(queue) = self.queues.get(&view.queue) else { return Ok(view) };
        view.waiting = u32::try_from(queue.waiting).unwrap_or(u32::MAX).min(DEPTH_MAX);
        view.running = queue.running.min(DEPTH_MAX);
        view.worker_until = queue.worker_until.filter(|until| *until > now);
        let lanes: Vec<_> =
            queue.lanes.iter().filter(|(_, lane)| lane.waiting > 0).map(|(whose, _)| whose.clone()).collect();
        for whose in lanes.into_iter().take(LANES_MAX) {
            let next = self.hold(&view.queue, &whose, |lane| lane.next(tx, &key::lane(&view.queue, whose.as_ref())));
            let at = next.unwrap_or(Ok(None))?.filter(|at| *at <= now);
            view.oldest = [view.oldest, at].into_iter().flatten().min();
        }
        Ok(view)
    }
}
