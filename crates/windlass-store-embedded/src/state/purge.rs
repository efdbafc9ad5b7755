//! Retention: what ended long ago goes, in bounded pieces.

use windlass_core::id::{InstanceId, OpId, PlanId, TaskId};
use windlass_core::port::state::{InstanceRow, OpRow, PlanRow};
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use super::change::Entries;
use crate::key::{self, Subject};
use crate::kv::{KvError, Read};
use crate::record;
use crate::tx::{Records, Tx};

/// A plan goes first, at once; its tasks follow while there is room, in this call or a later one.
pub(super) fn purge(tx: &mut Tx<'_>, before: Ms, limit: u32, now: Ms) -> Result<u32, KvError> {
    let mut left = limit;
    while left > 0 {
        let Some((plan, created_at)) = going(tx)? else {
            match ended(tx, before)? {
                Some(plan) => begin(tx, &plan)?,
                None => break,
            }
            continue;
        };
        left -= tasks(tx, &plan, created_at, left)?;
    }
    left -= ops(tx, before, left)?;
    left -= instances(tx, before, left, now)?;
    Ok(limit - left)
}

fn first<T>(
    tx: &Tx<'_>,
    (from, to): (Vec<u8>, Vec<u8>),
    decode: impl Fn(&[u8], &[u8]) -> Result<T, KvError>,
) -> Result<Option<T>, KvError> {
    let mut found = None;
    tx.scan(&from, &to, &mut |key, value| {
        found = Some(decode(key, value)?);
        Ok(false)
    })?;
    Ok(found)
}

fn ended(tx: &Tx<'_>, before: Ms) -> Result<Option<PlanId>, KvError> {
    first(tx, key::ended_before(before), |_, id| record::decode(id))
}

/// The plan that is going, and when it was created (which its tasks' places begin with).
fn going(tx: &Tx<'_>) -> Result<Option<(PlanId, Ms)>, KvError> {
    first(tx, key::all_going(), |_, value| record::decode(value))
}

fn begin(tx: &mut Tx<'_>, id: &PlanId) -> Result<(), KvError> {
    let Some(PlanRow { plan, .. }) = tx.record(&key::plan(id))? else { return Ok(()) };
    tx.put_record(key::going(id), &(id, plan.created_at))?;
    plan.ended_at.iter().for_each(|at| tx.remove(key::ended(*at, id)));
    tx.remove(key::plan_status(&plan));
    tx.remove(key::plan_spec(id));
    tx.remove(key::plan(id));
    remove_all(tx, key::histories(Subject::Plan(id)))
}

fn tasks(tx: &mut Tx<'_>, plan: &PlanId, created_at: Ms, limit: u32) -> Result<u32, KvError> {
    let mut ids: Vec<TaskId> = Vec::new();
    for status in TaskStatus::ALL {
        let prefix = [key::tasks_with(status), key::plan_part(created_at, plan)].concat();
        let (from, to) = key::within(prefix);
        if ids.len() < limit as usize {
            tx.scan(&from, &to, &mut |_, id| {
                ids.push(record::decode(id)?);
                Ok(ids.len() < limit as usize)
            })?;
        }
    }
    for id in &ids {
        task(tx, id)?;
    }
    if ids.len() < limit as usize {
        tx.remove(key::going(plan));
    }
    Ok(ids.len() as u32)
}

fn task(tx: &mut Tx<'_>, id: &TaskId) -> Result<(), KvError> {
    let Some(row) = tx.task(id)? else { return Ok(()) };
    for entry in Entries::of(&row).all().into_iter().flatten() {
        tx.remove(entry.clone());
    }
    tx.remove_task(id);
    tx.remove(key::task_spec(id));
    tx.remove(key::checkpoint(id));
    remove_all(tx, key::histories(Subject::Task(id)))?;
    let Some(mut tenant) = tx.tenant(&row.task.tenant)? else { return Ok(()) };
    // The fence stays for ever; the names only while what they name is there.
    let named = [&tenant.latest, &tenant.started].into_iter().flatten().any(|named| named == id);
    if named {
        tenant.latest = tenant.latest.filter(|latest| latest != id);
        tenant.started = tenant.started.filter(|started| started != id);
        tx.put_tenant(row.task.tenant, tenant)?;
    }
    Ok(())
}

fn remove_all(tx: &mut Tx<'_>, (from, to): (Vec<u8>, Vec<u8>)) -> Result<(), KvError> {
    let mut keys = Vec::new();
    tx.scan(&from, &to, &mut |key, _| {
        keys.push(key.to_vec());
        Ok(true)
    })?;
    keys.into_iter().for_each(|key| tx.remove(key));
    Ok(())
}

fn ops(tx: &mut Tx<'_>, before: Ms, limit: u32) -> Result<u32, KvError> {
    let (from, to) = key::ops_before(before);
    let mut old: Vec<(Vec<u8>, OpId)> = Vec::new();
    if limit > 0 {
        tx.scan(&from, &to, &mut |key, id| {
            old.push((key.to_vec(), record::decode(id)?));
            Ok(old.len() < limit as usize)
        })?;
    }
    let mut gone = 0;
    for (age, id) in old {
        gone += u32::from(tx.record::<OpRow>(&key::op(&id))?.is_some());
        tx.remove(key::op(&id));
        tx.remove(age);
    }
    Ok(gone)
}

fn instances(tx: &mut Tx<'_>, before: Ms, limit: u32, now: Ms) -> Result<u32, KvError> {
    let (from, to) = key::instances();
    let mut old: Vec<InstanceId> = Vec::new();
    if limit > 0 {
        tx.scan(&from, &to, &mut |_, value| {
            let row: InstanceRow = record::decode(value)?;
            if row.until < before && row.until <= now {
                old.push(row.id);
            }
            Ok(old.len() < limit as usize)
        })?;
    }
    for id in &old {
        tx.remove(key::instance(id));
    }
    Ok(old.len() as u32)
}
