//! Taking tasks, and the lease that goes with it.

use std::collections::{BTreeSet, HashMap};

use mysql_async::Row;
use windlass_core::id::{InstanceId, PlanId, TaskId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Beat, TaskRow};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::step::may_take;

use super::commit::{leases_in, lock_tasks};
use super::row;
use crate::Inner;
use crate::cell::{Cells, one};
use crate::clock::lease;
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, list, literal, row as values};
use crate::wake::{self, Port};

/// Plans that are handed out from in one transaction, at most.
const PLANS_MAX: usize = 16;

type Taken = Vec<Result<TaskRow, Refusal>>;

/// What is ready: in the plan that is named, or in those that have something, the oldest first.
pub(super) async fn ready(inner: &Inner, instance: &InstanceId, plan: Option<&PlanId>, limit: u32) -> Each<TaskRow> {
    let plans = match plan {
        Some(plan) => vec![plan.to_string()],
        None => waiting(inner).await?,
    };
    let mut taken: Taken = Vec::new();
    // Without a plan too the instance learns that it has no lease.
    let mut rest = plans.as_slice();
    loop {
        let (some, later) = rest.split_at(rest.len().min(PLANS_MAX));
        let left = u64::from(limit).saturating_sub(taken.len() as u64);
        let mut races = 0;
        let part = loop {
            let mut tx = inner.pool.lend().await?;
            let done = attempt_ready(&mut tx, inner, instance, some, left).await;
            if let Some(done) = tx.settle(done, &mut races).await {
                break done?;
            }
        };
        let Some(part) = part else { return Ok(vec![Err(Refusal::NoLease(instance.clone()))]) };
        taken.extend(part.into_iter().map(Ok));
        rest = later;
        if rest.is_empty() || taken.len() as u64 >= u64::from(limit) {
            return Ok(taken);
        }
    }
}

/// Plans that may have something for somebody: a ready task and a slot for it, or one whose owner is gone. The oldest first: it has
/// waited longest.
async fn waiting(inner: &Inner) -> Result<Vec<String>, PortError> {
    let now = inner.clock.now();
    let sql = format!(
        "SELECT p.plan_id FROM plan_state_projection p JOIN instance i ON i.instance_id = p.conductor AND i.lease_until > {now} \
         WHERE p.status = 'RUNNING' AND ( \
           (EXISTS (SELECT 1 FROM task_state_projection t FORCE INDEX (task_ready) \
              WHERE t.plan_id = p.plan_id AND t.readiness IN (1, 2, 3) AND t.ready_at <= {now}) \
            AND (SELECT COUNT(*) FROM task_state_projection s FORCE INDEX (task_slot) \
              WHERE s.plan_id = p.plan_id AND s.owner IS NOT NULL) < p.max_concurrency) \
           OR EXISTS (SELECT 1 FROM task_state_projection t FORCE INDEX (task_ready) \
              LEFT JOIN instance o ON o.instance_id = t.owner AND o.lease_until > {now} \
              WHERE t.plan_id = p.plan_id AND t.readiness IN (1, 2) AND t.ready_at <= {now} AND t.owner IS NOT NULL \
                AND o.instance_id IS NULL)) \
         ORDER BY p.created_at, p.plan_id DESC"
    );
    inner.pool.ask(&sql).await?.iter().map(|row| Cells::of(row).text().map(str::to_owned)).collect()
}

/// Locks plans, so that their slots are counted by one at a time, and hands out in their order. `None` without a lease.
async fn attempt_ready(
    tx: &mut Lent<'_>,
    inner: &Inner,
    instance: &InstanceId,
    plans: &[String],
    limit: u64,
) -> Result<Option<Vec<TaskRow>>, Failure> {
    let mut script = Script::begin();
    let sorted: BTreeSet<&String> = plans.iter().collect();
    script.ask(&format!(
        "SELECT {} FROM plan_state_projection p FORCE INDEX (PRIMARY) WHERE p.plan_id IN ({}) ORDER BY p.plan_id FOR UPDATE",
        row::PLAN,
        list(sorted)
    ));
    let now = inner.clock.now();
    inner.clock.ask(&mut script);
    script.ask(&format!("SELECT instance_id, lease_until FROM instance WHERE lease_until > {now}"));
    for plan in plans.iter().map(literal) {
        script.ask(&format!(
            "SELECT COUNT(*) FROM task_state_projection FORCE INDEX (task_slot) WHERE plan_id = {plan} AND owner IS NOT NULL"
        ));
        for readiness in 1..=3 {
            script.ask(&format!(
                "SELECT {} FROM task_state_projection t FORCE INDEX (task_ready) WHERE t.plan_id = {plan} \
                 AND t.readiness = {readiness} AND t.ready_at <= {now} AND (t.owner IS NULL OR NOT EXISTS (SELECT 1 FROM instance i \
                   WHERE i.instance_id = t.owner AND i.lease_until > {now})) \
                 ORDER BY t.ready_at, t.position LIMIT {limit} FOR UPDATE SKIP LOCKED",
                row::TASK
            ));
        }
    }
    let mut answers = tx.run(&script).await?;
    let known = answers.next()?.iter().map(|plan| row::plan(&mut Cells::of(plan))).collect::<Result<Vec<_>, _>>()?;
    let now = answers.now()?;
    let leases = leases_in(&answers.next()?)?;
    let live = |instance: &InstanceId| leases.get(instance).is_some_and(|until| *until > now);
    if !live(instance) {
        tx.commit(Script::default()).await?;
        return Ok(None);
    }
    let known: HashMap<String, _> = known.into_iter().map(|row| (row.plan.id.to_string(), row.plan)).collect();
    let mut taken: Vec<TaskRow> = Vec::new();
    for plan in plans {
        let mut used: u64 = one(&answers.next()?)?.parse()?;
        let ready = [answers.next()?, answers.next()?, answers.next()?];
        let conducted = known.get(plan).filter(|plan| plan.status == PlanStatus::Running);
        let Some(plan) = conducted.filter(|plan| plan.conductor.as_ref().is_some_and(live)) else { continue };
        for task in ready.iter().flatten() {
            let task = row::task(&mut Cells::of(task))?;
            if taken.len() as u64 >= limit {
                break;
            }
            // One whose owner is gone has its slot already.
            let has_slot = task.task.owner.is_some();
            if used.saturating_sub(u64::from(has_slot)) >= u64::from(plan.max_concurrency) {
                continue;
            }
            used += u64::from(!has_slot);
            taken.push(task);
        }
    }
    tx.commit(own(instance, &mut taken)).await?;
    Ok(Some(taken))
}

