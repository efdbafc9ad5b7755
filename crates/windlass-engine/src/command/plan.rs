//! What people do to a plan: start, pause, resume, cancel, and how that reaches every task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, PlanId, TenantId};
use windlass_core::plan::command::{Command, Decision, decide};
use windlass_core::plan::spec::OnConflict;
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::state::{
    Ask, CheckpointPut, Filter, Key, PlanPut, PlanRow, Row, Step, TaskPut, TaskRow, Writer,
};
use windlass_core::port::{PAGE_MAX, Refusal};
use windlass_core::projection::{apply, apply_plan};
use windlass_core::refused::Refused;
use windlass_core::task::command as task_command;
use windlass_core::task::command::{Retry, RetryFrom, Standing};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Cause, Control, Hold};
use windlass_core::time::Ms;

use super::task::{Order, Which};
use super::{Caller, Done, ROUNDS_MAX, kept, lasting};
use crate::error::Error;
use crate::run::plan::RUNS;
use crate::shared::{Counts, Shared};

/// What is wanted of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Hand out its tasks.
    Start,
    /// Hand out no more, and pause what runs.
    Pause,
    /// Go on; also what moves an interrupted plan.
    Resume,
    /// End it.
    Cancel,
}

/// What is done to the tasks of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    Pause,
    Resume,
    Cancel,
    CancelPending,
}

/// Sweeps over a plan until nothing is left to do, at most.
const SWEEPS_MAX: u32 = 50;
/// How long those that run here may take to pause by themselves. Most do: then they need not be asked through the
/// store, which would have as much to do with that as with their pausing.
const BY_THEMSELVES: Duration = Duration::from_millis(100);
/// Tasks of a sweep that are written together.
const SWEEP_STEPS: usize = 100;

impl Shared {
    /// Does what is wanted of a plan, and carries it to its tasks.
    pub(crate) async fn command_plan(
        self: &Arc<Self>,
        id: &PlanId,
        verb: Verb,
        caller: &Caller,
    ) -> Result<Done, Error> {
        let op = self.op_for(caller, &format!("{verb:?} {id}"));
        if let Some(done) = self.answered(caller, &op).await? {
            return Ok(done);
        }
        let conductor = self.instance.clone();
        let command = match verb {
            Verb::Start => Command::Start { conductor },
            Verb::Pause => Command::Pause,
            Verb::Resume => Command::Resume { conductor },
            Verb::Cancel => Command::Cancel,
        };
        for _ in 0..ROUNDS_MAX {
            let row = self.plan_row(id).await?;
            let gone = self.conductor_gone(&row.plan).await?;
            let decision = match decide(&row.plan, gone, &command) {
                Ok(decision) => decision,
                Err(refused) => return self.finish_sweep(&row.plan, verb, caller, refused).await,
            };
            if verb == Verb::Start && row.plan.on_conflict == OnConflict::Refuse {
                let tenants = self.tenants_of(id).await?;
                self.refuse_conflicts(Some(id), &tenants).await?;
            }
            let (step, plan) = self.plan_step(row, &decision, caller, op.clone()).await?;
            let done = Done::about_plan(id, plan.status.name().to_owned());
            if caller.dry_run {
                return Ok(done);
            }
            let step = Step { answer: kept(&done), ..step };
            match self.commit_one(&step).await? {
                Ok(stepped) => {
                    self.tell(step.events, stepped.seq, true);
                    self.carry(id, verb, caller).await?;
                    return Ok(lasting(&stepped, done));
                }
                Err(Refusal::Version { .. } | Refusal::State { .. }) => {}
                Err(refusal) => return Err(refusal.into()),
            }
        }
        Err(Error::Contended)
    }

