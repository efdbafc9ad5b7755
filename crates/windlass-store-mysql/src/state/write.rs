//! What a world has changed, as statements: one for each kind of row, whatever the number of rows.

use windlass_core::event::{Event, HISTORY_MAX};
use windlass_core::id::OpId;
use windlass_core::port::PortError;
use windlass_core::port::state::{LastOp, OpRow, PlanRow, TaskRow};
use windlass_core::step::{Saved, World};
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use super::known::{Rows, stays};
use crate::cell::{json, word};
use crate::text::{Literal, Script, list, literal, row};
use crate::wake::{self, Port};

const PLAN_COLUMNS: &str = "INSERT INTO plan_state_projection (plan_id, name, status, task_ids, tasks, max_concurrency, on_failure, \
     on_conflict, recovery, conductor, cancelled, created_at, started_at, updated_at, ended_at, version, seq) VALUES ";
/// Of rows that were locked before: they are there.
const PLAN_AGAIN: &str = "ON DUPLICATE KEY UPDATE name = VALUES(name), status = VALUES(status), tasks = VALUES(tasks), \
     max_concurrency = VALUES(max_concurrency), on_failure = VALUES(on_failure), on_conflict = VALUES(on_conflict), \
     recovery = VALUES(recovery), conductor = VALUES(conductor), cancelled = VALUES(cancelled), created_at = VALUES(created_at), \
     started_at = VALUES(started_at), updated_at = VALUES(updated_at), ended_at = VALUES(ended_at), version = VALUES(version), \
     seq = VALUES(seq)";
const TASK_COLUMNS: &str = "INSERT INTO task_state_projection (task_id, tenant_id, plan_id, position, status, pause_requested, \
     start_requested, owner_asked, readiness, control, owner, fence, ready_at, created_at, started_at, updated_at, ended_at, detail, \
     checkpoint_version, version, seq, op_id, op_digest, op_at) VALUES ";
/// Whoever begins again is overtaken no more.
const TASK_AGAIN: &str = "status = VALUES(status), pause_requested = VALUES(pause_requested), \
     start_requested = VALUES(start_requested), owner_asked = VALUES(owner_asked), readiness = VALUES(readiness), \
     control = VALUES(control), owner = VALUES(owner), overtaken = IF(VALUES(fence) > fence, 0, overtaken), fence = VALUES(fence), \
     ready_at = VALUES(ready_at), started_at = VALUES(started_at), updated_at = VALUES(updated_at), ended_at = VALUES(ended_at), \
     detail = VALUES(detail), checkpoint_version = VALUES(checkpoint_version), seq = VALUES(seq), op_id = VALUES(op_id), \
     op_digest = VALUES(op_digest), op_at = VALUES(op_at)";
/// Of a task that stands where it stood.
const BOUNDARY_COLUMNS: &str = "INSERT INTO task_state_projection (task_id, created_at, updated_at, detail, checkpoint_version, version, \
     seq, op_id, op_digest, op_at) VALUES ";
const BOUNDARY_AGAIN: &str = "updated_at = VALUES(updated_at), detail = VALUES(detail), \
     checkpoint_version = VALUES(checkpoint_version), seq = VALUES(seq), op_id = VALUES(op_id), op_digest = VALUES(op_digest), \
     op_at = VALUES(op_at)";
/// A tenant that is there was locked before it was judged. One that is not may be made by two writers at once: then the names of
/// the later one hold unless a task has started meanwhile.
const TENANT_AGAIN: &str = "ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence)), \
     latest_task_id = IF(VALUES(started_task_id) IS NULL AND started_task_id IS NOT NULL, latest_task_id, VALUES(latest_task_id)), \
     started_task_id = COALESCE(VALUES(started_task_id), started_task_id)";
const CHECKPOINT_AGAIN: &str = "ON DUPLICATE KEY UPDATE version = VALUES(version), \
     last_completed_stage_index = VALUES(last_completed_stage_index), saved_at = VALUES(saved_at), \
     executor_instance = VALUES(executor_instance), fence = VALUES(fence), checkpoint = VALUES(checkpoint)";