/// Makes them this instance's.
fn own(instance: &InstanceId, taken: &mut [TaskRow]) -> Script {
    let mut script = Script::default();
    for row in taken.iter_mut() {
        row.task.owner = Some(instance.clone());
        row.version += 1;
    }
    if !taken.is_empty() {
        script.say(&format!(
            "UPDATE task_state_projection SET owner = {}, version = version + 1, readiness = IF(readiness = 3, 2, readiness) \
             WHERE task_id IN ({})",
            literal(instance.as_str()),
            list(taken.iter().map(|row| row.task.id.as_str()).collect::<BTreeSet<_>>())
        ));
    }
    script
}

/// Exactly these: locked and read, judged, then owned.
pub(super) async fn named(inner: &Inner, instance: &InstanceId, ids: &[TaskId]) -> Each<TaskRow> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_named(&mut tx, inner, instance, ids).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_named(
    tx: &mut Lent<'_>,
    inner: &Inner,
    instance: &InstanceId,
    ids: &[TaskId],
) -> Result<Taken, Failure> {
    let mut script = Script::begin();
    let sorted: BTreeSet<&str> = ids.iter().map(TaskId::as_str).collect();
    lock_tasks(&mut script, &format!("IN ({})", list(sorted)));
    script.ask(&format!(
        "SELECT instance_id, lease_until FROM instance WHERE instance_id = {}",
        literal(instance.as_str())
    ));
    inner.clock.ask(&mut script);
    let mut answers = tx.run(&script).await?;
    let mut rows = HashMap::with_capacity(ids.len());
    for task in &answers.next()? {
        let task = row::task(&mut Cells::of(task))?;
        rows.insert(task.task.id.clone(), task);
    }
    let mut leases = leases_in(&answers.next()?)?;
    leases.extend(leases_in(&answers.next()?)?);
    let now = answers.now()?;
    if leases.get(instance).is_none_or(|until| *until <= now) {
        tx.commit(Script::default()).await?;
        return Ok(ids.iter().map(|_| Err(Refusal::NoLease(instance.clone()))).collect());
    }
    let mut taken = Vec::new();
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let answer = match rows.get_mut(id) {
            None => Err(Refusal::NotFound(format!("task {id}"))),
            Some(row) => may_take(row, instance, &leases, now).map(|is_new| {
                if is_new {
                    taken.push(row.clone());
                    row.task.owner = Some(instance.clone());
                    row.version += 1;
                }
                row.clone()
            }),
        };
        answers.push(answer);
    }
    tx.commit(own(instance, &mut taken)).await?;
    Ok(answers)
}

/// The end of a lease is something that others may be waiting for.
pub(super) async fn beat(inner: &Inner, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_beat(&mut tx, inner, instance, lease(lease_ms)).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_beat(tx: &mut Lent<'_>, inner: &Inner, instance: &InstanceId, ms: u64) -> Result<Beat, Failure> {
    let id = literal(instance.as_str());
    let mut script = Script::begin();
    inner.clock.ask(&mut script);
    let now = tx.run(&script).await?.now()?;
    let until = now.plus(ms);
    let mut script = Script::default();
    script.rows(
        "INSERT INTO instance (instance_id, up_since, lease_until) VALUES ",
        [values![instance.as_str(), now, until]],
        "ON DUPLICATE KEY UPDATE lease_until = VALUES(lease_until)",
    );
    script.ask(&format!(
        "SELECT task_id, control FROM task_state_projection WHERE owner = {id} AND owner_asked = 1 ORDER BY task_id"
    ));
    if ms == 0 {
        wake::count(&mut script, Port::State);
    }
    let rows: Vec<Row> = tx.commit(script).await?.next()?;
    let asked = rows.iter().map(Cells::of).map(|mut cells| Ok((cells.parse()?, cells.json()?)));
    Ok(Beat { until, asked: asked.collect::<Result<_, PortError>>()? })
}
