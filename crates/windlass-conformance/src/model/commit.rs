//! Commits: is it a repeat, may it be written, then write it. Judging changes nothing and writing
//! cannot fail, so a step is whole or not at all.

use std::collections::BTreeSet;

use windlass_core::event::{Event, HISTORY_MAX};
use windlass_core::fence::Fence;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::port::Refusal;
use windlass_core::port::state::{
    CheckpointPut, LastOp, OpRow, PlanPut, PlanRow, Step, Stepped, TaskPut, TaskRow, Writer,
};
use windlass_core::task::{Control, Request, Task};
use windlass_core::time::Ms;

use super::{Data, PlanEntry, TaskEntry};

impl Data {
    pub(super) fn commit(&mut self, step: &Step, now: Ms) -> Result<Stepped, Refusal> {
        step.check()?;
        if let Some(before) = self.repeat(step)? {
            return Ok(before);
        }
        self.judge(step, now)?;
        Ok(self.write(step, now))
    }

    /// Whether others may be waiting for what the step does.
    pub(super) fn is_news(&self, step: &Step) -> bool {
        let slots_lack =
            |put: &TaskPut| self.plans.get(&put.task.plan).is_none_or(|entry| entry.row.plan.is_short_of_slots());
        match (&step.by, &step.plan, &step.tasks[..]) {
            (Writer::Owner { .. }, _, tasks) => tasks.iter().any(|put| put.task.owner.is_none() && slots_lack(put)),
            (Writer::Person(_), Some(put), []) => !put.plan.status.is_final() || step.ask.is_some(),
            _ => true,
        }
    }