const SPEC_AGAIN: &str = "ON DUPLICATE KEY UPDATE spec = VALUES(spec)";

/// How the tasks that are written stand in the store.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    /// They were locked and read: nobody else changes them.
    Locked,
    /// One version before what is written, as far as is known here. If one does not, what writes it fails, and all of the trip with
    /// it. When they are written is `@at`.
    Expected,
}

impl Stand {
    /// What a task's row becomes that is there.
    fn again(self, what: &str) -> String {
        let version = match self {
            Stand::Locked => "VALUES(version)",
            // Beyond the largest number there is none: that is how a statement can fail.
            Stand::Expected => {
                "VALUES(version) + ~0 * IF(version + 1 = VALUES(version) AND created_at = VALUES(created_at) AND overtaken = 0, 0, 1)"
            }
        };
        format!("ON DUPLICATE KEY UPDATE version = {version}, {what}")
    }

    /// Fails if one of `n` rows was not there. Of one that is made the server counts one, of one that is changed two.
    fn check(self, script: &mut Script, n: usize) {
        if self == Stand::Expected {
            script.say(&format!("SET @there = ~0 + (ROW_COUNT() <> {})", 2 * n));
        }
    }

    fn op_at(self, op: Option<&LastOp>) -> OpAt {
        match self {
            Stand::Locked => OpAt::Known(op.map(|op| op.at)),
            Stand::Expected => OpAt::Now,
        }
    }
}

enum OpAt {
    Known(Option<Ms>),
    Now,
}

impl Literal for OpAt {
    fn write(&self, out: &mut String) {
        match self {
            OpAt::Known(at) => at.write(out),
            OpAt::Now => out.push_str("@at"),
        }
    }
}

/// The statements, in the order in which everybody locks; what everybody shares comes last. `before` is how some tasks stood.
pub(super) fn script(script: &mut Script, world: &World, before: &Rows, stand: Stand) -> Result<(), PortError> {
    plans(world, script)?;
    tenants(world, script);
    tasks(world, before, stand, script)?;
    events(world, script)?;
    // Two batches with the same operations meet in one order.
    let mut new: Vec<_> = world.ops.iter().filter(|(_, op)| op.is_new).map(|(id, op)| (id, &op.row)).collect();
    new.sort_by_key(|(id, _)| *id);
    add_ops(script, &new);
    if world.wakes {
        wake::count(script, Port::State);
    }
    Ok(())
}

fn plans(world: &World, script: &mut Script) -> Result<(), PortError> {
    let changed = || world.plans.values().filter(|entry| entry.changed);
    for (is_new, tail) in [(true, ""), (false, PLAN_AGAIN)] {
        let rows = changed().filter(|entry| entry.is_new == is_new).map(|entry| plan(&entry.row));
        script.rows(PLAN_COLUMNS, rows.collect::<Result<Vec<_>, _>>()?, tail);
    }
    let specs = changed().filter_map(|entry| Some((&entry.row.plan.id, entry.spec.as_ref()?)));
    let specs = specs.map(|(id, spec)| Ok(row![id.as_str(), json(spec)?])).collect::<Result<Vec<_>, PortError>>()?;
    script.rows("INSERT INTO plan_spec (plan_id, spec) VALUES ", specs, SPEC_AGAIN);
    Ok(())
}

fn plan(row: &PlanRow) -> Result<String, PortError> {
    let plan = &row.plan;
    Ok(row![
        plan.id.as_str(),
        plan.name.to_string(),
        plan.status.name(),
        "[]",
        plan.tasks,
        plan.max_concurrency,
        word(&plan.on_failure)?,
        word(&plan.on_conflict)?,
        word(&plan.recovery)?,
        plan.conductor.as_ref().map(|id| id.as_str()),
        plan.cancelled,
        plan.created_at,
        plan.started_at,
        plan.updated_at,
        plan.ended_at,
        row.version,
        row.seq,
    ])
}

