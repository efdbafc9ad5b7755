//! Lists, by keyset: a cursor is the place of the last item, so that what is inserted meanwhile moves
//! nothing, and a late page costs what the first one does.

use windlass_core::id::{InstanceId, PlanId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Filter, Row};
use windlass_core::port::{BATCH_MAX, Cursor, PAGE_MAX, Page, PortError};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

use super::row;
use crate::cell::{Cells, Stamp, params};
use crate::pool::{Call, Pool};
use crate::sql;

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

/// One more than the page holds, to see whether there is a next one.
pub(crate) fn with_one_more(limit: u32) -> i64 {
    i64::from(limit) + 1
}

/// Cuts a list that may hold one more than the page.
pub(crate) fn page<T>(mut items: Vec<T>, limit: u32, cursor: impl Fn(&T) -> Cursor) -> Page<T> {
    let more = items.len() > limit as usize;
    items.truncate(limit as usize);
    let next = items.last().filter(|_| more).map(cursor);
    Page { items, next }
}

/// The parts of a cursor that `list` made: `list.part.part`.
pub(crate) fn parts<'c, const N: usize>(cursor: &'c Cursor, list: &str) -> Result<[&'c str; N], PortError> {
    let parts = cursor.0.strip_prefix(list).and_then(|rest| rest.strip_prefix('.'));
    parts.and_then(|rest| rest.split('.').collect::<Vec<_>>().try_into().ok()).ok_or_else(bad)
}

pub(crate) fn bad() -> PortError {
    PortError::Invalid("the cursor was not made by this list; begin again without one".to_owned())
}

/// Where a page begins: before everything, or after a plan, or after a task.
struct Place {
    born: Ms,
    plan: String,
    position: i64,
}

impl Place {
    fn of(cursor: Option<&Cursor>, list: &str) -> Result<Place, PortError> {
        let Some(cursor) = cursor else { return Ok(Place { born: Ms::MAX, plan: String::new(), position: -1 }) };
        let [born, position, plan] = parts::<3>(cursor, list)?;
        let plan: PlanId = plan.parse().map_err(|_| bad())?;
        let position: u32 = position.parse().map_err(|_| bad())?;
        Ok(Place { born: Ms::parse(born).ok_or_else(bad)?, plan: plan.to_string(), position: i64::from(position) })
    }
}

fn cursor_of(row: &Row) -> Cursor {
    Cursor(match row {
        Row::Plan(row) => format!("plan.{}.0.{}", row.plan.created_at.get(), row.plan.id),
        Row::Task(row) => format!("task.{}.{}.{}", row.task.created_at.get(), row.task.position, row.task.plan),
        Row::Instance(row) => format!("instance.{}", row.id),
        _ => String::new(),
    })
}

pub(super) async fn list(
    pool: &Pool,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
    ahead_ms: i64,
) -> Result<Page<Row>, PortError> {
    let items: Vec<Row> = match filter {
        Filter::Plans { statuses } => {
            let rows = pool.query(&plans(statuses, after, limit)?).await?;
            rows.iter().map(|plan| row::plan(plan).map(Row::Plan)).collect::<Result<_, _>>()?
        }
        Filter::Tasks { .. } => {
            let rows = pool.query(&tasks(filter, after, limit, ahead_ms)?).await?;
            let task = |task| row::task(&mut Cells::of(task)).map(|task| Row::Task(Box::new(task)));
            rows.iter().map(task).collect::<Result<_, _>>()?
        }
        Filter::Instances => {
            let after = match after {
                None => String::new(),
                Some(cursor) => {
                    let [id] = parts::<1>(cursor, "instance")?;
                    id.parse::<InstanceId>().map_err(|_| bad())?.to_string()
                }
            };
            let rows = pool.query(&Call::new(sql::LIST_INSTANCES, params![after, with_one_more(limit)])).await?;
            let instance = |one| row::instance(&mut Cells::of(one)).map(Row::Instance);
            rows.iter().map(instance).collect::<Result<_, _>>()?
        }
    };
    Ok(page(items, limit, cursor_of))
}

fn plans(statuses: &[PlanStatus], after: Option<&Cursor>, limit: u32) -> Result<Call, PortError> {
    let wanted = PlanStatus::ALL.iter().filter(|status| statuses.is_empty() || statuses.contains(status));
    let wanted: Vec<&str> = wanted.map(|status| status.name()).collect();
    let Place { born, plan, .. } = Place::of(after, "plan")?;
    Ok(Call::new(sql::LIST_PLANS, params![wanted, Stamp(born), plan, with_one_more(limit)]))
}

fn tasks(filter: &Filter, after: Option<&Cursor>, limit: u32, ahead_ms: i64) -> Result<Call, PortError> {
    let Filter::Tasks { plan, tenant, statuses, interrupted } = filter else { return Err(bad()) };
    let all = if statuses.is_empty() { Statuses::ALL } else { *statuses };
    let wanted = all.iter().filter(|status| !interrupted || status.is_running());
    let wanted: Vec<&str> = wanted.map(TaskStatus::name).collect();
    let place = Place::of(after, "task")?;
    let mut params =
        params![wanted, Stamp(place.born), place.plan, place.position, with_one_more(limit), *interrupted, ahead_ms];
    let sql = match (plan, tenant) {
        (Some(plan), tenant) => {
            params.extend(params![plan.to_string(), tenant.as_ref().map(ToString::to_string)]);
            sql::LIST_TASKS_OF_PLAN
        }
        (None, Some(tenant)) => {
            params.extend(params![tenant.to_string()]);
            sql::LIST_TASKS_OF_TENANT
        }
        (None, None) => sql::LIST_TASKS,
    };
    Ok(Call::new(sql, params))
}
