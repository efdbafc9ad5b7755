//! Creating a plan: all of it in one step, or nothing.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass_core::event::{Event, Fact};
use windlass_core::id::{PlanId, TaskId};
use windlass_core::plan::spec::{OnConflict, PlanFile};
use windlass_core::port::Refusal;
use windlass_core::port::state::{CheckpointPut, PlanPut, Step, TaskPut, Writer};
use windlass_core::projection::{apply, apply_plan};
use windlass_core::stage::Stage;
use windlass_core::task::status::Statuses;

use super::{Caller, ROUNDS_MAX, kept, lasting};
use crate::error::Error;
use crate::shared::Shared;

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    /// The plan.
    pub plan: PlanId,
    /// Its tasks, in order.
    pub tasks: Vec<TaskId>,
    /// Whether it was started with it.
    pub started: bool,
}

impl Shared {
    /// Creates the plan, and starts it if asked to.
    pub(crate) async fn create(
        self: &Arc<Self>,
        file: &PlanFile,
        start: bool,
        caller: &Caller,
    ) -> Result<Created, Error> {
        self.can_carry_out(file)?;
        let op = self.op_for(caller, &format!("create {start} {file:?}"));
        if let Some(created) = self.answered(caller, &op).await? {
            return Ok(created);
        }
        if start && file.spec.on_conflict == OnConflict::Refuse {
            let tenants: Vec<_> = file.tasks.iter().map(|task| task.tenant.clone()).collect();
            self.refuse_conflicts(None, &tenants).await?;
        }
        for _ in 0..ROUNDS_MAX {
            let plan = match &file.id {
                Some(id) => id.clone(),
                None => PlanId::of(&file.name, self.random() as u32),
            };
            let tasks = (0..file.tasks.len()).map(|position| TaskId::of(&plan, position as u32)).collect();
            let created = Created { plan, tasks, started: start };
            if caller.dry_run {
                return Ok(created);
            }
            let mut step = self.creation(file, start, caller, &created)?;
            step.op = op.clone();
            match self.commit_one(&step).await? {
                Ok(stepped) => {
                    let created = lasting(&stepped, created);
                    self.tell(
                        step.events.into_iter().filter(|event| event.task.is_none()).collect(),
                        stepped.seq,
                        true,
                    );
                    let created = lasting(&stepped, created);
                    self.queue.wake();
                    self.touch(&created.plan);
                    return Ok(created);
                }
                // A suffix drawn twice: draw again.
                Err(Refusal::Exists(_)) if file.id.is_none() => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(Error::Contended)
    }

    fn creation(&self, file: &PlanFile, start: bool, caller: &Caller, created: &Created) -> Result<Step, Error> {
        let now = self.clock.now();
        let event = |task: Option<usize>, fact| Event {
            seq: 0,
            at: now,
            plan: created.plan.clone(),
            task: task.map(|position| created.tasks[position].clone()),
            tenant: task.map(|position| file.tasks[position].tenant.clone()),
            by: Some(caller.by.clone()),
            reason: caller.reason.clone(),
            fact,
        };
        let count = file.tasks.len() as u32;
        let mut events = vec![event(None, Fact::PlanCreated { name: file.name.clone(), tasks: count })];
        let mut plan = apply_plan(None, &file.spec, &events[0])?;
        if start {
            let started = event(None, Fact::PlanStarted { conductor: self.instance.clone() });
            plan = apply_plan(Some(plan), &file.spec, &started)?;
            events.push(started);
        }
        let mut tasks = Vec::with_capacity(file.tasks.len());
        for (position, task) in file.tasks.iter().enumerate() {
            let stages = task.spec.stages.as_ref().unwrap_or(&file.spec.stages);
            let stages = stages.iter().map(|stage| stage.name.clone()).collect();
            let made = event(Some(position), Fact::TaskCreated { position: position as u32, stages });
            tasks.push(TaskPut {
                task: apply(None, &made)?,
                from: Statuses::NONE,
                version: 0,
                spec: Some(task.spec.clone()),
            });
            events.push(made);
        }
        Ok(Step {
            op: self.op(),
            by: Writer::Person(caller.by.clone()),
            plan: Some(PlanPut { plan, version: 0, spec: Some(file.spec.clone()) }),
            tasks,
            checkpoint: CheckpointPut::Keep,
            ask: None,
            events,
            answer: kept(created),
        })
    }

    /// Refuses at once what this instance can never carry out.
    pub(crate) fn can_carry_out(&self, file: &PlanFile) -> Result<(), Error> {
        let own = file.tasks.iter().filter_map(|task| task.spec.stages.as_ref()).flatten();
        let all = file.spec.stages.iter().chain(own);
        let actions = all.flat_map(|stage: &Stage| [Some(&stage.action), stage.undo.as_ref()].map(|a| (stage, a)));
        for (stage, action) in actions {
            if let Some(action) = action {
                self.actions.check(action).map_err(|why| Error::Invalid(format!("stage {}: {why}", stage.name)))?;
            }
        }
        Ok(())
    }
}
