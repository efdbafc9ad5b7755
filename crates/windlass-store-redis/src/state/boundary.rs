//! Boundaries: the commits of running tasks, which are nearly all there are. Those of many callers go out together, in a
//! short script; one that is not as plain as it looks is committed like any other step.

use redis::Value;
use windlass_core::id::InstanceId;
use windlass_core::port::PortError;
use windlass_core::port::state::{CheckpointPut, Step, Stepped, Writer};
use windlass_core::task::Control;
use windlass_core::time::Ms;

use super::row;
use super::step::{at, json, tail};
use crate::group::Args;
use crate::reply::Parts;

/// More events than this are not one boundary's.
const EVENTS_MAX: usize = 100;

/// Whether the step looks like a plain boundary.
pub(super) fn fits(step: &Step) -> bool {
    let (Writer::Owner { instance, fence }, [put]) = (&step.by, &step.tasks[..]) else { return false };
    let task = &put.task;
    let checkpoint = match &step.checkpoint {
        CheckpointPut::Keep => true,
        CheckpointPut::Put(checkpoint) => checkpoint.fence == *fence,
        CheckpointPut::Remove => false,
    };
    checkpoint
        && step.plan.is_none()
        && step.ask.is_none()
        && step.answer.is_none()
        && put.spec.is_none()
        && task.status.is_running()
        && put.from.has(task.status)
        && task.fence == *fence
        && task.owner.as_ref() == Some(instance)
        && step.events.len() <= EVENTS_MAX
        && step.events.iter().all(|event| event.task.as_ref() == Some(&task.id))
}

/// What the script reads of a step that fits.
pub(super) fn args(step: &Step) -> Result<Args, PortError> {
    let mut args = Args::default();
    let (Writer::Owner { instance, fence }, [put]) = (&step.by, &step.tasks[..]) else { return Ok(args) };
    let task = &put.task;
    args.push((task.id.as_str(), task.tenant.as_str(), task.plan.as_str(), task.position, task.created_at.get()));
    args.push((step.op.id.as_str(), step.op.digest, instance.as_str(), fence.0, task.status.name()));
    args.push((task.ready_at.get(), at(task.started_at), task.updated_at.get(), at(task.ended_at)));
    args.push(row::detail(task)?);
    match &step.checkpoint {
        CheckpointPut::Put(checkpoint) => {
            let by = checkpoint.executor_instance.as_ref().map_or("", InstanceId::as_str);
            args.push((json(checkpoint)?, checkpoint.version, by));
        }
        _ => args.push(("", 0, "")),
    }
    args.push(step.events.len());
    for event in &step.events {
        args.push(tail(event)?);
    }
    Ok(args)
}

/// What it came to; `None`: it is not a plain boundary.
pub(super) fn answered(answer: Value, stamp: &str) -> Result<Option<Stepped>, PortError> {
    if answer == Value::Int(0) {
        return Ok(None);
    }
    let parts: &mut Parts = &mut crate::reply::parts(answer)?;
    let (version, seq) = (parts.number()?, parts.number()?);
    let at = Ms::new(stamp.parse().map_err(|error| crate::error::corrupt("a time", error))?);
    Ok(Some(Stepped { version, seq, control: Control::default(), at, answer: None }))
}
