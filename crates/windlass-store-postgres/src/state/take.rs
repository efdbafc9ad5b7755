//! Taking tasks, and the lease that goes with it.

use std::collections::HashMap;

use windlass_core::id::{InstanceId, PlanId, TaskId};
use windlass_core::port::state::{Beat, TaskRow};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::step::may_take;
use windlass_core::time::Ms;

use super::commit::leases_in;
use super::{one, row};
use crate::cell::{Cells, params, signed};
use crate::error::Failure;
use crate::pool::{Call, Pool, Tx};
use crate::sql;

/// What is ready, in one trip. Where somebody else hands out there is little left: what was passed over is waited for only if
/// there is nothing else.
pub(super) async fn ready(
    pool: &Pool,
    instance: &InstanceId,
    plan: Option<&PlanId>,
    limit: u32,
    ahead_ms: i64,
) -> Each<TaskRow> {
    let plan = plan.map(ToString::to_string);
    for waits in [plan.is_some(), true] {
        let params = params![instance.to_string(), plan.clone(), i64::from(limit), waits, ahead_ms];
        let mut passed = false;
        let mut taken = Vec::new();
        for row in &pool.query(&Call::new(sql::TAKE, params)).await? {
            let cells = &mut Cells::of(row);
            match cells.get::<&str>()? {
                "TAKEN" => taken.push(Ok(row::task(cells)?)),
                "PASSED" => passed = true,
                _ => taken.push(Err(Refusal::NoLease(instance.clone()))),
            }
        }
        if !passed {
            return Ok(taken);
        }
    }
    Ok(Vec::new())
}

/// Exactly these: locked and read, judged, then owned.
pub(super) async fn named(pool: &Pool, instance: &InstanceId, ids: &[TaskId], ahead_ms: i64) -> Each<TaskRow> {
    let mut races = 0;
    loop {
        let tx = pool.begin().await?;
        let done = attempt(&tx, instance, ids, ahead_ms).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt(
    tx: &Tx<'_>,
    instance: &InstanceId,
    ids: &[TaskId],
    ahead_ms: i64,
) -> Result<Vec<Result<TaskRow, Refusal>>, Failure> {
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let calls = vec![
        Call::new(sql::LOCK_TASKS, params![names.clone()]),
        Call::new(sql::LEASES_OF_TASKS, params![names, Some(instance.to_string())]),
        Call::new(sql::NOW, params![ahead_ms]),
    ];
    let answers = tx.open(sql::BEGIN, calls).await?;
    let [tasks, leases, now] = &answers[..] else {
        return Err(PortError::Corrupt("three answers were expected".to_owned()).into());
    };
    let (leases, now) = (leases_in(leases)?, one(now)?.at()?);
    let mut rows = HashMap::with_capacity(tasks.len());
    for task in tasks {
        let task = row::task(&mut Cells::of(task))?;
        rows.insert(task.task.id.clone(), task);
    }
    let live = |instance: &InstanceId| leases.get(instance).is_some_and(|until| *until > now);
    if !live(instance) {
        tx.commit(Vec::new()).await?;
        return Ok(ids.iter().map(|_| Err(Refusal::NoLease(instance.clone()))).collect());
    }
    let mut taken = Vec::new();
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let answer = match rows.get_mut(id) {
            None => Err(Refusal::NotFound(format!("task {id}"))),
            Some(row) => may_take(row, instance, &leases, now).map(|is_new| {
                if is_new {
                    row.task.owner = Some(instance.clone());
                    row.version += 1;
                    taken.push(id.to_string());
                }
                row.clone()
            }),
        };
        answers.push(answer);
    }
    let writes = match taken.is_empty() {
        true => Vec::new(),
        false => vec![Call::new(sql::OWN_TASKS, params![taken, instance.to_string()])],
    };
    tx.commit(writes).await?;
    Ok(answers)
}

pub(super) async fn beat(pool: &Pool, instance: &InstanceId, lease_ms: u64, ahead_ms: i64) -> Result<Beat, PortError> {
    let lease_ms = signed(lease_ms.min(Ms::MAX.get()));
    let rows = pool.query(&Call::new(sql::BEAT, params![instance.to_string(), lease_ms, ahead_ms])).await?;
    let until = one(&rows)?.at()?;
    let mut asked = Vec::new();
    for row in &rows {
        let cells = &mut Cells::of(row);
        cells.at()?;
        if let Some(task) = cells.parse_or_none()? {
            asked.push((task, cells.json()?));
        }
    }
    // Not in the statement: an index that happens to have this order would be walked.
    asked.sort_by(|(one, _), (other, _)| TaskId::cmp(one, other));
    Ok(Beat { until, asked })
}