    /// What a repeat is answered; `None` for the first time.
    fn repeat(&self, step: &Step) -> Result<Option<Stepped>, Refusal> {
        let same = |digest| if digest == step.op.digest { Ok(()) } else { Err(Refusal::OpReused) };
        if let Writer::Person(_) = step.by {
            let Some(op) = self.ops.get(&step.op.id) else { return Ok(None) };
            same(op.digest)?;
            let OpRow { version, seq, at, answer, .. } = op.clone();
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
    fn control(&self, step: &Step) -> Control {
        let task = subject_task(step).and_then(|task| self.tasks.get(task));
        task.map(|entry| entry.row.control.clone()).unwrap_or_default()
    }

    fn judge(&self, step: &Step, now: Ms) -> Result<(), Refusal> {
        if let Some(put) = &step.plan {
            self.judge_plan(put)?;
        }
        let mut seen = BTreeSet::new();
        for put in &step.tasks {
            if !seen.insert(&put.task.id) {
                return Err(Refusal::Invalid(format!("task {} is in the step twice", put.task.id)));
            }
            self.judge_task(step, put, now)?;
        }
        // Where a task stands is judged before what it carries, for a request as for a put.
        self.judge_ask(step, now)?;
        self.judge_checkpoint(step)?;
        self.judge_events(step)
    }

    fn judge_plan(&self, put: &PlanPut) -> Result<(), Refusal> {
        let name = format!("plan {}", put.plan.id);
        let stored = self.plans.get(&put.plan.id).map(|entry| &entry.row);
        match (put.version, stored) {
            (0, Some(_)) => Err(Refusal::Exists(name)),
            (0, None) if put.spec.is_none() => Err(Refusal::Invalid("a new plan needs its spec".to_owned())),
            (0, None) => Ok(()),
            (_, None) => Err(Refusal::NotFound(name)),
            (given, Some(row)) if given != row.version => Err(Refusal::Version { given, stored: row.version }),
            (_, Some(row)) if !row.plan.status.may_become(put.plan.status) => {
                let expected = format!("one that may become {}", put.plan.status);
                Err(Refusal::State { status: row.plan.status.name(), expected })
            }
            (_, Some(_)) => Ok(()),
        }
    }

    fn judge_task(&self, step: &Step, put: &TaskPut, now: Ms) -> Result<(), Refusal> {
        let task = &put.task;
        let stored = self.tasks.get(&task.id).map(|entry| &entry.row);
        let plan_comes = step.plan.as_ref().is_some_and(|put| put.plan.id == task.plan);
        let has_plan = plan_comes || self.plans.contains_key(&task.plan);
        let no_plan = || Err(Refusal::NotFound(format!("plan {}", task.plan)));
        let row = match (put.from.is_empty(), stored) {
            (true, Some(_)) => return Err(Refusal::Exists(format!("task {}", task.id))),
            (true, None) if !has_plan => return no_plan(),
            (true, None) if put.spec.is_none() => {
                return Err(Refusal::Invalid("a new task needs its spec".to_owned()));
            }
            (true, None) => return Ok(()),
            (false, None) => return Err(Refusal::NotFound(format!("task {}", task.id))),
            (false, Some(row)) => row,
        };
        self.judge_writer(&step.by, put, row, now)?;
        if !put.from.has(row.task.status) {
            return Err(Refusal::State { status: row.task.status.name(), expected: put.from.to_string() });
        }
        if matches!(step.by, Writer::Person(_)) && !has_plan {
            return no_plan();
        }
        let fixed = |task: &Task| (task.plan.clone(), task.tenant.clone(), task.position, task.created_at);
        match fixed(task) == fixed(&row.task) {
            true => Ok(()),
            false => Err(Refusal::Invalid(format!("plan, tenant, position and creation of {} are fixed", task.id))),
        }
    }

    /// Whether this writer may write this row now.
    fn judge_writer(&self, by: &Writer, put: &TaskPut, row: &TaskRow, now: Ms) -> Result<(), Refusal> {
        let owner = row.task.owner.clone();
        let until = owner.as_ref().map_or(Ms::ZERO, |owner| self.lease(owner));
        match by {
            Writer::Owner { instance, fence } => {
                let stored = self.tenants.get(&row.task.tenant).map_or(Fence::NONE, |tenant| tenant.fence);
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
            Writer::Person(_) if until > now => Err(Refusal::Owned { owner, until }),
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

    fn judge_ask(&self, step: &Step, now: Ms) -> Result<(), Refusal> {
        let Some(ask) = &step.ask else { return Ok(()) };
        let entry = self.tasks.get(&ask.task);
        let row = &entry.ok_or_else(|| Refusal::NotFound(format!("task {}", ask.task)))?.row;
        if !ask.from.has(row.task.status) {
            return Err(Refusal::State { status: row.task.status.name(), expected: ask.from.to_string() });
        }
        if !matches!(ask.request, Request::Start(_)) {
            return Ok(());
        }
        match &row.task.owner {
            Some(owner) if self.is_live(owner, now) => {
                Err(Refusal::Owned { owner: Some(owner.clone()), until: self.lease(owner) })
            }
            _ if !self.plans.contains_key(&row.task.plan) => Err(Refusal::NotFound(format!("plan {}", row.task.plan))),
            _ => Ok(()),
        }
    }

    fn judge_events(&self, step: &Step) -> Result<(), Refusal> {
        let coming: BTreeSet<&TaskId> = step.tasks.iter().map(|put| &put.task.id).collect();
        for event in &step.events {
            let known = match &event.task {
                Some(task) => self.tasks.contains_key(task) || coming.contains(task),
                None => {
                    let plan = step.plan.as_ref().map(|put| &put.plan.id);
                    plan == Some(&event.plan) || self.plans.contains_key(&event.plan)
                }
            };
            if !known {
                return Err(Refusal::NotFound(format!("what {} is about", event.fact.name())));
            }
        }
        Ok(())
    }

    fn write(&mut self, step: &Step, now: Ms) -> Stepped {
        if let Some(put) = &step.plan {
            self.put_plan(put);
        }
        for put in &step.tasks {
            self.put_task(step, put, now);
        }
        if let Some(task) = subject_task(step) {
            let entry = self.tasks.get_mut(task).expect("it was judged");
            match &step.checkpoint {
                CheckpointPut::Keep => {}
                CheckpointPut::Put(checkpoint) => {
                    entry.row.checkpoint = checkpoint.version;
                    entry.checkpoint = Some(checkpoint.clone());
                }
                CheckpointPut::Remove => {
                    entry.row.checkpoint = 0;
                    entry.checkpoint = None;
                }
            }
        }
        if let Some(ask) = &step.ask {
            let entry = self.tasks.get_mut(&ask.task).expect("it was judged");
            entry.row.control.ask(ask.request.clone());
        }
        for event in &step.events {
            self.append(event);
        }
        self.count(step);
        let (version, seq) = self.subject(step);
        let stepped = Stepped { version, seq, control: self.control(step), at: now, answer: step.answer.clone() };
        if let Writer::Person(_) = step.by {
            let op = OpRow { digest: step.op.digest, version, seq, at: now, answer: step.answer.clone() };
            self.ops.insert(step.op.id.clone(), op);
        }
        stepped
    }

    fn put_plan(&mut self, put: &PlanPut) {
        match self.plans.get_mut(&put.plan.id) {
            Some(entry) => {
                entry.row.plan = put.plan.clone();
                entry.spec = put.spec.clone().unwrap_or_else(|| entry.spec.clone());
            }
            None => {
                let row = PlanRow { plan: put.plan.clone(), version: 0, seq: 0 };
                let spec = put.spec.clone().expect("it was judged");
                self.plans.insert(put.plan.id.clone(), PlanEntry { row, spec, history: Vec::new() });
            }
        }
    }

    fn put_task(&mut self, step: &Step, put: &TaskPut, now: Ms) {
        let task = &put.task;
        let tenant = self.tenants.entry(task.tenant.clone()).or_default();
        let begun = match self.tasks.get_mut(&task.id) {
            Some(entry) => {
                let begun = task.fence > entry.row.task.fence;
                entry.row.control = entry.row.control.clone().after(entry.row.task.status, task.status, begun);
                entry.row.task = task.clone();
                entry.spec = put.spec.clone().unwrap_or_else(|| entry.spec.clone());
                begun
            }
            None => {
                let control = Control::default();
                let row = TaskRow { task: task.clone(), control, checkpoint: 0, version: 0, seq: 0, op: None };
                let spec = put.spec.clone().expect("it was judged");
                let entry = TaskEntry { row, spec, checkpoint: None, history: Vec::new() };
                self.tasks.insert(task.id.clone(), entry);
                if tenant.started.is_none() {
                    tenant.latest = Some(task.id.clone());
                }
                false
            }
        };
        if let Writer::Owner { fence, .. } = step.by {
            tenant.fence = tenant.fence.max(fence);
            if begun {
                tenant.latest = Some(task.id.clone());
                tenant.started = Some(task.id.clone());
            }
        }
        if !matches!(step.by, Writer::Person(_)) {
            let op = LastOp { id: step.op.id.clone(), digest: step.op.digest, at: now };
            self.tasks.get_mut(&task.id).expect("it was put").row.op = Some(op);
        }
    }

    fn append(&mut self, event: &Event) {
        let (seq, history) = match &event.task {
            Some(task) => {
                let entry = self.tasks.get_mut(task).expect("it was judged");
                (&mut entry.row.seq, &mut entry.history)
            }
            None => {
                let entry = self.plans.get_mut(&event.plan).expect("it was judged");
                (&mut entry.row.seq, &mut entry.history)
            }
        };
        *seq += 1;
        history.push(Event { seq: *seq, ..event.clone() });
        if history.len() > HISTORY_MAX {
            history.remove(0);
        }
    }

    /// Every row that the step touched is one version further, however often it was touched.
    fn count(&mut self, step: &Step) {
        let of_events = || step.events.iter();
        let mut plans: Vec<&PlanId> = step.plan.iter().map(|put| &put.plan.id).collect();
        plans.extend(of_events().filter(|event| event.task.is_none()).map(|event| &event.plan));
        let mut tasks: Vec<&TaskId> = step.tasks.iter().map(|put| &put.task.id).collect();
        tasks.extend(step.ask.iter().map(|ask| &ask.task));
        tasks.extend(of_events().filter_map(|event| event.task.as_ref()));
        plans.sort();
        plans.dedup();
        tasks.sort();
        tasks.dedup();
        plans.into_iter().for_each(|id| self.plans.get_mut(id).expect("it was judged").row.version += 1);
        tasks.into_iter().for_each(|id| self.tasks.get_mut(id).expect("it was judged").row.version += 1);
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

/// The step's one task, or else the one asked.
fn subject_task(step: &Step) -> Option<&TaskId> {
    match &step.tasks[..] {
        [one] => Some(&one.task.id),
        _ => step.ask.as_ref().map(|ask| &ask.task),
    }
}
