//! Lists. Indexes are sorted sets whose members sort as the list does; what a filter asks of the rest is looked at in
//! the rows themselves.

use redis::{Pipeline, Value};
use windlass_core::id::{InstanceId, PlanId};
use windlass_core::port::state::{Filter, Row, TaskRow};
use windlass_core::port::{Cursor, Page, PortError};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

use super::row::{Fields, PLAN};
use crate::Inner;
use crate::page::{bad, cursor, place};
use crate::reply::{array, number, text};

/// Rows that are read at a time, once a page's first have not filled it.
const CHUNK: usize = 500;

pub(super) async fn list(
    inner: &Inner,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: u32,
) -> Result<Page<Row>, PortError> {
    let (kind, words, indexes) = match filter {
        Filter::Instances => return instances(inner, after, limit).await,
        Filter::Plans { statuses } => {
            let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
            ("plan", 2, names_of(inner, "plans", &names))
        }
        Filter::Tasks { plan: Some(plan), .. } => ("task", 4, vec![inner.keys.of("plan_tasks", plan.as_str())]),
        Filter::Tasks { tenant: Some(tenant), .. } => ("task", 4, vec![inner.keys.of("tenant_tasks", tenant.as_str())]),
        Filter::Tasks { statuses, interrupted, .. } => {
            let running = Statuses::of(&[TaskStatus::Running, TaskStatus::RollingBack]);
            let statuses = if *interrupted { running } else { *statuses };
            ("task", 4, names_of(inner, "tasks", &statuses.iter().map(TaskStatus::name).collect::<Vec<_>>()))
        }
    };
    let mut from = place(kind, after)?;
    if !from.is_empty() && from.split(' ').count() != words {
        return Err(bad());
    }
    let mut page = Page { items: Vec::new(), next: None };
    if let Filter::Tasks { plan: Some(plan), statuses, .. } = filter
        && has_none(inner, plan, *statuses).await?
    {
        return Ok(page);
    }
    let mut last = String::new();
    // Nearly always all are wanted: as many as the page has room for, and one that says that there are more.
    let mut n = CHUNK.min(limit as usize + 1);
    // As long as the page has room for what is wanted.
    loop {
        let (members, more) = members(inner, &indexes, &from, n).await?;
        let Some(end) = members.last().cloned() else { return Ok(page) };
        for (member, row) in members.iter().zip(wanted(inner, &members, filter).await?) {
            let Some(row) = row else { continue };
            if page.items.len() == limit as usize {
                page.next = Some(cursor(kind, &last));
                return Ok(page);
            }
            page.items.push(row);
            last.clone_from(member);
        }
        if !more {
            return Ok(page);
        }
        from = end;
        n = CHUNK;
    }
}

