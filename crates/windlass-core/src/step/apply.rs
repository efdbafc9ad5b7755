//! Writing a judged step into the world. It cannot fail, so that a step is whole or not at all.

use crate::event::Event;
use crate::id::{PlanId, TaskId};
use crate::port::state::{CheckpointPut, LastOp, OpRow, PlanPut, PlanRow, Step, Stepped, TaskPut, TaskRow, Writer};
use crate::task::Control;

use super::judge::subject_task;
use super::world::{OpEntry, PlanEntry, Saved, TaskEntry, World};

impl World {
    pub(super) fn write(&mut self, step: &Step) -> Stepped {
        if let Some(put) = &step.plan {
            self.put_plan(put);
        }
        for put in &step.tasks {
            self.put_task(step, put);
        }
        if let Some(entry) = subject_task(step).and_then(|task| self.tasks.get_mut(task)) {
            put_checkpoint(entry, &step.checkpoint);
        }
        if let Some(ask) = &step.ask
            && let Some(entry) = self.tasks.get_mut(&ask.task)
        {
            entry.row.control.ask(ask.request.clone());
            self.wakes = true;
        }
        for event in &step.events {
            self.append(event);
        }
        self.count(step);
        let (version, seq) = self.subject(step);
        let stepped = Stepped { version, seq, control: self.control(step), at: self.now, answer: step.answer.clone() };
        if let Writer::Person(_) = step.by {
            let row = OpRow { digest: step.op.digest, version, seq, at: self.now, answer: step.answer.clone() };
            self.ops.insert(step.op.id.clone(), OpEntry { row, is_new: true });
        }
        stepped
    }

    fn put_plan(&mut self, put: &PlanPut) {
        let new = || PlanEntry::new(PlanRow { plan: put.plan.clone(), version: 0, seq: 0 });
        let entry = self.plans.entry(put.plan.id.clone()).or_insert_with(new);
        entry.row.plan = put.plan.clone();
        entry.spec = put.spec.clone().or(entry.spec.take());
        // Nobody waits for the end of a plan: nothing more is handed out from it.
        self.wakes |= !put.plan.status.is_final();
    }

    fn put_task(&mut self, step: &Step, put: &TaskPut) {
        let task = &put.task;
        let tenant = self.tenants.entry(task.tenant.clone()).or_default();
        let entry = self.tasks.entry(task.id.clone());
        let is_new = matches!(entry, std::collections::btree_map::Entry::Vacant(_));
        let entry = entry.or_insert_with(|| {
            let control = Control::default();
            TaskEntry::new(TaskRow { task: task.clone(), control, checkpoint: 0, version: 0, seq: 0, op: None })
        });
        entry.spec = put.spec.clone().or(entry.spec.take());
        if is_new {
            self.wakes = true;
            tenant.changed = true;
            if tenant.row.started.is_none() {
                tenant.row.latest = Some(task.id.clone());
            }
            if let Some(plan) = self.plans.get_mut(&task.plan) {
                plan.grew = true;
            }
        }
        let begun = task.fence > entry.row.task.fence;
        match (ready(&entry.row, task), entry.row.task.takes_slot() && !task.takes_slot(), &step.by) {
            (false, true, Writer::Owner { .. }) => drop(self.freed.insert(task.plan.clone())),
            (ready, freed, _) => self.wakes |= ready || freed,
        }
        entry.row.control = std::mem::take(&mut entry.row.control).after(entry.row.task.status, task.status, begun);
        entry.row.task = task.clone();
        if let Writer::Owner { fence, .. } = step.by {
            let raised = begun || fence > tenant.row.fence;
            tenant.changed |= raised;
            tenant.row.fence = tenant.row.fence.max(fence);
            if raised {
                self.overtaken.remove(&task.id);
                self.overtaken.extend(tenant.row.started.clone().filter(|started| *started != task.id));
            }
            if begun {
                tenant.row.latest = Some(task.id.clone());
                tenant.row.started = Some(task.id.clone());
            }
        }
        if !matches!(step.by, Writer::Person(_)) {
            entry.row.op = Some(LastOp { id: step.op.id.clone(), digest: step.op.digest, at: self.now });
        }
    }

    fn append(&mut self, event: &Event) {
        let (seq, events) = match &event.task {
            Some(task) => match self.tasks.get_mut(task) {
                Some(entry) => (&mut entry.row.seq, &mut entry.events),
                None => return,
            },
            None => match self.plans.get_mut(&event.plan) {
                Some(entry) => (&mut entry.row.seq, &mut entry.events),
                None => return,
            },
        };
        *seq += 1;
        events.push(Event { seq: *seq, ..event.clone() });
    }

    /// Every row that the step touched is one version further, however often it was touched.
    fn count(&mut self, step: &Step) {
        let mut plans: Vec<&PlanId> = step.plan.iter().map(|put| &put.plan.id).collect();
        plans.extend(step.events.iter().filter(|event| event.task.is_none()).map(|event| &event.plan));
        plans.sort_unstable();
        plans.dedup();
        let mut tasks: Vec<&TaskId> = step.tasks.iter().map(|put| &put.task.id).collect();
        tasks.extend(step.ask.iter().map(|ask| &ask.task));
        tasks.extend(step.events.iter().filter_map(|event| event.task.as_ref()));
        tasks.sort_unstable();
        tasks.dedup();
        for id in plans {
            if let Some(entry) = self.plans.get_mut(id) {
                entry.row.version += 1;
                entry.changed = true;
            }
        }
        for id in tasks {
            if let Some(entry) = self.tasks.get_mut(id) {
                entry.row.version += 1;
                entry.changed = true;
            }
        }
    }

    /// Version and last event of what the step is about.
    fn subject(&self, step: &Step) -> (u64, u64) {
        let task = |id: &TaskId| self.tasks.get(id).map_or((0, 0), |entry| (entry.row.version, entry.row.seq));
        let plan = |id: &PlanId| self.plans.get(id).map_or((0, 0), |entry| (entry.row.version, entry.row.seq));
        match (subject_task(step), &step.plan, step.events.first()) {
            (Some(id), _, _) => task(id),
            (None, Some(put), _) => plan(&put.plan.id),
            (None, None, Some(event)) if step.tasks.is_empty() => match &event.task {
                Some(id) => task(id),
                None => plan(&event.plan),
            },
            _ => (0, 0),
        }
    }
}

fn put_checkpoint(entry: &mut TaskEntry, put: &CheckpointPut) {
    match put {
        CheckpointPut::Keep => {}
        CheckpointPut::Put(checkpoint) => {
            entry.row.checkpoint = checkpoint.version;
            entry.checkpoint = Saved::Put(Box::new(checkpoint.clone()));
        }
        CheckpointPut::Remove => {
            entry.row.checkpoint = 0;
            entry.checkpoint = Saved::Remove;
        }
    }
}

/// Whether work became ready. (A new task and what is asked always wake.)
fn ready(old: &TaskRow, new: &crate::task::Task) -> bool {
    new.readiness(&Control::default()).is_some() && old.task.readiness(&old.control).is_none()
}
