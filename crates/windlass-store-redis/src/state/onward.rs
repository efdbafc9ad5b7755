//! Steps that an owner takes from a row it knows: beginnings, boundaries, ends. They are nearly all there are. What the row
//! held need not be read, and those of many callers go out together: straight in, if nothing but how far a task has come
//! changes (`straight`), in a short script otherwise. One that finds the row changed is committed like any other step.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::id::InstanceId;
use windlass_core::port::PortError;
use windlass_core::port::state::{CheckpointPut, Step, Stepped, Writer};
use windlass_core::task::{Control, Task};
use windlass_core::time::Ms;

use super::event::tail;
use super::known::{Known, Left};
use super::row::{self, asked};
use super::step::json;
use super::straight::{Boundary, Seal};
use crate::group::Args;
use crate::keys::Keys;

/// A step with more events than this goes the long way.
const EVENTS_MAX: usize = 100;
/// Events that are kept of a task.
const HISTORY_MAX: u64 = 200;

/// A step that goes on from where this process knows its task to be.
pub(super) struct Onward<'s> {
    step: &'s Step,
    task: &'s Task,
    from: Left,
    /// What is still wanted of the task afterwards.
    control: Control,
}

/// The step's task, if its owner does nothing but to move it on.
fn plain(step: &Step) -> Option<&Task> {
    let (Writer::Owner { fence, .. }, [put]) = (&step.by, &step.tasks[..]) else { return None };
    let task = &put.task;
    let fits = !matches!(&step.checkpoint, CheckpointPut::Put(checkpoint) if checkpoint.fence != *fence)
        && step.plan.is_none()
        && step.ask.is_none()
        && step.answer.is_none()
        && put.spec.is_none()
        && task.fence == *fence
        && step.events.len() <= EVENTS_MAX
        && step.events.iter().all(|event| event.task.as_ref() == Some(&task.id));
    fits.then_some(task)
}

/// What of the requests outlives the step, as the script of commits has it.
fn kept(from: &Left, task: &Task) -> Control {
    let mut control = from.control.clone();
    if task.status.is_running() {
        if from.task.fence < task.fence {
            (control.start, control.revoked) = (None, None);
        }
    } else if from.task.status != task.status {
        control = Control::default();
    }
    control
}