/// Whether the plan's counts say that none of its tasks stands there, however many it has.
async fn has_none(inner: &Inner, plan: &PlanId, statuses: Statuses) -> Result<bool, PortError> {
    if statuses.is_empty() || statuses == Statuses::ALL {
        return Ok(false);
    }
    let counts = inner.link.ask(redis::cmd("HGETALL").arg(inner.keys.of("tally", plan.as_str()))).await?;
    // Counts end with their plan, and its tasks may outlive it for a while.
    let Some(counts) = Fields::of(counts)? else { return Ok(false) };
    for status in statuses.iter() {
        if counts.count(status.name())? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The index of each status, or of everything.
fn names_of(inner: &Inner, name: &str, statuses: &[&str]) -> Vec<String> {
    match statuses {
        [] => vec![inner.keys.of(name, "all")],
        all => all.iter().map(|status| inner.keys.of(name, status)).collect(),
    }
}

/// The rows of these members, those that the filter lets through.
async fn wanted(inner: &Inner, members: &[String], filter: &Filter) -> Result<Vec<Option<Row>>, PortError> {
    match filter {
        Filter::Plans { statuses } => {
            let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
            plans(inner, members, &names).await
        }
        filter => tasks(inner, members, filter).await,
    }
}

/// The next members of all indexes together, and whether there may be more; no index has one in between that is not
/// among them.
async fn members(inner: &Inner, indexes: &[String], after: &str, n: usize) -> Result<(Vec<String>, bool), PortError> {
    let mut pipe = Pipeline::new();
    if indexes.len() > 1 {
        pipe.atomic();
    }
    let from = if after.is_empty() { "-".to_owned() } else { format!("({after}") };
    for index in indexes {
        pipe.cmd("ZRANGEBYLEX").arg(index).arg(&from).arg("+").arg("LIMIT").arg(0).arg(n);
    }
    let mut all = Vec::new();
    let mut whole: Option<String> = None;
    for answer in inner.link.read(&pipe, indexes.len()).await? {
        let some = array(answer)?.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
        if some.len() == n
            && let Some(last) = some.last()
            && whole.as_ref().is_none_or(|whole| last < whole)
        {
            whole = Some(last.clone());
        }
        all.extend(some);
    }
    if let Some(whole) = &whole {
        all.retain(|member| member <= whole);
    }
    all.sort();
    all.dedup();
    Ok((all, whole.is_some()))
}

fn id_of(member: &str) -> &str {
    member.rsplit(' ').next().unwrap_or_default()
}

async fn plans(inner: &Inner, members: &[String], statuses: &[&str]) -> Result<Vec<Option<Row>>, PortError> {
    let mut pipe = Pipeline::new();
    for member in members {
        pipe.cmd("HMGET").arg(inner.keys.of("plan", id_of(member))).arg(&PLAN);
    }
    let answers = inner.link.read(&pipe, members.len()).await?;
    let row = |value: Value| {
        let row = Fields::named(&PLAN, value)?.map(|plan| plan.plan()).transpose()?;
        let fits = |name: &str| statuses.is_empty() || statuses.contains(&name);
        Ok(row.filter(|row| fits(row.plan.status.name())).map(Row::Plan))
    };
    answers.into_iter().map(row).collect()
}

async fn tasks(inner: &Inner, members: &[String], filter: &Filter) -> Result<Vec<Option<Row>>, PortError> {
    let mut pipe = Pipeline::new();
    for member in members {
        pipe.cmd("HGETALL").arg(inner.keys.of("task", id_of(member)));
    }
    let answers = inner.link.read(&pipe, members.len()).await?;
    let rows = answers.into_iter().map(|answer| Fields::of(answer)?.map(|task| task.task()).transpose());
    let rows = rows.collect::<Result<Vec<Option<TaskRow>>, PortError>>()?;
    let live = match filter {
        Filter::Tasks { interrupted: true, .. } => Some(live(inner).await?),
        _ => None,
    };
    let fits = |row: &TaskRow| match filter {
        Filter::Tasks { plan, tenant, statuses, interrupted } => {
            let owned = |owner: &InstanceId| live.as_ref().is_some_and(|live| live.contains(owner));
            plan.as_ref().is_none_or(|plan| *plan == row.task.plan)
                && tenant.as_ref().is_none_or(|tenant| *tenant == row.task.tenant)
                && (statuses.is_empty() || statuses.has(row.task.status))
                && (!interrupted || row.task.status.is_running() && !row.task.owner.as_ref().is_some_and(owned))
        }
        _ => false,
    };
    Ok(rows.into_iter().map(|row| row.filter(fits).map(|row| Row::Task(Box::new(row)))).collect())
}

/// Instances whose lease runs.
async fn live(inner: &Inner) -> Result<Vec<InstanceId>, PortError> {
    let now = inner.now().await?;
    let mut cmd = redis::cmd("ZRANGEBYSCORE");
    cmd.arg(inner.keys.one("instances")).arg(format!("({}", now.get())).arg("+inf");
    let all = array(inner.link.ask(&cmd).await?)?;
    all.into_iter().map(|id| text(id)?.parse().map_err(|error| crate::error::corrupt("an instance", error))).collect()
}

/// There are few, and they are sorted here.
async fn instances(inner: &Inner, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
    let after = place("instance", after)?;
    let mut cmd = redis::cmd("ZRANGE");
    cmd.arg(inner.keys.one("instances")).arg(0).arg(-1);
    let mut ids = array(inner.link.ask(&cmd).await?)?.into_iter().map(text).collect::<Result<Vec<_>, _>>()?;
    ids.retain(|id| *id > after);
    ids.sort();
    let more = ids.len() > limit as usize;
    ids.truncate(limit as usize);
    let mut pipe = Pipeline::new();
    for id in &ids {
        pipe.cmd("HGETALL").arg(inner.keys.of("instance", id));
    }
    let mut items = Vec::new();
    for (id, answer) in ids.iter().zip(inner.link.read(&pipe, ids.len()).await?) {
        let id = id.parse().map_err(|error| crate::error::corrupt("an instance", error))?;
        items.extend(Fields::of(answer)?.map(|row| row.instance(id)).transpose()?.map(Row::Instance));
    }
    let next = ids.last().filter(|_| more).map(|last| cursor("instance", last));
    Ok(Page { items, next })
}

impl Inner {
    /// The time by the server's clock.
    pub(crate) async fn now(&self) -> Result<Ms, PortError> {
        let mut parts = array(self.link.ask(&redis::cmd("TIME")).await?)?.into_iter();
        let mut part = || number::<u64>(parts.next().unwrap_or(Value::Nil));
        let (seconds, micros) = (part()?, part()?);
        Ok(Ms::new(seconds * 1_000 + micros / 1_000).plus(self.ahead_ms))
    }
}
