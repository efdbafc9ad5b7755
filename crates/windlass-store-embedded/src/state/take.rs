//! Taking tasks: compare-and-set on each record.

use windlass_core::id::{InstanceId, PlanId, TaskId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{PlanRow, Take, TaskRow, Which};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use super::change::TaskChange;
use super::{Judged, lease_until};
use crate::kv::{KvError, Read};
use crate::tx::{Records, Tx};
use crate::{key, record};

pub(super) fn take(tx: &mut Tx<'_>, take: &Take, now: Ms) -> Each<TaskRow> {
    if lease_until(tx, &take.instance)? <= now {
        let asked = match &take.which {
            Which::Named(ids) => ids.len(),
            Which::Ready { .. } => 1,
        };
        return Ok(vec![Err(Refusal::NoLease(take.instance.clone())); asked]);
    }
    match &take.which {
        Which::Named(ids) => ids.iter().map(|id| named(tx, id, &take.instance, now)).collect(),
        Which::Ready { plan, limit } => ready(tx, plan.as_ref(), *limit, &take.instance, now),
    }
}

fn named(tx: &mut Tx<'_>, id: &TaskId, instance: &InstanceId, now: Ms) -> Judged<TaskRow> {
    let Some(row) = tx.task(id)? else {
        return Ok(Err(Refusal::NotFound(format!("task {id}"))));
    };
    match &row.task.owner {
        Some(owner) if owner == instance => return Ok(Ok(row)),
        Some(owner) => {
            let until = lease_until(tx, owner)?;
            if until > now {
                return Ok(Err(Refusal::Owned { owner: Some(owner.clone()), until }));
            }
        }
        None => {}
    }
    let status = row.task.status;
    if row.control.start.is_none() && status != TaskStatus::Pending && !status.is_running() {
        return Ok(Err(Refusal::State { status: status.name(), expected: "one that is to be started".into() }));
    }
    Ok(Ok(assign(tx, row, instance)?))
}

fn assign(tx: &mut Tx<'_>, row: TaskRow, instance: &InstanceId) -> Result<TaskRow, KvError> {
    let mut change = TaskChange::of(row);
    change.new.task.owner = Some(instance.clone());
    let taken = change.new.clone();
    change.write(tx)?;
    Ok(taken)
}

fn ready(tx: &mut Tx<'_>, plan: Option<&PlanId>, limit: u32, instance: &InstanceId, now: Ms) -> Each<TaskRow> {
    let plans = match plan {
        Some(plan) => vec![plan.clone()],
        None => running(tx)?,
    };
    let mut taken = Vec::new();
    for id in plans {
        let room = limit as usize - taken.len();
        if room == 0 {
            break;
        }
        let Some(PlanRow { plan, .. }) = tx.record(&key::plan(&id))? else { continue };
        let conducted = match &plan.conductor {
            Some(conductor) => lease_until(tx, conductor)? > now,
            None => false,
        };
        if plan.status == PlanStatus::Running && conducted {
            taken.extend(ready_in(tx, &id, plan.max_concurrency, room, instance, now)?.into_iter().map(Ok));
        }
    }
    Ok(taken)
}

fn running(tx: &Tx<'_>) -> Result<Vec<PlanId>, KvError> {
    let (from, to) = key::within(key::plans_with(PlanStatus::Running));
    let mut plans = Vec::new();
    tx.scan(&from, &to, &mut |_, id| {
        plans.push(record::decode(id)?);
        Ok(true)
    })?;
    // The oldest first: it has waited longest.
    plans.reverse();
    Ok(plans)
}

fn ready_in(
    tx: &mut Tx<'_>,
    plan: &PlanId,
    slots: u32,
    limit: usize,
    instance: &InstanceId,
    now: Ms,
) -> Result<Vec<TaskRow>, PortError> {
    let mut used = used_slots(tx, plan, slots)?;
    let mut found = Vec::new();
    let (from, to) = key::ready_in(plan);
    tx.scan(&from, &to, &mut |key, id| {
        // What may hold a slot already comes first; the rest needs a free one.
        if used >= slots && key::is_free(key) {
            return Ok(false);
        }
        let Some(row) = tx.task(&record::decode(id)?)? else { return Ok(true) };
        let (free, has_slot) = match &row.task.owner {
            Some(owner) => (lease_until(tx, owner)? <= now, true),
            None => (true, false),
        };
        let others = used - u32::from(has_slot);
        if free && row.task.ready_at <= now && others < slots {
            used += u32::from(!has_slot);
            found.push(row);
        }
        Ok(found.len() < limit)
    })?;
    found.into_iter().map(|row| Ok(assign(tx, row, instance)?)).collect()
}

/// How many slots are taken; counting stops where it no longer matters, one beyond what there are.
fn used_slots(tx: &Tx<'_>, plan: &PlanId, slots: u32) -> Result<u32, KvError> {
    let (from, to) = key::slots(plan);
    let mut used = 0;
    tx.scan(&from, &to, &mut |_, _| {
        used += 1;
        Ok(used <= slots)
    })?;
    Ok(used)
}
