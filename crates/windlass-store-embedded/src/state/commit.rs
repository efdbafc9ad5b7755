//! One step: judged against what is stored, then written whole. Judging changes nothing, so a
//! refusal leaves nothing behind.

use std::collections::HashMap;

use windlass_core::event::Event;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, TaskId, TenantId};
use windlass_core::plan::spec::{PlanSpec, TaskSpec};
use windlass_core::port::state::{
    Ask, CheckpointPut, LastOp, OpRow, PlanPut, PlanRow, Step, Stepped, TaskPut, TaskRow, TenantRow, Writer,
};
use windlass_core::port::{PortError, Refusal};
use windlass_core::task::{Control, Request, Task};
use windlass_core::time::Ms;

use super::change::{CheckpointChange, PlanChange, TaskChange};
use super::prepared::{Prepared, Saved};
use super::{Judged, lease_until};
use crate::key;
use crate::kv::KvError;
use crate::tx::{Records, Tx};

pub(super) fn step(tx: &mut Tx<'_>, step: Prepared, now: Ms) -> Judged<Stepped> {
    match judge(tx, step, now) {
        Ok(Judgement::New(draft)) => Ok(Ok(draft.write(tx)?)),
        Ok(Judgement::Repeat(stepped)) => Ok(Ok(*stepped)),
        Err(Stop::No(refusal)) => Ok(Err(refusal)),
        Err(Stop::Failed(error)) => Err(error.into()),
    }
}

enum Judgement {
    New(Box<Draft>),
    Repeat(Box<Stepped>),
}

/// Judging ends early: by a refusal, or because the store failed.
enum Stop {
    No(Refusal),
    Failed(KvError),
}

impl From<KvError> for Stop {
    fn from(error: KvError) -> Self {
        Stop::Failed(error)
    }
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::No(refusal)
    }
}

/// Everything a step comes to, before any of it is written.
struct Draft {
    by: Writer,
    now: Ms,
    op: windlass_core::port::state::Op,
    plan: Option<PlanChange>,
    plan_spec: Option<PlanSpec>,
    tasks: Vec<TaskChange>,
    places: HashMap<TaskId, usize>,
    specs: Vec<(TaskId, TaskSpec)>,
    tenants: Vec<(TenantId, TenantRow)>,
    checkpoint: CheckpointPut,
    /// The checkpoint, made ready to be stored by the caller.
    saved: Option<Saved>,
    asked: bool,
    /// Which task the answer and the checkpoint are about.
    subject: Option<usize>,
    answer: Option<windlass_core::json::Json>,
}

fn judge(tx: &Tx<'_>, prepared: Prepared, now: Ms) -> Result<Judgement, Stop> {
    let Prepared { step, texts } = prepared;
    step.check()?;
    if let Some(repeat) = repeat(tx, &step)? {
        return Ok(Judgement::Repeat(Box::new(repeat)));
    }
    let Step { op, by, plan, tasks, checkpoint, ask, events, answer } = step;
    let mut draft = Draft {
        by,
        now,
        op,
        plan: None,
        plan_spec: None,
        places: HashMap::with_capacity(tasks.len()),
        tasks: Vec::with_capacity(tasks.len()),
        specs: Vec::new(),
        tenants: Vec::new(),
        checkpoint,
        saved: texts.checkpoint,
        asked: ask.is_some(),
        subject: None,
        answer,
    };
    if let Some(put) = plan {
        draft.plan(tx, put)?;
    }
    let single = tasks.len() == 1;
    for put in tasks {
        draft.task(tx, put)?;
    }
    draft.subject = single.then_some(0);
    if let Some(ask) = ask {
        draft.ask(tx, ask)?;
    }
    draft.judge_checkpoint()?;
    for event in events {
        draft.event(tx, event)?;
    }
    if let (true, Some(change)) = (single, draft.tasks.first_mut()) {
        change.task_text = texts.task;
        change.events_text = texts.events;
    }
    Ok(Judgement::New(Box::new(draft)))
}

