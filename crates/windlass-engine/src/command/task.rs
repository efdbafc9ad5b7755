//! What people do to a task: pause, resume, cancel, retry, roll back, approve, reject, skip a stage.

use std::sync::Arc;

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{Event, Fact};
use windlass_core::id::{StageName, TaskId, TenantId};
use windlass_core::json::Json;
use windlass_core::plan::command as plan_command;
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::Refusal;
use windlass_core::port::lock::Tenant;
use windlass_core::port::state::{
    Ask, CheckpointPut, Key, Op, PlanPut, PlanRow, Row, Step, Stepped, TaskPut, TaskRow, TenantRow, Writer,
};
use windlass_core::projection::{apply, apply_plan};
use windlass_core::task::command::{Command, Decision, Standing, decide};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Control, Request, Start, StartKind, Task};
use windlass_core::time::Ms;

use super::{Caller, Done, Preview, ROUNDS_MAX, kept, lasting};
use crate::error::Error;
use crate::run::work::Job;
use crate::shared::{Counts, Shared};

/// Which task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// This one.
    Task(TaskId),
    /// The tenant's latest.
    Tenant(TenantId),
}

/// What is wanted of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which.
    pub which: Which,
    /// What.
    pub command: Command,
    /// With a retry: what its stages work with from now on.
    pub config: Option<Json>,
}

/// Everything a decision about a task depends on, as it is stored.
pub(crate) struct Found {
    pub(crate) row: Box<TaskRow>,
    pub(crate) plan: PlanRow,
    pub(crate) job: Job,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) tenant: TenantRow,
    pub(crate) lock: Tenant,
    /// Until when its owner's lease runs.
    pub(crate) lease_until: Option<Ms>,
    pub(crate) lease_expired: bool,
    pub(crate) conductor_gone: bool,
    kept_until: Option<Ms>,
    retry_limit: u32,
}

impl Found {
    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing {
            task: &self.row.task,
            control: &self.row.control,
            lease_expired: self.lease_expired,
            latest: self.tenant.started.as_ref().is_none_or(|started| *started == self.row.task.id),
            frozen: self.lock.freeze.is_some(),
            stages: &self.job.work.names,
            checkpoint: self.checkpoint.as_ref(),
            kept_until: self.kept_until,
            can_take_back: self.job.can_take_back(),
            retry_limit: self.retry_limit,
        }
    }
}

