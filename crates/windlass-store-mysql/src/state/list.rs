//! Lists, by keyset: a late page costs what the first one does.

use windlass_core::id::InstanceId;
use windlass_core::plan::PlanStatus;
use windlass_core::port::page::{Place, bad, cursor_of, page, parts};
use windlass_core::port::state::{Filter, Row};
use windlass_core::port::{Cursor, Page, PortError};
use windlass_core::task::status::Statuses;

use super::row;
use crate::cell::Cells;
use crate::clock::Clock;
use crate::pool::Pool;
use crate::text::{list as listed, literal};

/// One more than the page holds, to see whether there is a next one.
pub(crate) fn with_one_more(limit: u32) -> u64 {
    u64::from(limit) + 1
}

pub(super) async fn list(
    pool: &Pool,
    clock: &Clock,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Row>, PortError> {
    let items: Vec<Row> = match filter {
        Filter::Plans { statuses } => {
            let rows = pool.ask(&plans(statuses, after, limit)?).await?;
            rows.iter().map(|plan| row::plan(&mut Cells::of(plan)).map(Row::Plan)).collect::<Result<_, _>>()?
        }
        Filter::Tasks { .. } => {
            let rows = pool.ask(&tasks(clock, filter, after, limit)?).await?;
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
            let (after, limit) = (literal(after), with_one_more(limit));
            let sql = format!(
                "SELECT instance_id, up_since, lease_until FROM instance WHERE instance_id > {after} ORDER BY instance_id LIMIT {limit}"
            );
            let rows = pool.ask(&sql).await?;
            let instance = |one| row::instance(&mut Cells::of(one)).map(Row::Instance);
            rows.iter().map(instance).collect::<Result<_, _>>()?
        }
    };
    Ok(page(items, limit, cursor_of))
}

/// A walk for each status, along its index, merged.
fn plans(statuses: &[PlanStatus], after: Option<&Cursor>, limit: u32) -> Result<String, PortError> {
    let wanted = PlanStatus::ALL.iter().filter(|status| statuses.is_empty() || statuses.contains(status));
    let Place { born, plan, .. } = Place::of(after, "plan")?;
    let (born, plan, limit) = (literal(born), literal(plan), with_one_more(limit));
    let walks = wanted.map(|status| {
        format!(
            "(SELECT {} FROM plan_state_projection p FORCE INDEX (plan_by_status) WHERE p.status = {} AND p.created_at <= {born} \
             AND (p.created_at < {born} OR p.plan_id > {plan}) ORDER BY p.created_at DESC, p.plan_id LIMIT {limit})",
            row::PLAN,
            literal(status.name())
        )
    });
    let walks: Vec<String> = walks.collect();
    Ok(match &walks[..] {
        [walk] => walk.clone(),
        walks => format!("{} ORDER BY created_at DESC, plan_id LIMIT {limit}", walks.join(" UNION ALL ")),
    })
}

fn tasks(clock: &Clock, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<String, PortError> {
    let Filter::Tasks { plan, tenant, statuses, interrupted } = filter else { return Err(bad()) };
    let all = if statuses.is_empty() { Statuses::ALL } else { *statuses };
    let wanted = all.iter().filter(|status| !interrupted || status.is_running());
    let wanted: Vec<&str> = wanted.map(|status| status.name()).collect();
    let place = Place::of(after, "task")?;
    let (born, last, position) = (literal(place.born), literal(&place.plan), place.position);
    let (join, dead) = match interrupted {
        true => (
            "LEFT JOIN instance o ON o.instance_id = t.owner",
            format!("AND (o.lease_until IS NULL OR o.lease_until <= {})", clock.now()),
        ),
        false => ("", String::new()),
    };
    let limit = with_one_more(limit);
    let walk = |index: &str, of: String| {
        format!(
            "(SELECT {} FROM task_state_projection t FORCE INDEX ({index}) {join} WHERE {of} {dead} AND t.created_at <= {born} \
             AND (t.created_at < {born} OR t.plan_id > {last} OR (t.plan_id = {last} AND t.position > {position})) \
             ORDER BY t.created_at DESC, t.plan_id, t.position LIMIT {limit})",
            row::TASK
        )
    };
    let of_tenant = |tenant: &windlass_core::id::TenantId| format!("t.tenant_id = {}", literal(tenant.as_str()));
    let standing = || format!("t.status IN ({})", listed(&wanted));
    let walks: Vec<String> = match (plan, tenant) {
        (Some(plan), tenant) => {
            let mut of = format!("t.plan_id = {} AND {}", literal(plan.as_str()), standing());
            if let Some(tenant) = tenant {
                of = format!("{of} AND {}", of_tenant(tenant));
            }
            vec![walk("task_by_plan", of)]
        }
        (None, Some(tenant)) => vec![walk("task_by_tenant", format!("{} AND {}", of_tenant(tenant), standing()))],
        (None, None) if wanted.is_empty() => vec![walk("task_by_status", "t.status IS NULL".to_owned())],
        (None, None) => {
            wanted.iter().map(|status| walk("task_by_status", format!("t.status = {}", literal(*status)))).collect()
        }
    };
    Ok(match &walks[..] {
        [walk] => walk.clone(),
        walks => format!("{} ORDER BY created_at DESC, plan_id, position LIMIT {limit}", walks.join(" UNION ALL ")),
    })
}