impl<'s> Onward<'s> {
    /// `None` for a step of another kind, or about a task that others may have written.
    pub(super) fn of(known: &Known, step: &'s Step) -> Option<Onward<'s>> {
        let task = plain(step)?;
        step.check().ok()?;
        // Under the fence it has, or a higher one that it begins under.
        let from = known.take(&task.id).filter(|left| left.may(step) && left.task.fence <= task.fence)?;
        let control = kept(&from, task);
        // Nothing waits to be handed out that somebody asked for while it ran.
        control.start.is_none().then_some(Onward { step, task, from, control })
    }

    /// Whether lists have anything of the task that changes.
    fn moves(&self) -> bool {
        !self.from.stays(self.task) || self.from.control != self.control
    }

    /// Whether nothing changes but how far the task has come.
    pub(super) fn is_boundary(&self) -> bool {
        !self.moves() && self.step.checkpoint != CheckpointPut::Remove
    }

    /// The seal under which the row is known.
    pub(super) fn seal(&self) -> Option<Seal> {
        self.from.seal
    }

    /// A boundary as commands, at this time.
    pub(super) fn boundary(&self, keys: &Keys, seal: Seal, at: Ms) -> Result<Boundary, PortError> {
        let Onward { step, task, from, .. } = self;
        let id = task.id.as_str();
        let mut all = Boundary::new(seal);
        if !step.events.is_empty() {
            let key = keys.of("task_history", id);
            let lines = self.lines()?;
            let words: Vec<&str> = ["RPUSH", &key].into_iter().chain(lines.iter().map(String::as_str)).collect();
            all.command(words.iter().copied());
            if self.seq() > HISTORY_MAX {
                all.command(["LTRIM", &key, &format!("-{HISTORY_MAX}"), "-1"].into_iter());
            }
        }
        if let CheckpointPut::Put(put) = &step.checkpoint {
            all.checkpoint(&keys.of("ckpt", id), &json(put)?);
            let (key, version) = (keys.of("ckpt_meta", id), put.version.to_string());
            let by = put.executor_instance.as_ref().map_or("", InstanceId::as_str);
            let fence = put.fence.0.to_string();
            let words = ["HSET", &key, "version", &version, "instanceId", by, "fence", &fence];
            let n = if self.same_writer(put) { 4 } else { words.len() };
            all.command(words[..n].iter().copied());
        }
        let op = format!("{} {}", row::op(&step.op.id, step.op.digest), at.get());
        let [updated, version, seq, stored] =
            [task.updated_at.get(), from.version + 1, self.seq(), self.checkpoint()].map(|number| number.to_string());
        let [completed, stage, done] = row::progress(task);
        let key = keys.of("task", id);
        let sets = [
            ("version", &version),
            ("op", &op),
            ("updatedAt", &updated),
            ("completed", &completed),
            ("stage", &stage),
            ("done", &done),
            ("seq", &seq),
            ("checkpoint", &stored),
        ];
        let mut words = vec!["HSET", &key];
        words.extend(sets.iter().flat_map(|(name, value)| [*name, value.as_str()]));
        all.command(words.iter().copied());
        Ok(all)
    }

    /// Its events, as lists keep them.
    fn lines(&self) -> Result<Vec<String>, PortError> {
        let numbered = self.step.events.iter().zip(self.from.seq + 1..);
        numbered.map(|(event, seq)| Ok(format!(r#"{{"seq":{seq}{}"#, tail(event, Some(self.task))?))).collect()
    }

    /// Who wrote the checkpoint stands there already, nearly always.
    fn same_writer(&self, put: &Checkpoint) -> bool {
        self.from.checkpoint_by == Some((put.executor_instance.clone(), put.fence))
    }

    /// What the script reads.
    pub(super) fn args(&self) -> Result<Args, PortError> {
        let Onward { step, task, from, control } = self;
        let moved = self.moves();
        let begins = from.task.fence < task.fence;
        let mut args = Args::default();
        args.push((task.id.as_str(), task.tenant.as_str(), task.fence.0));
        args.push((from.version, &from.op, asked(&from.control)));
        args.push(row::op(&step.op.id, step.op.digest));
        let stored = self.push_checkpoint(&mut args)?;
        args.push((flag(begins), flag(moved)));
        if moved {
            self.push_move(&mut args);
        }
        args.push(step.events.len());
        self.lines()?.into_iter().for_each(|line| args.push(line));
        let (version, seq) = (from.version + 1, self.seq());
        if !moved {
            args.push((task.updated_at.get(), &row::progress(task)[..], version, seq, stored));
            return Ok(args.counted());
        }
        let mut sets = row::task_fields(task, Some(&from.task))?;
        sets.extend([("version", version.to_string()), ("seq", seq.to_string())]);
        if stored != from.checkpoint {
            sets.push(("checkpoint", stored.to_string()));
        }
        sets.extend(row::taken_back(&from.control, control));
        sets.into_iter().for_each(|set| args.push(set));
        Ok(args.counted())
    }

    /// Answers the version that is stored then.
    fn push_checkpoint(&self, args: &mut Args) -> Result<u64, PortError> {
        let stored = self.checkpoint();
        match &self.step.checkpoint {
            CheckpointPut::Keep => args.push(("", "", "")),
            CheckpointPut::Remove => args.push((if self.from.checkpoint == 0 { "" } else { "-" }, "", "")),
            CheckpointPut::Put(put) => {
                let by = put.executor_instance.as_ref().map_or("", InstanceId::as_str);
                args.push((stored, json(put)?, if self.same_writer(put) { "=" } else { by }));
            }
        }
        Ok(stored)
    }

    fn push_move(&self, args: &mut Args) {
        let Onward { task, from, control, .. } = self;
        let was = &from.task;
        args.push((task.plan.as_str(), row::place(task)));
        args.push((was.status.name(), row::id(was.owner.as_ref()), row::turn(task, was.ready_at)));
        args.push((flag(from.control.start.is_some()), asked(&from.control)));
        args.push((task.status.name(), row::id(task.owner.as_ref()), row::turn(task, task.ready_at), asked(control)));
    }

    fn seq(&self) -> u64 {
        self.from.seq + self.step.events.len() as u64
    }

    fn checkpoint(&self) -> u64 {
        match &self.step.checkpoint {
            CheckpointPut::Keep => self.from.checkpoint,
            CheckpointPut::Remove => 0,
            CheckpointPut::Put(put) => put.version,
        }
    }

    /// What it came to. It is known under a seal that was whole before it was sent.
    pub(super) fn written(self, known: &Known, at: Ms, seal: Option<Seal>) -> Stepped {
        let (seq, checkpoint) = (self.seq(), self.checkpoint());
        let Onward { step, task, from, control } = self;
        let stepped = Stepped { version: from.version + 1, seq, control, at, answer: None };
        known.put(Left { seal, ..Left::by(step, task, &stepped, checkpoint, Some(&from)) });
        stepped
    }
}

fn flag(set: bool) -> &'static str {
    if set { "1" } else { "" }
}