impl Shared {
    /// Does what is wanted of a task, or says why not.
    pub(crate) async fn command_task(self: &Arc<Self>, order: &Order, caller: &Caller) -> Result<Done, Error> {
        let op = self.op_for(caller, &format!("{order:?}"));
        match self.answered(caller, &op).await {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => {}
            Err(error) => return self.ask_in_memory(order, caller, error),
        }
        for round in 0..ROUNDS_MAX {
            let found = match self.find(&order.which).await {
                Ok(found) => found,
                Err(error) => return self.ask_in_memory(order, caller, error),
            };
            let decision = self.decide_task(&found, order, caller)?;
            let done = self.foresee(&found, &decision, caller);
            if caller.dry_run {
                return Ok(done);
            }
            let step = self.task_step(&found, &decision, order, caller, op.clone(), &done)?;
            match self.commit_one(&step).await? {
                Ok(stepped) => {
                    self.after_task(&found, &decision, &step, &stepped);
                    return Ok(lasting(&stepped, done));
                }
                // Somebody else wrote in between, or is about to begin the task: look again.
                Err(
                    Refusal::Version { .. }
                    | Refusal::State { .. }
                    | Refusal::Owned { .. }
                    | Refusal::Checkpoint { .. },
                ) => {
                    if round > 2 {
                        crate::run::dispatch::pause(u64::from(round)).await;
                    }
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(Error::Contended)
    }

    fn decide_task(&self, found: &Found, order: &Order, caller: &Caller) -> Result<Decision, Error> {
        let at = found.standing();
        let mut decision = decide(&at, &order.command, &caller.by, caller.reason.as_ref(), self.clock.now())?;
        if order.config.is_some() && !matches!(order.command, Command::Retry(_)) {
            return Err(Error::Invalid("a new config goes with a retry only".to_owned()));
        }
        let starts = matches!(decision.ask, Some(Request::Start(_)));
        if starts
            && let Some(holder) = &found.lock.holder
            && holder.task != found.row.task.id
            && !decision.facts.iter().any(|fact| matches!(fact, Fact::Approved(_)))
            && matches!(order.command, Command::Retry(_) | Command::Rollback { .. } | Command::Resume)
        {
            return Err(Refusal::Held(holder.clone()).into());
        }
        if decision.checkpoint.is_none() && decision.discarded.is_some() {
            decision.checkpoint = found.checkpoint.clone();
        }
        Ok(decision)
    }

    /// What the command will have come to.
    fn foresee(&self, found: &Found, decision: &Decision, caller: &Caller) -> Done {
        let mut control = found.row.control.clone();
        let mut task = found.row.task.clone();
        for fact in decision.facts.iter().cloned() {
            let event = self.about(&found.row.task, fact, self.clock.now());
            task = apply(Some(task.clone()), &event).unwrap_or(task);
        }
        let before = found.row.task.status;
        if task.status != before {
            control = Control::default();
        }
        if let Some(ask) = &decision.ask {
            control.ask(ask.clone());
        }
        let at = Standing { task: &task, control: &control, ..found.standing() };
        let (state, range) = (at.state(), start_of(decision).map(|start| start.range));
        let preview = caller.dry_run.then(|| {
            let names = |range: windlass_core::task::range::Range| {
                let names = &found.job.work.names;
                names.get(range.from as usize..range.to as usize).unwrap_or_default().to_vec()
            };
            let mut stages: Vec<StageName> = range.map(names).unwrap_or_default();
            if start_of(decision).is_some_and(|start| start.kind == StartKind::Rollback) && found.job.work.reverse {
                stages.reverse();
            }
            if start_of(decision).is_some_and(|start| start.kind == StartKind::Resume) {
                stages = found.job.work.names.iter().skip(task.completed as usize).cloned().collect();
            }
            let checkpoint = decision.checkpoint.clone().or_else(|| found.checkpoint.clone());
            Box::new(Preview { stages, checkpoint, lock: found.lock.holder.clone() })
        });
        Done {
            plan: task.plan.clone(),
            task: Some(task.id.clone()),
            state,
            asked: decision.ask.is_some(),
            range,
            discarded: decision.discarded.clone(),
            preview,
        }
    }

    fn task_step(
        &self,
        found: &Found,
        decision: &Decision,
        order: &Order,
        caller: &Caller,
        op: Op,
        done: &Done,
    ) -> Result<Step, Error> {
        let now = self.clock.now();
        let row = &found.row;
        let mut task = row.task.clone();
        let mut events = Vec::new();
        let mut changes = false;
        for fact in decision.facts.iter().cloned() {
            changes |= !fact.is_request();
            let mut event = self.about(&task, fact, now);
            (event.by, event.reason) = (Some(caller.by.clone()), caller.reason.clone());
            task = apply(Some(task), &event)?;
            events.push(event);
        }
        let plan = self.plan_with(found, decision, caller, &task, &mut events)?;
        // An owner that may be back goes no further with what a person has changed meanwhile.
        task.owner = None;
        let spec = order.config.clone().map(|config| {
            let mut spec = found.job.spec.clone();
            spec.config = Some(config);
            spec
        });
        let put = (changes || spec.is_some()).then(|| TaskPut {
            task,
            from: Statuses::of(&[row.task.status]),
            version: row.version,
            spec,
        });
        let ask = decision.ask.clone().map(|request| {
            // After the put, if there is one, the task stands where it leads.
            let from = put.as_ref().map_or(row.task.status, |put| put.task.status);
            Ask { task: row.task.id.clone(), from: Statuses::of(&[from]), request }
        });
        Ok(Step {
            op,
            by: Writer::Person(caller.by.clone()),
            plan,
            tasks: put.into_iter().collect(),
            checkpoint: decision.checkpoint.clone().map_or(CheckpointPut::Keep, CheckpointPut::Put),
            ask,
            events,
            answer: kept(done),
        })
    }

    /// What the command does to the plan: a retry or a rollback opens it again, a rejection may pause it.
    fn plan_with(
        &self,
        found: &Found,
        decision: &Decision,
        caller: &Caller,
        task: &Task,
        events: &mut Vec<Event>,
    ) -> Result<Option<PlanPut>, Error> {
        let reopens = start_of(decision).is_some_and(|start| start.kind != StartKind::Resume);
        let spec = &found.job.plan.spec;
        let (plan, version) = (&found.plan.plan, found.plan.version);
        if reopens && plan.cancelled && !plan.status.is_final() && found.row.task.status == TaskStatus::RollingBack {
            // What was being taken back when the plan was cancelled is taken back: nothing else ends either.
            return Ok(Some(PlanPut { plan: plan.touched(self.clock.now()), version, spec: None }));
        }
        if reopens {
            let command = plan_command::Command::Reopen { conductor: self.instance.clone() };
            let reopened = plan_command::decide(plan, found.conductor_gone, &command)?;
            let Some(fact) = reopened.facts.into_iter().next() else {
                return Ok(Some(PlanPut { plan: plan.touched(self.clock.now()), version, spec: None }));
            };
            let mut event = self.about_plan(&plan.id, fact);
            (event.by, event.reason) = (Some(caller.by.clone()), caller.reason.clone());
            let plan = apply_plan(Some(plan.clone()), spec, &event)?;
            events.push(event);
            return Ok(Some(PlanPut { plan, version, spec: None }));
        }
        let fails = decision.facts.iter().any(|fact| matches!(fact, Fact::TaskFailed { .. }));
        let pauses = spec.on_failure != windlass_core::plan::spec::OnFailure::Continue;
        if fails && pauses && plan.status == PlanStatus::Running {
            let (put, event) = self.paused_by(spec, found.plan.clone(), task)?;
            events.push(event);
            return Ok(Some(put));
        }
        Ok(None)
    }

    /// Wakes whom it concerns, and tells what has happened.
    fn after_task(&self, found: &Found, decision: &Decision, step: &Step, stepped: &Stepped) {
        let id = &found.row.task.id;
        // Said once it is so, and so once: not by a dry run, and not by every look at what others change.
        if let Some(why) = &decision.discarded {
            tracing::warn!(task = %id, why, "an invalid checkpoint is discarded");
        }
        let about_task: Vec<_> = step.events.iter().filter(|event| event.task.is_some()).cloned().collect();
        self.tell(about_task, stepped.seq, true);
        // An attempt that runs here knows before its next boundary; others are woken.
        self.set_control(id, &stepped.control, stepped.version);
        self.asked.notify_one();
        if step.plan.is_some() && step.events.iter().any(|event| matches!(event.fact, Fact::PlanPaused)) {
            self.plan_was_paused(&found.plan.plan.id, found.job.plan.spec.on_failure);
        }
        let hands_out = |plan: &Plan, gone: bool| plan.status == PlanStatus::Running && !gone;
        let handed_out = match &step.plan {
            Some(put) => hands_out(&put.plan, false),
            None => hands_out(&found.plan.plan, found.conductor_gone),
        };
        if start_of(decision).is_some() && !handed_out {
            // The plan hands out nothing: this instance was asked, so this instance takes it.
            self.queue.name(id.clone());
        }
        if step.tasks.iter().any(|put| !put.task.status.is_active()) {
            let held = windlass_core::lock::Held {
                tenant: found.row.task.tenant.clone(),
                task: id.clone(),
                fence: found.row.task.fence,
            };
            crate::shared::locked(&self.to_release).push(held);
            self.releasing.notify_one();
        }
        self.queue.wake();
        self.touch(&found.plan.plan.id);
    }

    /// The store does not answer: pause and cancel of a task that runs here are taken all the same, and
    /// written when it is back.
    fn ask_in_memory(self: &Arc<Self>, order: &Order, caller: &Caller, error: Error) -> Result<Done, Error> {
        use windlass_core::port::PortError;
        let Error::Port(PortError::Unavailable(why)) = &error else { return Err(error) };
        self.store_is_down(why);
        let hold =
            |cause| windlass_core::task::Hold { cause, by: Some(caller.by.clone()), reason: caller.reason.clone() };
        let request = match &order.command {
            Command::Pause(cause) => Request::Pause(hold(*cause)),
            Command::Cancel(cause) => Request::Cancel(hold(*cause)),
            _ => return Err(error),
        };
        let found = self.running_here(&order.which, |id, here| {
            Some((id.clone(), here.plan.clone(), here.signal.look(|signal| signal.control().clone())))
        });
        let Some((task, plan, mut control)) = found else { return Err(error) };
        control.ask(request);
        if !caller.dry_run {
            if let Some(here) = crate::shared::locked(&self.running).get(&task) {
                here.tell(&control);
            }
            let (engine, order, caller) = (Arc::clone(self), order.clone(), caller.clone());
            self.spawn(async move {
                engine.health.up().await;
                // By then it may have taken effect: a refusal is no news.
                drop(Box::pin(engine.command_task(&order, &caller)).await);
            });
        }
        let state = "asked for in memory: the store does not answer".to_owned();
        Ok(Done { task: Some(task), asked: true, ..Done::about_plan(&plan, state) })
    }

    /// Everything about a task, as it is stored now.
    pub(crate) async fn find(&self, which: &Which) -> Result<Found, Error> {
        let id = match which {
            Which::Task(id) => id.clone(),
            Which::Tenant(tenant) => {
                let none = || Refusal::NotFound(format!("a task of tenant {tenant}"));
                Counts::add(&self.counts.calls);
                match self.state.load(&[Key::Tenant(tenant.clone())]).await?.pop().flatten() {
                    Some(Row::Tenant(TenantRow { latest: Some(task), .. })) => task,
                    _ => return Err(none().into()),
                }
            }
        };
        let gone = || Refusal::NotFound(format!("task {id}"));
        Counts::add(&self.counts.calls);
        let Some(Row::Task(row)) = self.state.load(&[Key::Task(id.clone())]).await?.pop().flatten() else {
            return Err(gone().into());
        };
        let mut keys =
            vec![Key::Plan(row.task.plan.clone()), Key::Checkpoint(id.clone()), Key::Tenant(row.task.tenant.clone())];
        keys.extend(row.task.owner.clone().map(Key::Instance));
        Counts::add(&self.counts.calls);
        let mut rows = self.state.load(&keys).await?.into_iter();
        let Some(Row::Plan(plan)) = rows.next().flatten() else { return Err(gone().into()) };
        let checkpoint = match rows.next().flatten() {
            Some(Row::Checkpoint(checkpoint)) => Some(checkpoint),
            _ => None,
        };
        let tenant = match rows.next().flatten() {
            Some(Row::Tenant(tenant)) => tenant,
            _ => TenantRow::default(),
        };
        let lease_until = match rows.next().flatten() {
            Some(Row::Instance(instance)) => Some(instance.until),
            _ => None,
        };
        let job = self.jobs(&[(id.clone(), row.task.plan.clone())]).await?.pop().flatten().ok_or_else(gone)?;
        Counts::add(&self.counts.calls);
        let lock = self.locks.load(std::slice::from_ref(&row.task.tenant)).await?.pop();
        let lock = lock.unwrap_or(Tenant { tenant: row.task.tenant.clone(), holder: None, freeze: None });
        let lock = self.without_left_behind(lock).await?;
        let now = self.store_now();
        let retry_limit = job.spec.retry_limit.or(job.plan.spec.retry_limit).unwrap_or(self.options.retry_limit);
        Ok(Found {
            lease_expired: row.task.owner.is_none() || lease_until.is_none_or(|until| until <= now),
            lease_until,
            conductor_gone: self.conductor_gone(&plan.plan).await?,
            kept_until: plan.plan.ended_at.map(|ended| ended.plus(self.options.retention_ms)),
            row,
            plan,
            job,
            checkpoint,
            tenant,
            lock,
            retry_limit,
        })
    }

    /// A lock whose task has ended is nobody's.
    async fn without_left_behind(&self, mut lock: Tenant) -> Result<Tenant, Error> {
        if let Some(holder) = &lock.holder
            && self.is_left_behind(holder).await?
        {
            lock.holder = None;
        }
        Ok(lock)
    }

    /// Whether nobody alive conducts the plan.
    pub(crate) async fn conductor_gone(&self, plan: &Plan) -> Result<bool, Error> {
        let Some(conductor) = &plan.conductor else { return Ok(true) };
        if *conductor == self.instance {
            return Ok(false);
        }
        Counts::add(&self.counts.calls);
        Ok(match self.state.load(&[Key::Instance(conductor.clone())]).await?.pop().flatten() {
            Some(Row::Instance(row)) => row.until <= self.store_now(),
            _ => true,
        })
    }
}

fn start_of(decision: &Decision) -> Option<&Start> {
    match &decision.ask {
        Some(Request::Start(start)) => Some(start),
        _ => None,
    }
}
