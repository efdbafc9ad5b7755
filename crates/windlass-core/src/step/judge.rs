//! One step: is it a repeat, may it be written. Judging changes nothing.

use std::collections::HashSet;

use crate::fence::Fence;
use crate::id::{PlanId, TaskId};
use crate::port::Refusal;
use crate::port::state::{Ask, CheckpointPut, OpRow, PlanPut, Step, Stepped, TaskPut, TaskRow, Writer};
use crate::task::{Control, Request, Task};
use crate::time::Ms;

use super::world::World;

/// The step's one task, or else the one asked.
pub(super) fn subject_task(step: &Step) -> Option<&TaskId> {
    match &step.tasks[..] {
        [one] => Some(&one.task.id),
        _ => step.ask.as_ref().map(|ask| &ask.task),
    }
}

impl World {
    /// Judges a step and writes it into the world: whole, or not at all.
    pub fn commit(&mut self, step: &Step) -> Result<Stepped, Refusal> {
        step.check()?;
        if let Some(before) = self.repeat(step)? {
            return Ok(before);
        }
        self.judge(step)?;
        Ok(self.write(step))
    }

    /// What a repeat is answered; `None` for the first time.
    fn repeat(&self, step: &Step) -> Result<Option<Stepped>, Refusal> {
        let same = |digest| if digest == step.op.digest { Ok(()) } else { Err(Refusal::OpReused) };
        if let Writer::Person(_) = step.by {
            let Some(op) = self.ops.get(&step.op.id) else { return Ok(None) };
            same(op.row.digest)?;
            let OpRow { version, seq, at, answer, .. } = op.row.clone();
            return Ok(Some(Stepped { version, seq, control: self.control(step), at, answer }));
        }
        let row = step.tasks.first().and_then(|put| self.tasks.get(&put.task.id)).map(|entry| &entry.row);
        let Some((row, op)) = row.and_then(|row| Some((row, row.op.as_ref()?))) else { return Ok(None) };
        if op.id != step.op.id {
            return Ok(None);
        }
        same(op.digest)?;
        let (version, seq, control) = (row.version, row.seq, row.control.clone());
        Ok(Some(Stepped { version, seq, control, at: op.at, answer: None }))
    }

    /// What others want of the step's one task, or of the one asked.
    pub(super) fn control(&self, step: &Step) -> Control {
        let task = subject_task(step).and_then(|task| self.tasks.get(task));
        task.map(|entry| entry.row.control.clone()).unwrap_or_default()
    }

    fn judge(&self, step: &Step) -> Result<(), Refusal> {
        if let Some(put) = &step.plan {
            self.judge_plan(put)?;
        }
        let mut seen = HashSet::new();
        for put in &step.tasks {
            if !seen.insert(&put.task.id) {
                return Err(Refusal::Invalid(format!("task {} is in the step twice", put.task.id)));
            }
            self.judge_task(step, put)?;
        }
        self.judge_checkpoint(step)?;
        if let Some(ask) = &step.ask {
            self.judge_ask(ask)?;
        }
        self.judge_events(step, &seen)
    }

    fn judge_plan(&self, put: &PlanPut) -> Result<(), Refusal> {
        let name = || format!("plan {}", put.plan.id);
        let stored = self.plans.get(&put.plan.id).map(|entry| &entry.row);
        match (put.version, stored) {
            (0, Some(_)) => Err(Refusal::Exists(name())),
            (0, None) if put.spec.is_none() => Err(Refusal::Invalid("a new plan needs its spec".to_owned())),
            // Its tasks are still to go: the name is not free before they are.
            (0, None) if self.gone.contains(&put.plan.id) => Err(Refusal::Exists(name())),
            (0, None) => Ok(()),
            (_, None) => Err(Refusal::NotFound(name())),
            (given, Some(row)) if given != row.version => Err(Refusal::Version { given, stored: row.version }),
            (_, Some(row)) if !row.plan.status.may_become(put.plan.status) => {
                let expected = format!("one that may become {}", put.plan.status);
                Err(Refusal::State { status: row.plan.status.name(), expected })
            }
            (_, Some(row)) if row.plan.created_at != put.plan.created_at => {
                Err(Refusal::Invalid("a plan's creation does not change".to_owned()))
            }
            (_, Some(_)) => Ok(()),
        }
    }

    fn has_plan(&self, step: &Step, plan: &PlanId) -> bool {
        self.plans.contains_key(plan) || step.plan.as_ref().is_some_and(|put| put.plan.id == *plan)
    }

