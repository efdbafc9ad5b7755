//! Why a plan or a task is not moving, and what to do.

use serde::Serialize;
use windlass_core::event::{Event, Fact};
use windlass_core::id::PlanId;
use windlass_core::lock::Holder;
use windlass_core::plan::command::possible;
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::PortError;
use windlass_core::stage::Action;
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Cause, Hold, Task};

use crate::Engine;
use crate::command::task::{Found, Which};
use crate::error::Error;
use crate::shared::locked;

/// One cause, in words, with what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// A word for programs.
    pub cause: &'static str,
    /// For people.
    pub text: String,
    /// Commands that would be taken now.
    pub possible: Vec<&'static str>,
}

impl Why {
    fn new(cause: &'static str, text: String, possible: Vec<&'static str>) -> Why {
        Why { cause, text, possible }
    }
}

impl Engine {
    /// Why a task is not moving; what it does, if it is.
    pub async fn why_task(&self, which: &Which) -> Result<Why, Error> {
        if let Some(why) = self.why_in_memory(which) {
            return Ok(why);
        }
        let found = self.0.find(which).await?;
        let at = found.standing();
        let possible = at.possible();
        let task = &found.row.task;
        let mut why = match task.status {
            _ if at.interrupted() => Why::new("interrupted", interrupted(&found), possible),
            _ if found.row.control.start.is_some() => self.why_not_begun(&found, possible).await?,
            TaskStatus::Pending => self.why_pending(&found, possible).await?,
            TaskStatus::Running => match self.no_worker(&found).await? {
                Some(text) => Why::new("noWorker", format!("{}; {text}", self.why_running(&found)), possible),
                None => Why::new("running", self.why_running(&found), possible),
            },
            TaskStatus::RollingBack => Why::new("rollingBack", "it is being taken back".to_owned(), possible),
            TaskStatus::Paused => paused(task, possible),
            TaskStatus::Failed => Why::new("failed", failed("failed", task), possible),
            TaskStatus::RollbackFailed => Why::new("rollbackFailed", failed("could not be taken back", task), possible),
            TaskStatus::Cancelled => Why::new("cancelled", held("cancelled", task.hold.as_ref()), possible),
            TaskStatus::Completed => Why::new("completed", "every stage is done".to_owned(), possible),
            TaskStatus::RolledBack => Why::new("rolledBack", "its stages are taken back".to_owned(), possible),
        };
        if let Some((at, dropped)) = locked(&self.0.dropped).get(&task.id) {
            why.text += &format!("; state kept in memory was dropped at {at}: {dropped}");
        }
        let rests = !task.status.is_running() && task.status != TaskStatus::Pending;
        if rests && found.row.control.start.is_none() {
            why.text += &never_begun(&self.task_history(&Which::Task(task.id.clone())).await?);
        }
        Ok(why)
    }

    /// The store does not have what the task is doing.
    fn why_in_memory(&self, which: &Which) -> Option<Why> {
        let since = self.0.running_here(which, |_, here| Some(here.unsaved.as_ref()?.since))?;
        let text = format!("its state is held in memory since {since}: the store is unreachable");
        Some(Why::new("unsaved", text, vec!["pause", "cancel"]))
    }

    async fn why_not_begun(&self, found: &Found, possible: Vec<&'static str>) -> Result<Why, Error> {
        let Some(start) = &found.row.control.start else { return Ok(Why::new("asked", String::new(), possible)) };
        let asked = format!("{} was asked for by {}", start.kind.verb(), start.by);
        let plan = &found.plan.plan;
        if found.row.task.status.is_running() {
            let back = "the instance that was lost is back and goes on, and it begins only if that one is lost again";
            return Ok(Why::new("running", format!("{}; {asked}; {back}", self.why_running(found)), possible));
        }
        Ok(match (&found.lock.holder, &found.lock.freeze) {
            (_, Some(freeze)) => {
                Why::new("frozen", format!("{asked}; the tenant was frozen by {}", freeze.by), possible)
            }
            (Some(holder), _) if holder.task != found.row.task.id => {
                Why::new("locked", format!("{asked}; {}", locked_by(holder)), possible)
            }
            _ if plan.status == PlanStatus::Paused => Why::new(
                "planPaused",
                format!("{asked}; its plan is paused, resume it if nobody takes it up"),
                possible,
            ),
            _ if found.conductor_gone => {
                Why::new("planInterrupted", format!("{asked}; nobody conducts its plan, resume the plan"), possible)
            }
            _ => match self.why_no_slot(found).await? {
                Some(text) => Why::new("slot", format!("{asked}; {text}"), possible),
                None => Why::new("asked", format!("{asked}; it begins when an instance has room"), possible),
            },
        })
    }

