//! Boundaries: the commits of running tasks, which are nearly all there are. Where this process wrote the task last, all
//! but what changes is known here, and those of many callers go out together, in a short script. One that finds the row
//! changed is committed like any other step.

use redis::Value;
use windlass_core::id::InstanceId;
use windlass_core::port::PortError;
use windlass_core::port::state::{CheckpointPut, Step, Stepped, Writer};
use windlass_core::task::{Control, Task};
use windlass_core::time::Ms;

use super::known::{Known, Left};
use super::row;
use super::step::{json, tail};
use crate::error::corrupt;
use crate::group::Args;

/// More events than this are not one boundary's.
const EVENTS_MAX: usize = 100;

/// A step that goes on from where this process left its task.
pub(super) struct Boundary<'s> {
    step: &'s Step,
    task: &'s Task,
    from: Left,
}

/// The step's task, if it looks like a plain boundary.
fn plain(step: &Step) -> Option<&Task> {
    let (Writer::Owner { instance, fence }, [put]) = (&step.by, &step.tasks[..]) else { return None };
    let task = &put.task;
    let checkpoint = match &step.checkpoint {
        CheckpointPut::Keep => true,
        CheckpointPut::Put(checkpoint) => checkpoint.fence == *fence,
        CheckpointPut::Remove => false,
    };
    let fits = checkpoint
        && step.plan.is_none()
        && step.ask.is_none()
        && step.answer.is_none()
        && put.spec.is_none()
        && task.status.is_running()
        && put.from.has(task.status)
        && task.fence == *fence
        && task.owner.as_ref() == Some(instance)
        && step.events.len() <= EVENTS_MAX
        && step.events.iter().all(|event| event.task.as_ref() == Some(&task.id));
    fits.then_some(task)
}

impl<'s> Boundary<'s> {
    /// `None` for a step of another kind, or about a task that others may have written.
    pub(super) fn of(known: &Known, step: &'s Step) -> Option<Boundary<'s>> {
        let task = plain(step)?;
        step.check().ok()?;
        let from = known.take(&task.id).filter(|left| left.goes_on(step, task))?;
        let next = match &step.checkpoint {
            CheckpointPut::Put(checkpoint) => checkpoint.version == from.checkpoint + 1,
            _ => true,
        };
        next.then_some(Boundary { step, task, from })
    }

    /// What the script reads.
    pub(super) fn args(&self) -> Result<Args, PortError> {
        let Boundary { step, task, from } = self;
        let mut args = Args::default();
        args.push((task.id.as_str(), task.tenant.as_str(), task.fence.0, from.version, &from.op));
        args.push((step.op.id.as_str(), step.op.digest, from.version + 1, from.seq + step.events.len() as u64));
        args.push((task.updated_at.get(), row::detail(task)?));
        match &step.checkpoint {
            CheckpointPut::Put(checkpoint) => {
                let same = from.checkpoint_by == Some((checkpoint.executor_instance.clone(), checkpoint.fence));
                let by = checkpoint.executor_instance.as_ref().map_or("", InstanceId::as_str);
                // Who wrote it stands there already, nearly always.
                args.push((checkpoint.version, json(checkpoint)?, if same { "=" } else { by }));
            }
            _ => args.push(""),
        }
        args.push(step.events.len());
        for (event, seq) in step.events.iter().zip(from.seq + 1..) {
            args.push(format!(r#"{{"seq":{seq}{}"#, tail(event)?));
        }
        Ok(args)
    }

    /// What it came to; `None`: the row is not as it was left.
    pub(super) fn answered(self, known: &Known, answer: &Value, stamp: &str) -> Result<Option<Stepped>, PortError> {
        let Boundary { step, task, from } = self;
        if *answer != Value::Int(1) {
            return Ok(None);
        }
        let stepped = Stepped {
            version: from.version + 1,
            seq: from.seq + step.events.len() as u64,
            control: Control::default(),
            at: Ms::new(stamp.parse().map_err(|error| corrupt("a time", error))?),
            answer: None,
        };
        let checkpoint = match &step.checkpoint {
            CheckpointPut::Put(checkpoint) => checkpoint.version,
            _ => from.checkpoint,
        };
        known.put(&task.id, Left::by(step, task, &stepped, checkpoint, Some(&from)));
        Ok(Some(stepped))
    }
}