    fn judge_task(&self, step: &Step, put: &TaskPut) -> Result<(), Refusal> {
        let task = &put.task;
        let no_plan = || Err(Refusal::NotFound(format!("plan {}", task.plan)));
        let row = match (put.from.is_empty(), self.tasks.get(&task.id)) {
            (true, Some(_)) => return Err(Refusal::Exists(format!("task {}", task.id))),
            (true, None) if !self.has_plan(step, &task.plan) => return no_plan(),
            (true, None) if put.spec.is_none() => {
                return Err(Refusal::Invalid("a new task needs its spec".to_owned()));
            }
            (true, None) => return Ok(()),
            (false, None) => return Err(Refusal::NotFound(format!("task {}", task.id))),
            (false, Some(entry)) => &entry.row,
        };
        self.judge_writer(&step.by, put, row)?;
        if !put.from.has(row.task.status) {
            return Err(Refusal::State { status: row.task.status.name(), expected: put.from.to_string() });
        }
        if matches!(step.by, Writer::Person(_)) && !self.has_plan(step, &row.task.plan) {
            return no_plan();
        }
        let fixed = |task: &Task| (task.plan.clone(), task.tenant.clone(), task.position, task.created_at);
        match fixed(task) == fixed(&row.task) {
            true => Ok(()),
            false => Err(Refusal::Invalid(format!("plan, tenant, position and creation of {} are fixed", task.id))),
        }
    }

    /// Whether this writer may write this row now.
    fn judge_writer(&self, by: &Writer, put: &TaskPut, row: &TaskRow) -> Result<(), Refusal> {
        let owner = row.task.owner.clone();
        let until = owner.as_ref().map_or(Ms::ZERO, |owner| self.lease(owner));
        match by {
            Writer::Owner { instance, fence } => {
                let stored = self.tenants.get(&row.task.tenant).map_or(Fence::NONE, |tenant| tenant.row.fence);
                match () {
                    () if stored > *fence => Err(Refusal::Stale { given: *fence, stored }),
                    () if owner.as_ref() != Some(instance) => Err(Refusal::Owned { owner, until }),
                    () => Ok(()),
                }
            }
            Writer::Claimer(instance) if owner.as_ref() != Some(instance) => Err(Refusal::Owned { owner, until }),
            Writer::Claimer(_) => Ok(()),
            Writer::Person(_) if put.version != row.version => {
                Err(Refusal::Version { given: put.version, stored: row.version })
            }
            Writer::Person(_) if until > self.now => Err(Refusal::Owned { owner, until }),
            Writer::Person(_) => Ok(()),
        }
    }

    fn judge_checkpoint(&self, step: &Step) -> Result<(), Refusal> {
        let CheckpointPut::Put(checkpoint) = &step.checkpoint else { return Ok(()) };
        let row = subject_task(step).and_then(|task| self.tasks.get(task)).map(|entry| &entry.row);
        let stored = row.map_or(0, |row| row.checkpoint);
        if checkpoint.version != stored + 1 {
            return Err(Refusal::Checkpoint { given: checkpoint.version, stored });
        }
        match step.by {
            Writer::Owner { fence, .. } if fence != checkpoint.fence => {
                Err(Refusal::Invalid("the checkpoint carries another fence".to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn judge_ask(&self, ask: &Ask) -> Result<(), Refusal> {
        let entry = self.tasks.get(&ask.task);
        let row = &entry.ok_or_else(|| Refusal::NotFound(format!("task {}", ask.task)))?.row;
        if !ask.from.has(row.task.status) {
            return Err(Refusal::State { status: row.task.status.name(), expected: ask.from.to_string() });
        }
        if !matches!(ask.request, Request::Start(_)) {
            return Ok(());
        }
        match &row.task.owner {
            Some(owner) if self.is_live(owner) => {
                Err(Refusal::Owned { owner: Some(owner.clone()), until: self.lease(owner) })
            }
            _ if !self.plans.contains_key(&row.task.plan) => Err(Refusal::NotFound(format!("plan {}", row.task.plan))),
            _ => Ok(()),
        }
    }

    fn judge_events(&self, step: &Step, coming: &HashSet<&TaskId>) -> Result<(), Refusal> {
        for event in &step.events {
            let known = match &event.task {
                Some(task) => self.tasks.contains_key(task) || coming.contains(task),
                None => self.has_plan(step, &event.plan),
            };
            if !known {
                return Err(Refusal::NotFound(format!("what {} is about", event.fact.name())));
            }
        }
        Ok(())
    }
}
