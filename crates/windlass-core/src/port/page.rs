//! Pages by keyset, for stores that walk an index: a cursor is the place of the last item, written out, so that what is
//! inserted meanwhile moves nothing. And the bounds of every call.

pub mod job;

use super::state::Row;
use super::{BATCH_MAX, Cursor, PAGE_MAX, Page, PortError};
use crate::id::PlanId;
use crate::time::Ms;

/// Whether one call may hold so many.
pub fn check_batch(items: usize) -> Result<(), PortError> {
    match items {
        0..=BATCH_MAX => Ok(()),
        _ => Err(PortError::Invalid(format!("{items} items in one call; at most {BATCH_MAX} are allowed"))),
    }
}

/// Whether a page may hold so many.
pub fn check_limit(limit: u32) -> Result<(), PortError> {
    match limit {
        1..=PAGE_MAX => Ok(()),
        _ => Err(PortError::Invalid(format!("a page of {limit} items; 1 to {PAGE_MAX} are allowed"))),
    }
}

/// Cuts a list that may hold one more than the page.
pub fn page<T>(mut items: Vec<T>, limit: u32, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(cursor);
    Page { items, next }
}

/// The parts of a cursor that `list` made: `list.part.part`.
pub fn parts<'c, const N: usize>(cursor: &'c Cursor, list: &str) -> Result<[&'c str; N], PortError> {
    let parts = cursor.0.strip_prefix(list).and_then(|rest| rest.strip_prefix('.'));
    parts.and_then(|rest| rest.split('.').collect::<Vec<_>>().try_into().ok()).ok_or_else(bad)
}

/// A cursor that this list did not make.
#[must_use]
pub fn bad() -> PortError {
    PortError::Invalid("the cursor was not made by this list; begin again without one".to_owned())
}

/// Where a page of plans or tasks begins: before everything, or after a plan, or after a task.
#[derive(Debug)]
pub struct Place {
    /// When the plan of the last item was made.
    pub born: Ms,
    /// That plan; empty before everything.
    pub plan: String,
    /// The last task's position in it; -1 before everything.
    pub position: i64,
}

impl Place {
    /// Of a cursor that this list made.
    pub fn of(cursor: Option<&Cursor>, list: &str) -> Result<Place, PortError> {
        let Some(cursor) = cursor else { return Ok(Place { born: Ms::MAX, plan: String::new(), position: -1 }) };
        let [born, position, plan] = parts::<3>(cursor, list)?;
        let plan: PlanId = plan.parse().map_err(|_| bad())?;
        let position: u32 = position.parse().map_err(|_| bad())?;
        Ok(Place { born: Ms::parse(born).ok_or_else(bad)?, plan: plan.to_string(), position: i64::from(position) })
    }
}

/// The cursor of a plan, a task or an instance.
#[must_use]
pub fn cursor_of(row: &Row) -> Cursor {
    Cursor(match row {
        Row::Plan(row) => format!("plan.{}.0.{}", row.plan.created_at.get(), row.plan.id),
        Row::Task(row) => format!("task.{}.{}.{}", row.task.created_at.get(), row.task.position, row.task.plan),
        Row::Instance(row) => format!("instance.{}", row.id),
        _ => String::new(),
    })
}