    async fn plan_step(
        &self,
        row: PlanRow,
        decision: &Decision,
        caller: &Caller,
        op: windlass_core::port::state::Op,
    ) -> Result<(Step, Plan), Error> {
        let known = self.known(std::slice::from_ref(&row.plan.id)).await?.pop().flatten();
        let known = known.ok_or_else(|| Refusal::NotFound(format!("plan {}", row.plan.id)))?;
        let mut plan = row.plan;
        let mut events = Vec::new();
        for fact in decision.facts.iter().cloned() {
            let mut event = self.about_plan(&plan.id, fact);
            (event.by, event.reason) = (Some(caller.by.clone()), caller.reason.clone());
            plan = apply_plan(Some(plan), &known.spec, &event)?;
            events.push(event);
        }
        plan.cancelled |= decision.cancel;
        if decision.facts.is_empty() {
            plan = plan.touched(self.clock.now());
        }
        let step = Step {
            op,
            by: Writer::Person(caller.by.clone()),
            plan: Some(PlanPut { plan: plan.clone(), version: row.version, spec: None }),
            tasks: Vec::new(),
            checkpoint: CheckpointPut::Keep,
            ask: None,
            events,
            answer: None,
        };
        Ok((step, plan))
    }

    /// The plan is there already. If an earlier pause or resume did not reach every task, it does now.
    async fn finish_sweep(
        self: &Arc<Self>,
        plan: &Plan,
        verb: Verb,
        caller: &Caller,
        refused: Refused,
    ) -> Result<Done, Error> {
        let unfinished = match (verb, plan.status) {
            (Verb::Pause, PlanStatus::Paused) => Sweep::Pause,
            (Verb::Resume, PlanStatus::Running) if !plan.cancelled => Sweep::Resume,
            (Verb::Cancel, status) if plan.cancelled && !status.is_final() => Sweep::Cancel,
            _ => return Err(refused.into()),
        };
        let left = unfinished == Sweep::Cancel && !self.asked_of(&plan.id).await?.is_empty();
        if caller.dry_run
            || (!self.sweep_once(&plan.id, unfinished, &caller.by, caller.reason.as_ref()).await? && !left)
        {
            return Err(refused.into());
        }
        self.carry(&plan.id, verb, caller).await?;
        Ok(Done::about_plan(&plan.id, plan.status.name().to_owned()))
    }

    async fn carry(self: &Arc<Self>, id: &PlanId, verb: Verb, caller: &Caller) -> Result<(), Error> {
        let what = match verb {
            Verb::Start => None,
            Verb::Pause => Some(Sweep::Pause),
            Verb::Resume => Some(Sweep::Resume),
            Verb::Cancel => Some(Sweep::Cancel),
        };
        if let Some(what) = what {
            self.sweep(id, what, &caller.by, caller.reason.as_ref()).await?;
        }
        if verb == Verb::Cancel && self.plan_row(id).await?.plan.status != PlanStatus::Running {
            // What was asked for holds the plan open, and whoever was to begin it may be gone.
            for task in self.asked_of(id).await? {
                self.queue.name(task);
            }
        }
        self.queue.wake();
        self.touch(id);
        Ok(())
    }