fn tenants(world: &World, script: &mut Script) {
    let changed = world.tenants.iter().filter(|(_, entry)| entry.changed);
    let rows = changed.map(|(id, entry)| {
        let name = |task: &Option<windlass_core::id::TaskId>| task.as_ref().map(ToString::to_string);
        row![id.as_str(), entry.row.fence, name(&entry.row.latest), name(&entry.row.started)]
    });
    let head = "INSERT INTO tenant_state (tenant_id, fence, latest_task_id, started_task_id) VALUES ";
    script.rows(head, rows, TENANT_AGAIN);
}

fn tasks(world: &World, before: &Rows, stand: Stand, script: &mut Script) -> Result<(), PortError> {
    let changed = || world.tasks.values().filter(|entry| entry.changed);
    let is_boundary = |row: &TaskRow| before.get(&row.task.id).is_some_and(|before| stays(&before.row, row));
    let (mut new, mut moved, mut boundaries) = (Vec::new(), Vec::new(), Vec::new());
    for entry in changed() {
        match entry.is_new {
            true => new.push(task(&entry.row, stand)?),
            false if is_boundary(&entry.row) => boundaries.push(boundary(&entry.row, stand)?),
            false => moved.push(task(&entry.row, stand)?),
        }
    }
    script.rows(TASK_COLUMNS, new, "");
    for (columns, rows, again) in [(TASK_COLUMNS, moved, TASK_AGAIN), (BOUNDARY_COLUMNS, boundaries, BOUNDARY_AGAIN)] {
        script.rows_then(columns, rows, &stand.again(again), |script, n| stand.check(script, n));
    }
    // Of one that nobody owns nobody writes without beginning again.
    if !world.overtaken.is_empty() {
        script.say(&format!(
            "UPDATE task_state_projection FORCE INDEX (PRIMARY) SET overtaken = 1 WHERE task_id IN ({}) AND owner IS NOT NULL",
            list(world.overtaken.iter().map(|task| task.as_str()))
        ));
    }
    let grown = world.plans.values().filter(|plan| plan.grew).map(|plan| plan.row.plan.id.as_str());
    for plan in grown.map(literal) {
        script.say(&format!(
            "UPDATE plan_state_projection SET task_ids = (SELECT COALESCE(CONCAT('[', GROUP_CONCAT(CONCAT('\"', task_id, '\"') \
             ORDER BY position), ']'), '[]') FROM task_state_projection WHERE plan_id = {plan}) WHERE plan_id = {plan}"
        ));
    }
    let (mut specs, mut saved, mut removed) = (Vec::new(), Vec::new(), Vec::new());
    for entry in changed() {
        let id = entry.row.task.id.as_str();
        if let Some(spec) = &entry.spec {
            specs.push(row![id, json(spec)?]);
        }
        match &entry.checkpoint {
            Saved::Keep => {}
            Saved::Put(put) => saved.push(row![
                id,
                put.version,
                put.last_completed_stage_index,
                put.saved_at,
                put.executor_instance.as_ref().map(|id| id.as_str()),
                put.fence,
                json(&**put)?,
            ]),
            Saved::Remove => removed.push(id),
        }
    }
    script.rows("INSERT INTO task_spec (task_id, spec) VALUES ", specs, SPEC_AGAIN);
    let head = "INSERT INTO task_checkpoint (task_id, version, last_completed_stage_index, saved_at, executor_instance, fence, \
                checkpoint) VALUES ";
    script.rows(head, saved, CHECKPOINT_AGAIN);
    script.remove("task_checkpoint", "task_id", removed);
    Ok(())
}

fn task(row: &TaskRow, stand: Stand) -> Result<String, PortError> {
    let task = &row.task;
    let control = match row.control.is_empty() {
        true => None,
        false => Some(json(&row.control)?),
    };
    Ok(row![
        task.id.as_str(),
        task.tenant.as_str(),
        task.plan.as_str(),
        task.position,
        task.status.name(),
        row.control.pause.is_some(),
        row.control.start.is_some(),
        row.control.wants_owner(),
        readiness(row),
        control,
        task.owner.as_ref().map(|id| id.as_str()),
        task.fence,
        task.ready_at,
        task.created_at,
        task.started_at,
        task.updated_at,
        task.ended_at,
        json(&task.detail())?,
        row.checkpoint,
        row.version,
        row.seq,
        row.op.as_ref().map(|op| op.id.as_str()),
        row.op.as_ref().map(|op| op.digest),
        stand.op_at(row.op.as_ref()),
    ])
}