/// The answer to a repeat of something that was done.
fn repeat(tx: &Tx<'_>, step: &Step) -> Result<Option<Stepped>, Stop> {
    let subject = match (&step.tasks[..], &step.ask) {
        ([put], _) => Some(&put.task.id),
        (_, Some(ask)) => Some(&ask.task),
        _ => None,
    };
    let row = |id: Option<&TaskId>| id.map_or(Ok(None), |id| tx.task(id));
    if let Writer::Person(_) = step.by {
        let Some(op) = tx.record::<OpRow>(&key::op(&step.op.id))? else { return Ok(None) };
        if op.digest != step.op.digest {
            return Err(Refusal::OpReused.into());
        }
        let control = row(subject)?.map(|row| row.control).unwrap_or_default();
        return Ok(Some(Stepped { version: op.version, seq: op.seq, control, at: op.at, answer: op.answer }));
    }
    // Nearly always it is not: then nothing is copied.
    let last = subject.and_then(|id| tx.hot_task(id)).and_then(|row| row.op.as_ref());
    if last.is_some_and(|last| last.id != step.op.id) {
        return Ok(None);
    }
    match row(subject)? {
        Some(TaskRow { op: Some(last), version, seq, control, .. }) if last.id == step.op.id => {
            match last.digest == step.op.digest {
                true => Ok(Some(Stepped { version, seq, control, at: last.at, answer: None })),
                false => Err(Refusal::OpReused.into()),
            }
        }
        _ => Ok(None),
    }
}

impl Draft {
    fn plan(&mut self, tx: &Tx<'_>, put: PlanPut) -> Result<(), Stop> {
        let PlanPut { plan, version, spec } = put;
        let stored: Option<PlanRow> = tx.record(&key::plan(&plan.id))?;
        let change = match stored {
            Some(_) if version == 0 => return Err(Refusal::Exists(format!("plan {}", plan.id)).into()),
            None if version > 0 => return Err(Refusal::NotFound(format!("plan {}", plan.id)).into()),
            None if spec.is_none() => return Err(Refusal::Invalid("a new plan needs its spec".into()).into()),
            // Its tasks are still to go: the name is not free before they are.
            None if tx.get_is_some(&key::going(&plan.id))? => {
                return Err(Refusal::Exists(format!("plan {}", plan.id)).into());
            }
            None => PlanChange { old: None, new: PlanRow { plan, version: 1, seq: 0 }, events: Vec::new() },
            Some(row) => {
                if row.version != version {
                    return Err(Refusal::Version { given: version, stored: row.version }.into());
                }
                if !row.plan.status.may_become(plan.status) {
                    let expected = format!("one that may become {}", plan.status);
                    return Err(Refusal::State { status: row.plan.status.name(), expected }.into());
                }
                if row.plan.created_at != plan.created_at {
                    return Err(Refusal::Invalid("a plan's creation does not change".into()).into());
                }
                let mut change = PlanChange::of(row);
                change.new.plan = plan;
                change
            }
        };
        self.plan = Some(change);
        self.plan_spec = spec;
        Ok(())
    }

    fn task(&mut self, tx: &Tx<'_>, put: TaskPut) -> Result<(), Stop> {
        let TaskPut { task, from, version, spec } = put;
        if self.places.contains_key(&task.id) {
            return Err(Refusal::Invalid(format!("task {} comes twice", task.id)).into());
        }
        let stored = tx.task(&task.id)?;
        let mut tenant = self.tenant(tx, &task.tenant)?;
        let before = tenant.clone();
        let change = match stored {
            None if !from.is_empty() => return Err(Refusal::NotFound(format!("task {}", task.id)).into()),
            Some(_) if from.is_empty() => return Err(Refusal::Exists(format!("task {}", task.id)).into()),
            None => {
                self.needs_plan(tx, &task.plan)?;
                if spec.is_none() {
                    return Err(Refusal::Invalid("a new task needs its spec".into()).into());
                }
                if tenant.started.is_none() {
                    tenant.latest = Some(task.id.clone());
                }
                let new = TaskRow { task, control: Control::default(), checkpoint: 0, version: 1, seq: 0, op: None };
                TaskChange::new(new)
            }
            Some(row) => {
                let who = &self.by;
                judge_writer(tx, who, &row, &tenant, version, self.now)?;
                if !from.has(row.task.status) {
                    return Err(Refusal::State { status: row.task.status.name(), expected: from.to_string() }.into());
                }
                if matches!(who, Writer::Person(_)) {
                    self.needs_plan(tx, &row.task.plan)?;
                }
                if !is_same(&row.task, &task) {
                    return Err(
                        Refusal::Invalid("a task's plan, tenant, place and creation do not change".into()).into()
                    );
                }
                let (was, begun) = (row.task.status, task.fence > row.task.fence);
                let mut change = TaskChange::to(row, task);
                change.new.control = std::mem::take(&mut change.new.control).after(was, change.new.task.status, begun);
                if let Writer::Owner { fence, .. } = self.by {
                    tenant.fence = tenant.fence.max(fence);
                    if begun {
                        tenant.latest = Some(change.new.task.id.clone());
                        tenant.started = Some(change.new.task.id.clone());
                    }
                }
                change
            }
        };
        if tenant != before {
            self.tenants.push((change.new.task.tenant.clone(), tenant));
        }
        let id = change.new.task.id.clone();
        self.specs.extend(spec.map(|spec| (id.clone(), spec)));
        self.places.insert(id, self.tasks.len());
        self.tasks.push(change);
        Ok(())
    }

