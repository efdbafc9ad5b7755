//! Lists of jobs and queues. Live ones stand in sorted sets of their queue and tenant; ended ones in one set for each
//! status, the newest first, with their queue and tenant in the entry.

use windlass_core::id::{JobId, TenantId};
use windlass_core::job::{Job, JobStatus};
use windlass_core::port::job::{DEPTH_MAX, JobFilter, LOOK_MAX, QueueView};
use windlass_core::port::{Cursor, Page, PortError};
use windlass_core::time::Ms;

use super::record;
use crate::Inner;
use crate::error::corrupt;
use crate::page::{bad, cursor, place};
use crate::reply::{array, parts, text};
use crate::script;

/// After the live ones, in this order.
const ENDED: [JobStatus; 3] = [JobStatus::Failed, JobStatus::Cancelled, JobStatus::Completed];
/// Entries that are looked at in one go.
const CHUNK: usize = 1_000;

/// Where a list stands.
#[derive(Clone, PartialEq, Eq)]
enum At {
    /// Among the live ones: queue, tenant, entry; all empty at the beginning.
    Live([String; 3]),
    /// Among those of a status: entry; empty at its beginning.
    Ended(usize, String),
    Over,
}

impl At {
    fn of(after: Option<&Cursor>) -> Result<At, PortError> {
        let text = place("job", after)?;
        if text.is_empty() {
            return Ok(At::Live(Default::default()));
        }
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        match &words[..] {
            [kind, queue, tenant, member] if kind == "l" => {
                Ok(At::Live([queue.clone(), tenant.clone(), member.clone()]))
            }
            [kind, member] => match kind.parse() {
                Ok(nth) if nth < ENDED.len() => Ok(At::Ended(nth, member.clone())),
                _ => Err(bad()),
            },
            _ => Err(bad()),
        }
    }

    fn cursor(&self) -> Option<Cursor> {
        match self {
            At::Live([queue, tenant, member]) => Some(cursor("job", &format!("l {queue} {tenant} {member}"))),
            At::Ended(nth, member) => Some(cursor("job", &format!("{nth} {member}"))),
            At::Over => None,
        }
    }

    /// The beginning of the part that comes next.
    fn part_after(&self) -> At {
        match self {
            At::Live(_) => At::Ended(0, String::new()),
            At::Ended(nth, _) if nth + 1 < ENDED.len() => At::Ended(nth + 1, String::new()),
            _ => At::Over,
        }
    }
}