    /// Whether other tasks have all of the plan's slots: one that is interrupted keeps its own.
    async fn why_no_slot(&self, found: &Found) -> Result<Option<String>, Error> {
        let plan = &found.plan.plan;
        let tasks = self.tasks_of(&plan.id, &TaskStatus::ALL).await?;
        let others = tasks.iter().filter(|row| row.task.takes_slot() && row.task.id != found.row.task.id).count();
        let full = others >= plan.max_concurrency as usize;
        Ok(full.then(|| {
            format!("it waits for one of its plan's {} slots; {others} tasks have them", plan.max_concurrency)
        }))
    }

    async fn why_pending(&self, found: &Found, possible: Vec<&'static str>) -> Result<Why, Error> {
        let plan = &found.plan.plan;
        let task = &found.row.task;
        let why = |cause, text| Ok(Why::new(cause, text, possible.clone()));
        if let Some(freeze) = &found.lock.freeze {
            return why("frozen", format!("the tenant was frozen by {} at {}", freeze.by, freeze.at));
        }
        match plan.status {
            PlanStatus::Ready => return why("planReady", format!("its plan {} has not been started", plan.id)),
            PlanStatus::Paused => return why("planPaused", format!("its plan {} is paused", plan.id)),
            _ if found.conductor_gone => {
                return why("planInterrupted", format!("nobody conducts its plan {}: resume the plan", plan.id));
            }
            _ => {}
        }
        if let Some(holder) = found.lock.holder.as_ref().filter(|holder| holder.task != task.id) {
            return why("locked", locked_by(holder));
        }
        if let Some(text) = self.why_no_slot(found).await? {
            return why("slot", text);
        }
        why("turn", "its turn has not come: it starts when an instance has room".to_owned())
    }

