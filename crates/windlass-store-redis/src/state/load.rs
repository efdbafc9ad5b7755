//! Reading records by their keys, all at one moment.

use redis::{Pipeline, Value};
use serde::de::DeserializeOwned;
use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::plan::Tally;
use windlass_core::port::PortError;
use windlass_core::port::state::{Key, Row, TenantRow};
use windlass_core::task::status::TaskStatus;

use super::event::event;
use super::row::{Fields, PLAN};
use crate::Inner;
use crate::error::corrupt;
use crate::reply::{array, parts, text};

pub(super) async fn load(inner: &Inner, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
    let mut pipe = Pipeline::with_capacity(keys.len() * 2);
    if keys.len() > 1 || keys.iter().any(|key| commands(key) > 1) {
        pipe.atomic();
    }
    for key in keys {
        ask(inner, &mut pipe, key);
    }
    let count = keys.iter().map(commands).sum();
    let mut answers = inner.link.read(&pipe, count).await?.into_iter();
    let mut next = || answers.next().unwrap_or(Value::Nil);
    keys.iter()
        .map(|key| {
            let first = next();
            let second = if commands(key) > 1 { next() } else { Value::Nil };
            row(key, first, second)
        })
        .collect()
}

/// How many commands a key takes.
fn commands(key: &Key) -> usize {
    match key {
        Key::Tally(_) | Key::PlanHistory(_) | Key::TaskHistory(_) | Key::Tenant(_) => 2,
        _ => 1,
    }
}

fn ask(inner: &Inner, pipe: &mut Pipeline, key: &Key) {
    let keys = &inner.keys;
    match key {
        Key::Plan(id) => pipe.cmd("HMGET").arg(keys.of("plan", id.as_str())).arg(&PLAN),
        Key::PlanSpec(id) => pipe.cmd("GET").arg(keys.of("plan_spec", id.as_str())),
        Key::Tally(id) => {
            pipe.cmd("EXISTS").arg(keys.of("plan", id.as_str()));
            pipe.cmd("HGETALL").arg(keys.of("tally", id.as_str()))
        }
        Key::PlanHistory(id) => {
            pipe.cmd("EXISTS").arg(keys.of("plan", id.as_str()));
            pipe.cmd("LRANGE").arg(keys.of("plan_history", id.as_str())).arg(0).arg(-1)
        }
        Key::Task(id) => pipe.cmd("HGETALL").arg(keys.of("task", id.as_str())),
        Key::TaskSpec(id) => pipe.cmd("GET").arg(keys.of("task_spec", id.as_str())),
        Key::TaskHistory(id) => {
            pipe.cmd("HMGET").arg(keys.of("task", id.as_str())).arg("planId").arg("tenantId");
            pipe.cmd("LRANGE").arg(keys.of("task_history", id.as_str())).arg(0).arg(-1)
        }
        Key::Checkpoint(id) => pipe.cmd("GET").arg(keys.of("ckpt", id.as_str())),
        Key::Tenant(id) => {
            pipe.cmd("HGETALL").arg(keys.of("tenant", id.as_str()));
            pipe.cmd("GET").arg(keys.of("tenant_task", id.as_str()))
        }
        Key::Op(id) => pipe.cmd("HGETALL").arg(keys.of("op", id.as_str())),
        Key::Instance(id) => pipe.cmd("HGETALL").arg(keys.of("instance", id.as_str())),
    };
}

fn row(key: &Key, first: Value, second: Value) -> Result<Option<Row>, PortError> {
    Ok(match key {
        Key::Plan(_) => Fields::named(&PLAN, first)?.map(|plan| plan.plan()).transpose()?.map(Row::Plan),
        Key::PlanSpec(_) => decoded("a plan's spec", first)?.map(Row::PlanSpec),
        Key::TaskSpec(_) => decoded("a task's spec", first)?.map(Row::TaskSpec),
        Key::Checkpoint(_) => decoded("a checkpoint", first)?.map(Row::Checkpoint),
        Key::Tally(_) | Key::PlanHistory(_) if first == Value::Int(0) => None,
        Key::Tally(_) => {
            let counts = Fields::of(second)?;
            let mut tally = Tally::default();
            for status in TaskStatus::ALL {
                tally.add(status, counts.as_ref().map_or(Ok(0), |counts| counts.count(status.name()))?);
            }
            Some(Row::Tally(tally))
        }
        Key::PlanHistory(_) => Some(history(second, None)?),
        Key::TaskHistory(id) => {
            let of = &mut parts(first)?;
            match (of.some()?, of.some()?) {
                (Some(plan), Some(tenant)) => {
                    let plan = plan.parse().map_err(|error| corrupt("a task's plan", error))?;
                    let tenant = tenant.parse().map_err(|error| corrupt("a task's tenant", error))?;
                    Some(history(second, Some(&(id.clone(), plan, tenant)))?)
                }
                _ => None,
            }
        }
        Key::Task(_) => match Fields::of(first)? {
            Some(task) => Some(Row::Task(Box::new(task.task()?))),
            None => None,
        },
        Key::Tenant(_) => match Fields::of(first)? {
            Some(tenant) => {
                let (fence, started) = tenant.tenant()?;
                let latest = Some(text(second)?).filter(|latest| !latest.is_empty());
                let latest = latest.map(|latest| latest.parse()).transpose();
                let latest = latest.map_err(|error| corrupt("a tenant's latest task", error))?;
                Some(Row::Tenant(TenantRow { fence, latest, started }))
            }
            None => None,
        },
        Key::Op(_) => Fields::of(first)?.map(|op| op.op()).transpose()?.map(Row::Op),
        Key::Instance(id) => {
            Fields::of(first)?.map(|instance| instance.instance(id.clone())).transpose()?.map(Row::Instance)
        }
    })
}

fn history(lines: Value, of: Option<&(TaskId, PlanId, TenantId)>) -> Result<Row, PortError> {
    let events = array(lines)?.into_iter().map(|line| event(&text(line)?, of));
    Ok(Row::History(events.collect::<Result<_, _>>()?))
}

fn decoded<T: DeserializeOwned>(what: &str, value: Value) -> Result<Option<T>, PortError> {
    match value {
        Value::Nil => Ok(None),
        value => serde_json::from_str(&text(value)?).map(Some).map_err(|error| corrupt(what, error)),
    }
}
