//! Lists: walks over the index entries of each status (or of the tenant), merged by place. A cursor
//! is the place of the last item, so that what is inserted meanwhile moves nothing.

use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Filter, InstanceRow, PlanRow, Row, TaskRow};
use windlass_core::port::{BATCH_MAX, Cursor, PAGE_MAX, Page, PortError};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

use super::lease_until;
use crate::kv::{KvError, Read, Value};
use crate::tx::{Kept, Records};
use crate::{key, record};

pub(crate) fn check_batch(items: usize) -> Result<(), PortError> {
    match items {
        0..=BATCH_MAX => Ok(()),
        _ => Err(PortError::Invalid(format!("{items} items in one call; at most {BATCH_MAX} are allowed"))),
    }
}

pub(crate) fn check_limit(limit: u32) -> Result<(), PortError> {
    match limit {
        1..=PAGE_MAX => Ok(()),
        _ => Err(PortError::Invalid(format!("a page of {limit} items; 1 to {PAGE_MAX} are allowed"))),
    }
}

/// A cursor that goes on after `place`.
pub(crate) fn cursor_of(place: &[u8]) -> Cursor {
    let mut text = String::with_capacity(1 + place.len() * 2);
    text.push('e');
    for byte in place {
        text.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        text.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    Cursor(text)
}

pub(crate) fn place_of(cursor: &Cursor) -> Result<Vec<u8>, PortError> {
    let bad = || PortError::Invalid("the cursor was not made by this list; begin again without one".into());
    let digits = cursor.0.strip_prefix('e').ok_or_else(bad)?.as_bytes();
    if digits.is_empty() || digits.len() > 512 || digits.len() % 2 != 0 {
        return Err(bad());
    }
    let digit = |c: u8| char::from(c).to_digit(16).and_then(|d| u8::try_from(d).ok());
    digits.chunks(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect::<Option<_>>().ok_or_else(bad)
}

/// Where a walk over `prefix` goes on after `cursor`.
pub(crate) fn cursor_after(cursor: Option<&Cursor>, prefix: &[u8]) -> Result<Option<Vec<u8>>, PortError> {
    let Some(cursor) = cursor else { return Ok(None) };
    let mut key = prefix.to_vec();
    key.extend(place_of(cursor)?);
    // The smallest key that is larger.
    key.push(0);
    Ok(Some(key))
}

pub(super) fn list(
    read: &dyn Read,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
    now: Ms,
) -> Result<Page<Row>, PortError> {
    match filter {
        Filter::Plans { statuses } => {
            let statuses = if statuses.is_empty() { &PlanStatus::ALL[..] } else { statuses };
            let walks = statuses.iter().map(|status| Walk::all(key::plans_with(*status))).collect();
            page(read, walks, after, limit, &mut |read, id| {
                Ok(read.record::<PlanRow>(&key::plan(&record::decode(id)?))?.map(Row::Plan))
            })
        }
        Filter::Instances => {
            let (from, _) = key::instances();
            page(read, vec![Walk::all(from)], after, limit, &mut |_, value| {
                Ok(Some(Row::Instance(record::decode::<InstanceRow>(value)?)))
            })
        }
        Filter::Tasks { plan, tenant, statuses, interrupted } => {
            let part = match plan {
                None => Vec::new(),
                Some(id) => match read.record::<PlanRow>(&key::plan(id))? {
                    Some(row) => key::plan_part(row.plan.created_at, id),
                    None => return Ok(Page { items: Vec::new(), next: None }),
                },
            };
            let wanted = wanted(*statuses, *interrupted);
            let walks = match tenant {
                Some(tenant) => vec![Walk { prefix: key::tasks_of(tenant), part }],
                None => wanted.iter().map(|s| Walk { prefix: key::tasks_with(s), part: part.clone() }).collect(),
            };
            page(read, walks, after, limit, &mut |read, id| {
                let Some(Kept { row, .. }) = read.record(&key::task(&record::decode(id)?))? else { return Ok(None) };
                let fits = wanted.has(row.task.status) && (!interrupted || is_interrupted(read, &row, now)?);
                Ok(fits.then(|| Row::Task(Box::new(row))))
            })
        }
    }
}

fn wanted(statuses: Statuses, interrupted: bool) -> Statuses {
    let all = if statuses.is_empty() { Statuses::ALL } else { statuses };
    all.iter().filter(|status| !interrupted || status.is_running()).collect()
}

fn is_interrupted(read: &dyn Read, row: &TaskRow, now: Ms) -> Result<bool, KvError> {
    let expired = match &row.task.owner {
        Some(owner) => lease_until(read, owner)? <= now,
        None => true,
    };
    Ok(row.task.status.is_running() && expired)
}

/// One run of index entries: those under `prefix` whose place begins with `part`.
struct Walk {
    prefix: Vec<u8>,
    part: Vec<u8>,
}

impl Walk {
    fn all(prefix: Vec<u8>) -> Walk {
        Walk { prefix, part: Vec::new() }
    }
}

/// Entries that one look at a walk takes: enough for a page, bounded when a filter refuses many.
const LOOK: usize = 256;

/// The row behind an index entry, if it fits the filter.
type Fit<'a> = dyn FnMut(&dyn Read, &Value) -> Result<Option<Row>, KvError> + 'a;

/// Merges walks by place and keeps what `row` finds fit, up to `limit`.
fn page(
    read: &dyn Read,
    walks: Vec<Walk>,
    after: Option<&Cursor>,
    limit: u32,
    row: &mut Fit<'_>,
) -> Result<Page<Row>, PortError> {
    let mut streams = walks.into_iter().map(|walk| Stream::new(walk, after)).collect::<Result<Vec<_>, _>>()?;
    let mut items = Vec::new();
    let mut last: Option<Vec<u8>> = None;
    loop {
        for stream in &mut streams {
            stream.fill(read)?;
        }
        let first = streams.iter_mut().filter(|s| !s.ahead.is_empty()).min_by(|a, b| a.place().cmp(b.place()));
        let Some((place, value)) = first.and_then(|stream| stream.ahead.pop_front()) else {
            return Ok(Page { items, next: None });
        };
        if let Some(row) = row(read, &value)? {
            if items.len() == limit as usize {
                return Ok(Page { items, next: last.map(|place| cursor_of(&place)) });
            }
            items.push(row);
            last = Some(place);
        }
    }
}

struct Stream {
    from: Vec<u8>,
    to: Vec<u8>,
    prefix_bytes: usize,
    ahead: std::collections::VecDeque<(Vec<u8>, Value)>,
    ended: bool,
}

impl Stream {
    fn new(walk: Walk, after: Option<&Cursor>) -> Result<Stream, PortError> {
        let prefix_bytes = walk.prefix.len();
        let resumed = cursor_after(after, &walk.prefix)?;
        let (from, to) = key::within([walk.prefix, walk.part].concat());
        let from = resumed.map_or(from.clone(), |resumed| resumed.max(from));
        Ok(Stream { from, to, prefix_bytes, ahead: Default::default(), ended: false })
    }

    fn place(&self) -> &[u8] {
        self.ahead.front().map_or(&[], |(place, _)| place)
    }

    fn fill(&mut self, read: &dyn Read) -> Result<(), KvError> {
        if self.ended || !self.ahead.is_empty() {
            return Ok(());
        }
        let (ahead, bytes) = (&mut self.ahead, self.prefix_bytes);
        read.scan(&self.from, &self.to, &mut |key, value| {
            ahead.push_back((key[bytes..].to_vec(), value.clone()));
            Ok(ahead.len() < LOOK)
        })?;
        self.ended = ahead.len() < LOOK;
        if let Some((place, _)) = self.ahead.back() {
            self.from.truncate(bytes);
            self.from.extend_from_slice(place);
            self.from.push(0);
        }
        Ok(())
    }
}

/// Statuses as the index numbers them.
const _: () = assert!(TaskStatus::ALL.len() < 256 && PlanStatus::ALL.len() < 256);
