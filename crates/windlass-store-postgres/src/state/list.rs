//! Lists, by keyset: a cursor is the place of the last item, so that what is inserted meanwhile moves
//! nothing, and a late page costs what the first one does.

use windlass_core::id::InstanceId;
use windlass_core::plan::PlanStatus;
use windlass_core::port::page::{Place, bad, cursor_of, page, parts};
use windlass_core::port::state::{Filter, Row};
use windlass_core::port::{Cursor, Page, PortError};
use windlass_core::task::status::{Statuses, TaskStatus};

use super::row;
use crate::cell::{Cells, Stamp, params};
use crate::pool::{Call, Pool};
use crate::sql;

/// One more than the page holds, to see whether there is a next one.
pub(crate) fn with_one_more(limit: u32) -> i64 {
    i64::from(limit) + 1
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
