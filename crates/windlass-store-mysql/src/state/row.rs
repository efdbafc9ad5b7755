//! Rows as core's values. What people query by has a column of its own; the rest of a task is one JSON document, `detail`.
//! Nothing is stored in both.

use windlass_core::event::Event;
use windlass_core::fence::Fence;
use windlass_core::plan::Plan;
use windlass_core::port::PortError;
use windlass_core::port::state::{InstanceRow, LastOp, OpRow, PlanRow, TaskRow, TenantRow};
use windlass_core::task::Task;
use windlass_core::task::detail::Detail;

use crate::cell::Cells;

/// What [`task`] reads, of a table `t`.
pub(super) const TASK: &str = "t.task_id, t.tenant_id, t.plan_id, t.position, t.status, t.control, t.owner, t.fence, t.ready_at, \
     t.created_at, t.started_at, t.updated_at, t.ended_at, t.detail, t.checkpoint_version, t.version, t.seq, t.op_id, t.op_digest, t.op_at";
/// What tells whether a task is as it is known.
pub(super) const TASK_MARK: &str = "t.task_id, t.version, t.created_at";
/// What [`plan`] reads, of a table `p`.
pub(super) const PLAN: &str = "p.plan_id, p.name, p.status, p.tasks, p.max_concurrency, p.on_failure, p.on_conflict, p.recovery, \
     p.conductor, p.cancelled, p.created_at, p.started_at, p.updated_at, p.ended_at, p.version, p.seq";
/// What [`op`] reads, after the id.
pub(crate) const OP: &str = "op_id, digest, version, seq, at, answer";

pub(super) fn task(cells: &mut Cells<'_>) -> Result<TaskRow, PortError> {
    let (id, tenant, plan) = (cells.parse()?, cells.parse()?, cells.parse()?);
    let (position, status) = (cells.parse()?, cells.word()?);
    let control = cells.json_or_none()?.unwrap_or_default();
    let (owner, fence) = (cells.parse_or_none()?, Fence(cells.parse()?));
    let (ready_at, created_at, started_at) = (cells.at()?, cells.at()?, cells.at_or_none()?);
    let (updated_at, ended_at) = (cells.at()?, cells.at_or_none()?);
    let Detail { stages, completed, stage, attempt, pass, retries, taken_back, hold, failure, context } =
        cells.json()?;
    let (checkpoint, version, seq) = (cells.parse()?, cells.parse()?, cells.parse()?);
    let op = match cells.parse_or_none()? {
        None => None,
        Some(id) => Some(LastOp { id, digest: cells.parse()?, at: cells.at()? }),
    };
    let task = Task {
        id,
        tenant,
        plan,
        position,
        status,
        stages,
        completed,
        stage,
        attempt,
        pass,
        retries,
        taken_back,
        hold,
        owner,
        fence,
        ready_at,
        created_at,
        started_at,
        updated_at,
        ended_at,
        failure,
        context,
    };
    Ok(TaskRow { task, control, checkpoint, version, seq, op })
}

pub(super) fn plan(cells: &mut Cells<'_>) -> Result<PlanRow, PortError> {
    let plan = Plan {
        id: cells.parse()?,
        name: cells.parse()?,
        status: cells.word()?,
        tasks: cells.parse()?,
        max_concurrency: cells.parse()?,
        on_failure: cells.word()?,
        on_conflict: cells.word()?,
        recovery: cells.word()?,
        conductor: cells.parse_or_none()?,
        cancelled: cells.flag()?,
        created_at: cells.at()?,
        started_at: cells.at_or_none()?,
        updated_at: cells.at()?,
        ended_at: cells.at_or_none()?,
    };
    Ok(PlanRow { plan, version: cells.parse()?, seq: cells.parse()? })
}

/// Reads fence and names, after the tenant's id.
pub(super) fn tenant(cells: &mut Cells<'_>) -> Result<TenantRow, PortError> {
    Ok(TenantRow { fence: Fence(cells.parse()?), latest: cells.parse_or_none()?, started: cells.parse_or_none()? })
}

/// Reads an operation, after its id.
pub(crate) fn op(cells: &mut Cells<'_>) -> Result<OpRow, PortError> {
    let (digest, version, seq, at) = (cells.parse()?, cells.parse()?, cells.parse()?, cells.at()?);
    Ok(OpRow { digest, version, seq, at, answer: cells.json_or_none()? })
}

pub(super) fn instance(cells: &mut Cells<'_>) -> Result<InstanceRow, PortError> {
    Ok(InstanceRow { id: cells.parse()?, since: cells.at()?, until: cells.at()? })
}

/// Reads an event after its subject's id; `None` where there is none.
pub(super) fn event(cells: &mut Cells<'_>) -> Result<Option<Event>, PortError> {
    let Some(seq) = cells.parse_or_none()? else { return Ok(None) };
    Ok(Some(Event {
        seq,
        at: cells.at()?,
        plan: cells.parse()?,
        task: cells.parse_or_none()?,
        tenant: cells.parse_or_none()?,
        by: cells.parse_or_none()?,
        reason: cells.parse_or_none()?,
        fact: cells.json()?,
    }))
}