    fn tenant(&self, tx: &Tx<'_>, id: &TenantId) -> Result<TenantRow, Stop> {
        let drafted = self.tenants.iter().rev().find(|(drafted, _)| drafted == id);
        match drafted {
            Some((_, row)) => Ok(row.clone()),
            None => Ok(tx.tenant(id)?.unwrap_or_default()),
        }
    }

    fn needs_plan(&self, tx: &Tx<'_>, id: &windlass_core::id::PlanId) -> Result<(), Stop> {
        let here = self.plan.as_ref().is_some_and(|change| change.new.plan.id == *id);
        match here || tx.get_is_some(&key::plan(id))? {
            true => Ok(()),
            false => Err(Refusal::NotFound(format!("plan {id}")).into()),
        }
    }

    fn ask(&mut self, tx: &Tx<'_>, ask: Ask) -> Result<(), Stop> {
        let Ask { task, from, request } = ask;
        let place = self.place(tx, &task)?;
        let row = &self.tasks[place].new;
        if !from.has(row.task.status) {
            return Err(Refusal::State { status: row.task.status.name(), expected: from.to_string() }.into());
        }
        if matches!(request, Request::Start(_)) {
            no_live_owner(tx, row.task.owner.as_ref(), self.now)?;
            let plan = row.task.plan.clone();
            self.needs_plan(tx, &plan)?;
        }
        self.tasks[place].new.control.ask(request);
        self.subject = self.subject.or(Some(place));
        Ok(())
    }

    /// Where the task is in the draft; a stored one is brought in, one version on.
    fn place(&mut self, tx: &Tx<'_>, id: &TaskId) -> Result<usize, Stop> {
        if let Some(place) = self.places.get(id) {
            return Ok(*place);
        }
        let row = tx.task(id)?.ok_or_else(|| Refusal::NotFound(format!("task {id}")))?;
        self.places.insert(id.clone(), self.tasks.len());
        self.tasks.push(TaskChange::of(row));
        Ok(self.tasks.len() - 1)
    }

    fn judge_checkpoint(&mut self) -> Result<(), Stop> {
        let Some(subject) = self.subject else {
            return match self.checkpoint {
                CheckpointPut::Keep => Ok(()),
                _ => Err(Refusal::Invalid("a checkpoint goes with exactly one task".into()).into()),
            };
        };
        let row = &mut self.tasks[subject].new;
        match &self.checkpoint {
            CheckpointPut::Keep => {}
            CheckpointPut::Remove => row.checkpoint = 0,
            CheckpointPut::Put(checkpoint) => {
                if checkpoint.version != row.checkpoint + 1 {
                    let (given, stored) = (checkpoint.version, row.checkpoint);
                    return Err(Refusal::Checkpoint { given, stored }.into());
                }
                if let Writer::Owner { fence, .. } = self.by
                    && checkpoint.fence != fence
                {
                    return Err(Refusal::Invalid("a checkpoint carries its writer's fence".into()).into());
                }
                row.checkpoint = checkpoint.version;
            }
        }
        Ok(())
    }

    fn event(&mut self, tx: &Tx<'_>, event: Event) -> Result<(), Stop> {
        if let Some(task) = event.task.clone() {
            let place = self.place(tx, &task)?;
            self.tasks[place].add(event);
            return Ok(());
        }
        let plan = match &mut self.plan {
            Some(plan) if plan.new.plan.id == event.plan => plan,
            Some(_) => return Err(Refusal::Invalid("an event is about another plan".into()).into()),
            None => {
                let row: Option<PlanRow> = tx.record(&key::plan(&event.plan))?;
                let row = row.ok_or_else(|| Refusal::NotFound(format!("plan {}", event.plan)))?;
                self.plan.insert(PlanChange::of(row))
            }
        };
        plan.add(event);
        Ok(())
    }