    /// Whether the stage that runs is a job and nobody is there to do it.
    async fn no_worker(&self, found: &Found) -> Result<Option<String>, Error> {
        let stage = found.row.task.stage.and_then(|index| found.job.work.stages.get(index as usize));
        let (Some(Action::Job(job)), Some(queues)) = (stage.map(|stage| &stage.action), &self.0.queues) else {
            return Ok(None);
        };
        let there = match queues.worker_there(&job.queue).await {
            Ok(there) => there,
            // What state knows is said all the same.
            Err(Error::Port(PortError::Unavailable(_))) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok((!there).then(|| format!("no worker for queue {}: start one", job.queue)))
    }

    fn why_running(&self, found: &Found) -> String {
        let task = &found.row.task;
        let names = &found.job.work.names;
        let stage = task.stage.and_then(|index| names.get(index as usize)).map_or("none", |name| name.as_str());
        let on = task.owner.as_ref().map_or_else(String::new, |owner| format!(" on instance {owner}"));
        match (&found.row.control.cancel, &found.row.control.pause) {
            (Some(hold), _) => format!("{}; stage {stage} still runs{on}", held("cancelling", Some(hold))),
            (None, Some(hold)) => format!("{}; stage {stage} still runs{on}", held("pausing", Some(hold))),
            (None, None) => format!("stage {stage} runs{on}"),
        }
    }

    /// Why a plan is not moving; what it does, if it is.
    pub async fn why_plan(&self, id: &PlanId) -> Result<Why, Error> {
        let view = self.view_plan(id).await?;
        let plan = &view.plan;
        let possible = possible(plan, view.interrupted);
        let active = view.tally.active();
        Ok(match plan.status {
            _ if view.interrupted => Why::new("interrupted", self.plan_interrupted(plan).await?, possible),
            status if plan.cancelled && !status.is_final() => {
                let text =
                    format!("it was cancelled; {active} tasks have not ended yet, cancel it again to reach them");
                Why::new("cancelling", text, possible)
            }
            PlanStatus::Ready => Why::new("ready", "it has not been started".to_owned(), possible),
            PlanStatus::Paused => Why::new("paused", self.plan_paused(plan).await?, possible),
            PlanStatus::Running => Why::new("running", self.plan_running(id, active).await?, possible),
            ended => Why::new("ended", format!("it is {ended}"), possible),
        })
    }

    async fn plan_interrupted(&self, plan: &Plan) -> Result<String, Error> {
        let Some(conductor) = &plan.conductor else { return Ok("nobody conducts it; resume it".to_owned()) };
        let leases = self.0.leases(std::iter::once(conductor)).await?;
        Ok(match leases.get(conductor) {
            Some(until) => format!("the lease of its conductor {conductor} expired at {until}; resume it"),
            None => format!("its conductor {conductor} is gone; resume it"),
        })
    }

    async fn plan_paused(&self, plan: &Plan) -> Result<String, Error> {
        let history = self.plan_history(&plan.id).await?;
        let paused = history.iter().rev().find(|event| matches!(event.fact, Fact::PlanPaused));
        Ok(match paused {
            Some(event) => {
                let by = event.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
                let reason = event.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
                format!("paused{by} at {}{reason}", event.at)
            }
            None => "it is paused".to_owned(),
        })
    }

    /// What its tasks wait for, counted.
    async fn plan_running(&self, id: &PlanId, active: u32) -> Result<String, Error> {
        let paused = self.tasks_of(id, &[TaskStatus::Paused]).await?;
        let approvals = paused.iter().filter(|row| cause(&row.task) == Some(Cause::Approval)).count();
        let interrupted = self.interrupted_of(id).await?;
        Ok(format!(
            "{active} tasks have not ended: {interrupted} interrupted, {approvals} wait for an approval, {} paused otherwise",
            paused.len() - approvals
        ))
    }
}

fn cause(task: &Task) -> Option<Cause> {
    task.hold.as_ref().map(|hold| hold.cause)
}

fn interrupted(found: &Found) -> String {
    match (&found.row.task.owner, found.lease_until) {
        (Some(owner), Some(until)) => format!("interrupted: the lease of instance {owner} expired at {until}"),
        (Some(owner), None) => format!("interrupted: instance {owner} is gone"),
        (None, _) => "interrupted: the instance that ran it let it go".to_owned(),
    }
}

fn paused(task: &Task, possible: Vec<&'static str>) -> Why {
    match cause(task) {
        Some(Cause::Approval) => Why::new("approval", "an approval is wanted".to_owned(), possible),
        _ => Why::new("paused", held("paused", task.hold.as_ref()), possible),
    }
}

fn held(what: &str, hold: Option<&Hold>) -> String {
    let Some(hold) = hold else { return what.to_owned() };
    let by = hold.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    let reason = hold.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
    let cause = match hold.cause {
        Cause::Plan => ", with its plan",
        Cause::Freeze => ", its tenant is frozen",
        Cause::Conflict => ", its tenant was locked",
        Cause::Person | Cause::Approval => "",
    };
    format!("{what}{by}{cause}{reason}")
}

/// What was asked for while the task was interrupted and came to nothing, because its instance was not lost after all.
fn never_begun(history: &[Event]) -> String {
    let is_start = |fact: &Fact| matches!(fact, Fact::TaskRetryRequested | Fact::TaskRollbackRequested);
    let Some(place) = history.iter().rposition(|event| is_start(&event.fact)) else { return String::new() };
    let begins =
        |fact: &Fact| matches!(fact, Fact::TaskRetryStarted(_) | Fact::TaskRollingBack(_) | Fact::TaskResumed(_));
    if history[place..].iter().any(|event| begins(&event.fact)) {
        return String::new();
    }
    let asked = &history[place];
    let verb = if asked.fact == Fact::TaskRetryRequested { "retry" } else { "rollback" };
    let by = asked.by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
    format!("; {verb} was asked for{by} at {} and dropped: the task moved on without it", asked.at)
}

fn failed(what: &str, task: &Task) -> String {
    match &task.failure {
        Some(failure) => format!("stage {} {what}: {}", failure.stage, failure.message),
        None => format!("it {what}"),
    }
}

fn locked_by(holder: &Holder) -> String {
    format!("the tenant is locked by task {} of plan {} since {}", holder.task, holder.plan, holder.since)
}