fn boundary(row: &TaskRow, stand: Stand) -> Result<String, PortError> {
    let task = &row.task;
    Ok(row![
        task.id.as_str(),
        task.created_at,
        task.updated_at,
        json(&task.detail())?,
        row.checkpoint,
        row.version,
        row.seq,
        row.op.as_ref().map(|op| op.id.as_str()),
        row.op.as_ref().map(|op| op.digest),
        stand.op_at(row.op.as_ref()),
    ])
}

/// In which turn a task is taken when it is ready: what was asked for, what somebody claimed, the rest.
fn readiness(row: &TaskRow) -> Option<u8> {
    match (row.control.start.is_some(), row.task.status, &row.task.owner) {
        (true, ..) => Some(1),
        (false, TaskStatus::Pending, Some(_)) => Some(2),
        (false, TaskStatus::Pending, None) => Some(3),
        _ => None,
    }
}

/// New events, without those that are beyond the history's bound already; and what falls out of it.
fn events(world: &World, script: &mut Script) -> Result<(), PortError> {
    let (mut rows, mut old) = (Vec::new(), Vec::new());
    for entry in world.tasks.values().filter(|entry| !entry.events.is_empty()) {
        let (id, floor) = (entry.row.task.id.as_str(), entry.row.seq.saturating_sub(HISTORY_MAX as u64));
        old.extend((floor > 0).then(|| format!("(task_id = {} AND seq <= {floor})", literal(id))));
        for event in entry.events.iter().filter(|event| event.seq > floor) {
            let Facts { by, reason, fact } = Facts::of(event)?;
            rows.push(row![id, event.seq, event.at, by, reason, event.fact.name(), fact]);
        }
    }
    forget(script, "task_event", &old);
    let head = "INSERT INTO task_event (task_id, seq, at, `by`, reason, kind, fact) VALUES ";
    script.rows(head, rows, "");
    let (mut rows, mut old) = (Vec::new(), Vec::new());
    for entry in world.plans.values().filter(|entry| !entry.events.is_empty()) {
        let (id, floor) = (entry.row.plan.id.as_str(), entry.row.seq.saturating_sub(HISTORY_MAX as u64));
        old.extend((floor > 0).then(|| format!("(plan_id = {} AND seq <= {floor})", literal(id))));
        for event in entry.events.iter().filter(|event| event.seq > floor) {
            let Facts { by, reason, fact } = Facts::of(event)?;
            let tenant = event.tenant.as_ref().map(|tenant| tenant.as_str());
            rows.push(row![id, event.seq, event.at, tenant, by, reason, event.fact.name(), fact]);
        }
    }
    forget(script, "plan_event", &old);
    let head = "INSERT INTO plan_event (plan_id, seq, at, tenant_id, `by`, reason, kind, fact) VALUES ";
    script.rows(head, rows, "");
    Ok(())
}

fn forget(script: &mut Script, table: &str, old: &[String]) {
    for some in old.chunks(200) {
        script.say(&format!("DELETE FROM {table} WHERE {}", some.join(" OR ")));
    }
}

/// What events of plans and of tasks have in common.
struct Facts {
    by: Option<String>,
    reason: Option<String>,
    fact: String,
}

impl Facts {
    fn of(event: &Event) -> Result<Facts, PortError> {
        Ok(Facts {
            by: event.by.as_ref().map(ToString::to_string),
            reason: event.reason.as_ref().map(ToString::to_string),
            fact: json(&event.fact)?,
        })
    }
}

/// Operations that were not there. One that is, by now, makes it a race.
pub(crate) fn add_ops(script: &mut Script, new: &[(&OpId, &OpRow)]) {
    let rows = new.iter().map(|(id, op)| {
        row![id.as_str(), op.digest, op.version, op.seq, op.at, op.answer.as_ref().map(|answer| answer.as_str())]
    });
    script.rows("INSERT INTO operation (op_id, digest, version, seq, at, answer) VALUES ", rows, "");
}