    fn write(mut self: Box<Self>, tx: &mut Tx<'_>) -> Result<Stepped, PortError> {
        let stepped = self.stepped();
        tx.state_changed |= self.asked;
        self.write_op(tx, &stepped)?;
        if let Some(subject) = self.subject {
            self.tasks[subject].checkpoint = match (&self.checkpoint, self.saved.take()) {
                (CheckpointPut::Keep, _) => CheckpointChange::Keep,
                (CheckpointPut::Remove, _) => CheckpointChange::Remove,
                (CheckpointPut::Put(_), Some(saved)) => CheckpointChange::Put(saved),
                (CheckpointPut::Put(checkpoint), None) => CheckpointChange::Put(Saved::of(checkpoint)?),
            };
        }
        for (id, spec) in &self.specs {
            tx.put_record(key::task_spec(id), spec)?;
        }
        for (id, tenant) in self.tenants {
            tx.put_tenant(id, tenant)?;
        }
        for change in self.tasks {
            change.write(tx)?;
        }
        if let Some(change) = self.plan {
            if let Some(spec) = &self.plan_spec {
                tx.put_record(key::plan_spec(&change.new.plan.id), spec)?;
            }
            change.write(tx)?;
        }
        Ok(stepped)
    }

    fn stepped(&self) -> Stepped {
        let task = self.subject.map(|place| &self.tasks[place].new);
        let (version, seq) = match (task, &self.plan, &self.tasks[..]) {
            (Some(row), _, _) => (row.version, row.seq),
            (None, Some(plan), _) => (plan.new.version, plan.new.seq),
            // Events only.
            (None, None, [change]) => (change.new.version, change.new.seq),
            _ => (0, 0),
        };
        let control = task.map(|row| row.control.clone()).unwrap_or_default();
        Stepped { version, seq, control, at: self.now, answer: self.answer.clone() }
    }

    /// A person's operation is kept for itself; an owner's with its task.
    fn write_op(&mut self, tx: &mut Tx<'_>, stepped: &Stepped) -> Result<(), KvError> {
        let windlass_core::port::state::Op { id, digest } = self.op.clone();
        match (&self.by, self.subject) {
            (Writer::Person(_), _) => {
                let Stepped { version, seq, at, answer, .. } = stepped.clone();
                tx.put_record(key::op(&id), &OpRow { digest, version, seq, at, answer })?;
                tx.put_record(key::op_age(at, &id), &id)?;
            }
            (_, Some(subject)) => self.tasks[subject].new.op = Some(LastOp { id, digest, at: self.now }),
            _ => {}
        }
        Ok(())
    }
}

/// What does not change as long as a task lives.
fn is_same(a: &Task, b: &Task) -> bool {
    (&a.plan, &a.tenant, a.position, a.created_at) == (&b.plan, &b.tenant, b.position, b.created_at)
}

/// Whether this writer may put this row at all.
fn judge_writer(
    tx: &Tx<'_>,
    by: &Writer,
    row: &TaskRow,
    tenant: &TenantRow,
    version: u64,
    now: Ms,
) -> Result<(), Stop> {
    match by {
        Writer::Owner { instance, fence } => {
            fresh(tenant.fence, *fence)?;
            owns(tx, row, instance)
        }
        Writer::Claimer(instance) => owns(tx, row, instance),
        Writer::Person(_) if row.version != version => {
            Err(Refusal::Version { given: version, stored: row.version }.into())
        }
        Writer::Person(_) => no_live_owner(tx, row.task.owner.as_ref(), now),
    }
}

/// The tenant has seen no higher fence.
fn fresh(stored: Fence, given: Fence) -> Result<(), Stop> {
    match stored > given {
        true => Err(Refusal::Stale { given, stored }.into()),
        false => Ok(()),
    }
}

fn owns(tx: &Tx<'_>, row: &TaskRow, instance: &InstanceId) -> Result<(), Stop> {
    match &row.task.owner {
        Some(owner) if owner == instance => Ok(()),
        Some(owner) => Err(Refusal::Owned { owner: Some(owner.clone()), until: lease_until(tx, owner)? }.into()),
        None => Err(Refusal::Owned { owner: None, until: Ms::ZERO }.into()),
    }
}

fn no_live_owner(tx: &Tx<'_>, owner: Option<&InstanceId>, now: Ms) -> Result<(), Stop> {
    let Some(owner) = owner else { return Ok(()) };
    match lease_until(tx, owner)? {
        until if until > now => Err(Refusal::Owned { owner: Some(owner.clone()), until }.into()),
        _ => Ok(()),
    }
}