pub(super) async fn list(
    inner: &Inner,
    filter: &JobFilter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Job>, PortError> {
    let mut at = At::of(after)?;
    let (mut items, mut looked) = (Vec::new(), 0);
    while at != At::Over && looked < LOOK_MAX {
        let entries = match at.clone() {
            At::Live(from) if wants(filter, &[JobStatus::Pending, JobStatus::Running]) => {
                live(inner, filter, from).await?
            }
            At::Ended(nth, from) if wants(filter, &ENDED[nth..=nth]) => ended(inner, nth, &from).await?,
            _ => Vec::new(),
        };
        looked += entries.len();
        let fitting: Vec<(JobId, At)> =
            entries.iter().filter(|entry| entry.fits(filter)).map(|entry| (entry.id, entry.at.clone())).collect();
        let ids: Vec<JobId> = fitting.iter().map(|(id, _)| *id).collect();
        let mut full = None;
        for ((_, here), job) in fitting.into_iter().zip(record::load(inner, &ids).await?) {
            let Some(job) = job.filter(|job| stands(job, &here) && wants(filter, &[job.status])) else { continue };
            items.push(job);
            if items.len() == limit as usize {
                full = Some(here);
                break;
            }
        }
        at = match (full, entries.last()) {
            (Some(here), _) => here,
            (None, Some(last)) if entries.len() == CHUNK => last.at.clone(),
            _ => at.part_after(),
        };
        if items.len() == limit as usize {
            break;
        }
    }
    Ok(Page { items, next: at.cursor() })
}

fn wants(filter: &JobFilter, any: &[JobStatus]) -> bool {
    filter.statuses.is_empty() || any.iter().any(|status| filter.statuses.contains(status))
}

/// Whether it still is where its entry was: one that moved is listed where it went.
fn stands(job: &Job, at: &At) -> bool {
    match at {
        At::Live([_, _, member]) => {
            !job.status.is_ended() && member.get(3..18).is_some_and(|run_at| run_at.parse() == Ok(job.run_at.get()))
        }
        At::Ended(nth, _) => job.status == ENDED[*nth],
        At::Over => false,
    }
}

/// An entry of an index.
struct Entry {
    id: JobId,
    queue: String,
    tenant: String,
    at: At,
}

impl Entry {
    fn fits(&self, filter: &JobFilter) -> bool {
        filter.queue.as_ref().is_none_or(|queue| queue.as_str() == self.queue)
            && filter.tenant.as_ref().is_none_or(|tenant| tenant.as_str() == self.tenant)
    }
}

async fn live(inner: &Inner, filter: &JobFilter, from: [String; 3]) -> Result<Vec<Entry>, PortError> {
    let queue = filter.queue.as_ref().map_or("", |queue| queue.as_str());
    let tenant = filter.tenant.as_ref().map_or("", TenantId::as_str);
    let with_tenant = u8::from(filter.tenant.is_some());
    let [after_queue, after_tenant, after] = from;
    let call = inner.script(&script::LIST_LIVE).arg((queue, tenant, with_tenant));
    let call = call.arg((after_queue, after_tenant, after, CHUNK));
    let entries = array(inner.call(&call).await?)?.into_iter().map(|entry| {
        let entry = &mut parts(entry)?;
        let (queue, tenant, member) = (entry.text()?, entry.text()?, entry.text()?);
        let id = member.get(34..).and_then(|id| id.parse().ok()).ok_or_else(|| corrupt("an entry", &member))?;
        Ok(Entry { id, at: At::Live([queue.clone(), tenant.clone(), member]), queue, tenant })
    });
    entries.collect()
}

async fn ended(inner: &Inner, nth: usize, from: &str) -> Result<Vec<Entry>, PortError> {
    let mut cmd = redis::cmd("ZRANGEBYLEX");
    let from = if from.is_empty() { "-".to_owned() } else { format!("({from}") };
    let key = inner.keys.of("ended_jobs", &ENDED[nth].name().to_ascii_lowercase());
    cmd.arg(key).arg(from).arg("+").arg("LIMIT").arg(0).arg(CHUNK);
    let entries = array(inner.link.ask(&cmd).await?)?.into_iter().map(|member| {
        let member = text(member)?;
        let id = member.get(15..51).and_then(|id| id.parse().ok()).ok_or_else(|| corrupt("an entry", &member))?;
        let (queue, tenant) = member[51..].split_once(':').unwrap_or_default();
        let (queue, tenant) = (queue.to_owned(), tenant.to_owned());
        Ok(Entry { id, queue, tenant, at: At::Ended(nth, member) })
    });
    entries.collect()
}

/// A page of queues.
pub(super) async fn queues(inner: &Inner, after: Option<&Cursor>, limit: u32) -> Result<Page<QueueView>, PortError> {
    let after = place("queue", after)?;
    let call = inner.script(&script::QUEUES).arg((after, limit + 1));
    let mut items = Vec::new();
    for view in array(inner.call(&call).await?)? {
        let view = &mut parts(view)?;
        items.push(QueueView {
            queue: view.parse()?,
            waiting: view.number::<u32>()?.min(DEPTH_MAX),
            running: view.number::<u32>()?.min(DEPTH_MAX),
            oldest: view.some()?.and_then(|at| at.parse().ok()).map(Ms::new),
            worker_until: view.some()?.and_then(|at| at.parse().ok()).map(Ms::new),
        });
    }
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(|last| cursor("queue", last.queue.as_str()));
    Ok(Page { items, next })
}