    /// Reaches every task of a plan, whatever starts or ends meanwhile.
    pub(crate) async fn sweep(
        &self,
        plan: &PlanId,
        what: Sweep,
        by: &By,
        reason: Option<&Reason>,
    ) -> Result<(), Error> {
        if what != Sweep::Pause {
            self.hold_here(plan, None);
            return self.sweep_all(plan, what, by, reason).await;
        }
        let hold = Hold { cause: Cause::Plan, by: Some(by.clone()), reason: reason.cloned() };
        if self.hold_here(plan, Some(&hold)) {
            // Whoever has not paused by then is asked.
            drop(tokio::time::timeout(BY_THEMSELVES, self.until_drained(plan)).await);
        }
        let swept = match self.plan_row(plan).await {
            Ok(row) if row.plan.status == PlanStatus::Paused => self.sweep_all(plan, what, by, reason).await,
            // It was resumed meanwhile.
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        self.hold_here(plan, None);
        swept
    }

    async fn sweep_all(&self, plan: &PlanId, what: Sweep, by: &By, reason: Option<&Reason>) -> Result<(), Error> {
        for round in 0..SWEEPS_MAX {
            if !self.sweep_once(plan, what, by, reason).await? {
                return Ok(());
            }
            if round > 1 {
                crate::run::dispatch::pause(u64::from(round)).await;
            }
        }
        Err(Error::Contended)
    }

    /// One look at every task that may be concerned; `true` if there was something to do.
    async fn sweep_once(&self, plan: &PlanId, what: Sweep, by: &By, reason: Option<&Reason>) -> Result<bool, Error> {
        let statuses = match what {
            Sweep::Pause => Statuses::of(&[TaskStatus::Running]),
            Sweep::Resume => Statuses::of(&[TaskStatus::Running, TaskStatus::Paused]),
            Sweep::Cancel => Statuses::ALL,
            Sweep::CancelPending => Statuses::of(&[TaskStatus::Pending, TaskStatus::Paused]),
        };
        let (mut after, mut some) = (None, false);
        loop {
            let filter = Filter::Tasks { plan: Some(plan.clone()), tenant: None, statuses, interrupted: false };
            Counts::add(&self.counts.calls);
            let page = self.state.list(&filter, after.as_ref(), PAGE_MAX).await?;
            let rows: Vec<_> = page
                .items
                .into_iter()
                .filter_map(|row| match row {
                    Row::Task(row) => Some(*row),
                    _ => None,
                })
                .collect();
            some |= self.sweep_page(rows, what, by, reason).await?;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.asked.notify_one();
        self.queue.wake();
        Ok(some)
    }

    async fn sweep_page(
        &self,
        rows: Vec<TaskRow>,
        what: Sweep,
        by: &By,
        reason: Option<&Reason>,
    ) -> Result<bool, Error> {
        if what == Sweep::Cancel {
            // A retry that was asked for and has not begun would hold the plan open: whoever begins it finds
            // the plan cancelled, and ends it.
            let asked = rows.iter().filter(|row| !row.task.status.is_active() && row.control.start.is_some());
            asked.for_each(|row| self.queue.name(row.task.id.clone()));
        }
        let rows: Vec<_> = rows.into_iter().filter(|row| concerns(row, what, by)).collect();
        if rows.is_empty() {
            return Ok(false);
        }
        let leases = self.leases(rows.iter().filter_map(|row| row.task.owner.as_ref())).await?;
        let tenants: Vec<_> = rows.iter().map(|row| row.task.tenant.clone()).collect();
        let ids: Vec<_> = rows.iter().map(|row| (row.task.id.clone(), row.task.plan.clone())).collect();
        let jobs = self.jobs(&ids).await?;
        Counts::add(&self.counts.calls);
        let locks = self.locks.load(&tenants).await?;
        let now = self.store_now();
        let command = match what {
            Sweep::Pause => task_command::Command::Pause(Cause::Plan),
            Sweep::Resume => task_command::Command::Resume,
            Sweep::Cancel | Sweep::CancelPending => task_command::Command::Cancel(Cause::Plan),
        };
        let mut steps = Vec::new();
        for ((row, job), lock) in rows.iter().zip(jobs).zip(locks) {
            let Some(job) = job else { continue };
            let alive = row.task.owner.as_ref().and_then(|owner| leases.get(owner)).is_some_and(|until| *until > now);
            let at = Standing {
                task: &row.task,
                control: &row.control,
                lease_expired: !alive,
                latest: true,
                frozen: lock.freeze.is_some(),
                stages: &job.work.names,
                checkpoint: None,
                kept_until: None,
                can_take_back: false,
                retry_limit: 0,
            };
            // What the rules refuse here (a frozen tenant, an interrupted task) stays as it is.
            if let Ok(decision) = task_command::decide(&at, &command, by, reason, self.clock.now()) {
                steps.push(self.sweep_step(row, &decision, by, reason)?);
            }
        }
        self.commit_sweep(steps).await
    }

    fn sweep_step(
        &self,
        row: &TaskRow,
        decision: &task_command::Decision,
        by: &By,
        reason: Option<&Reason>,
    ) -> Result<Step, Error> {
        let mut task = row.task.clone();
        let (mut events, mut changes) = (Vec::new(), false);
        for fact in decision.facts.iter().cloned() {
            changes |= !fact.is_request();
            let mut event = self.about(&task, fact, self.clock.now());
            (event.by, event.reason) = (Some(by.clone()), reason.cloned());
            task = apply(Some(task), &event)?;
            events.push(event);
        }
        let from = Statuses::of(&[row.task.status]);
        let put = TaskPut { task, from, version: row.version, spec: None };
        Ok(Step {
            op: self.op(),
            by: Writer::Person(by.clone()),
            plan: None,
            tasks: changes.then_some(put).into_iter().collect(),
            checkpoint: CheckpointPut::Keep,
            ask: decision.ask.clone().map(|request| Ask { task: row.task.id.clone(), from, request }),
            events,
            answer: None,
        })
    }

    /// Refusals are for the next look: somebody else moved those tasks. A few at a time: while they are written,
    /// their owners wait.
    async fn commit_sweep(&self, mut steps: Vec<Step>) -> Result<bool, Error> {
        let some = !steps.is_empty();
        while !steps.is_empty() {
            let rest = steps.split_off(steps.len().min(SWEEP_STEPS));
            self.commit_swept(std::mem::replace(&mut steps, rest)).await?;
        }
        Ok(some)
    }

    async fn commit_swept(&self, steps: Vec<Step>) -> Result<(), Error> {
        Counts::add(&self.counts.calls);
        let answers = self.state.commit(&steps).await?;
        for (step, answer) in steps.into_iter().zip(answers) {
            if let Ok(stepped) = answer {
                let ended = step.tasks.iter().find(|put| !put.task.status.is_active());
                if let Some(put) = ended.filter(|put| put.task.fence > windlass_core::fence::Fence::NONE) {
                    let (tenant, task) = (put.task.tenant.clone(), put.task.id.clone());
                    let held = windlass_core::lock::Held { tenant, task, fence: put.task.fence };
                    crate::shared::locked(&self.to_release).push(held);
                    self.releasing.notify_one();
                }
                if let Some(ask) = &step.ask {
                    self.set_control(&ask.task, &stepped.control, stepped.version);
                }
                self.tell(step.events, stepped.seq, true);
            }
        }
        Ok(())
    }

    /// Until when these instances' leases run.
    pub(crate) async fn leases<'a>(
        &self,
        owners: impl Iterator<Item = &'a InstanceId>,
    ) -> Result<BTreeMap<InstanceId, Ms>, Error> {
        let mut owners: Vec<_> = owners.cloned().collect();
        owners.sort_unstable();
        owners.dedup();
        if owners.is_empty() {
            return Ok(BTreeMap::new());
        }
        let keys: Vec<_> = owners.into_iter().map(Key::Instance).collect();
        Counts::add(&self.counts.calls);
        let rows = self.state.load(&keys).await?;
        Ok(rows
            .into_iter()
            .filter_map(|row| match row {
                Some(Row::Instance(row)) => Some((row.id, row.until)),
                _ => None,
            })
            .collect())
    }

    pub(crate) async fn plan_row(&self, id: &PlanId) -> Result<PlanRow, Error> {
        Counts::add(&self.counts.calls);
        match self.state.load(&[Key::Plan(id.clone())]).await?.pop().flatten() {
            Some(Row::Plan(row)) => Ok(row),
            _ => Err(Refusal::NotFound(format!("plan {id}")).into()),
        }
    }

    async fn tenants_of(&self, plan: &PlanId) -> Result<Vec<TenantId>, Error> {
        let (mut after, mut tenants) = (None, Vec::new());
        loop {
            let (plan, statuses) = (Some(plan.clone()), Statuses::ALL);
            let filter = Filter::Tasks { plan, tenant: None, statuses, interrupted: false };
            Counts::add(&self.counts.calls);
            let page = self.state.list(&filter, after.as_ref(), PAGE_MAX).await?;
            tenants.extend(page.items.into_iter().filter_map(|row| match row {
                Row::Task(row) => Some(row.task.tenant),
                _ => None,
            }));
            after = page.next;
            if after.is_none() {
                return Ok(tenants);
            }
        }
    }

    /// `on_conflict: refuse`: says which tenants are locked by whom, a few of them.
    pub(crate) async fn refuse_conflicts(&self, plan: Option<&PlanId>, tenants: &[TenantId]) -> Result<(), Error> {
        let mut conflicts = Vec::new();
        for chunk in tenants.chunks(PAGE_MAX as usize) {
            Counts::add(&self.counts.calls);
            for lock in self.locks.load(chunk).await? {
                let Some(holder) = lock.holder.filter(|holder| Some(&holder.plan) != plan) else { continue };
                if conflicts.len() < 20 && !self.is_left_behind(&holder).await? {
                    conflicts.push(Refusal::Held(holder).to_string());
                }
            }
        }
        match conflicts.is_empty() {
            true => Ok(()),
            false => Err(Error::Conflict(conflicts)),
        }
    }

    /// `recovery: auto`: what was interrupted goes on, counted as retries.
    pub(crate) async fn take_up(self: &Arc<Self>, plan: &PlanId) -> Result<(), Error> {
        let filter = Filter::Tasks { plan: Some(plan.clone()), tenant: None, statuses: RUNS, interrupted: true };
        Counts::add(&self.counts.calls);
        let page = self.state.list(&filter, None, PAGE_MAX).await?;
        for row in page.items {
            let Row::Task(row) = row else { continue };
            if row.control.start.is_some() {
                continue;
            }
            let command = match row.task.status {
                TaskStatus::RollingBack => task_command::Command::Rollback { force: false },
                _ => task_command::Command::Retry(Retry {
                    from: RetryFrom::Checkpoint,
                    restart_if_invalid: false,
                    force: false,
                }),
            };
            let caller = Caller { reason: "recovery: auto".parse().ok(), ..Caller::new(self.me.clone()) };
            let order = Order { which: Which::Task(row.task.id.clone()), command, config: None };
            match Box::pin(self.command_task(&order, &caller)).await {
                Ok(_) => {}
                Err(Error::Port(error)) => return Err(error.into()),
                // A limit or a rule says no: it waits in the inbox.
                Err(error) => tracing::warn!(task = %row.task.id, %error, "it is not taken up again"),
            }
        }
        Ok(())
    }
}

/// Whether a look concerns the task at all.
fn concerns(row: &TaskRow, what: Sweep, by: &By) -> bool {
    let Control { pause, cancel, start, .. } = &row.control;
    let hold = row.task.hold.as_ref();
    match (what, row.task.status) {
        (Sweep::Pause, _) => pause.is_none() && cancel.is_none(),
        (Sweep::Resume, TaskStatus::Running) => pause.as_ref().is_some_and(|hold| hold.cause == Cause::Plan),
        (Sweep::Resume, _) => start.is_none() && hold.is_some_and(|hold| hold.cause == Cause::Plan),
        // It was being claimed when its plan stopped, and stopped itself before its first stage.
        (Sweep::CancelPending, TaskStatus::Paused) => {
            let by_engine = hold.is_some_and(|hold| hold.cause == Cause::Plan && hold.by.as_ref() == Some(by));
            start.is_none() && by_engine && row.task.completed == 0
        }
        // One that was asked to end may have lost its instance before it could: the rules tell them apart.
        (Sweep::Cancel | Sweep::CancelPending, status) => {
            matches!(status, TaskStatus::Pending | TaskStatus::Running | TaskStatus::Paused)
        }
    }
}
