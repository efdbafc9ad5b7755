//! One attempt: the first commit under its fence, the resume point, stages with one commit at each
//! boundary, and the lock given back. Claim and lock come before it ([`super::dispatch`]); what a
//! stage's run is, is in [`super::stages`]; what the store knows of it, in [`super::ledger`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use windlass_core::by::{By, Reason};
use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{At, Event, Fact};
use windlass_core::failure::{Failure, FailureKind};
use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::lock::{Held, Holder};
use windlass_core::plan::PlanStatus;
use windlass_core::plan::spec::OnFailure;
use windlass_core::port::PortError;
use windlass_core::port::state::{CheckpointPut, Key, PlanRow, Row, TaskRow};
use windlass_core::projection::{Misfit, apply};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Cause, Hold, Start, Task, advance};
use windlass_core::time::Ms;

use super::ledger::Ledger;
use super::work::Job;
use crate::bus::News;
use crate::shared::{Counts, Running, Shared, locked};
use crate::stage::{Signal, Signals};

/// One run of a task over a range of its stages.
pub(crate) struct Attempt {
    pub(super) engine: Arc<Shared>,
    pub(super) task: Task,
    pub(super) job: Job,
    pub(super) checkpoint: Box<Checkpoint>,
    pub(super) fence: Fence,
    pub(super) ledger: Ledger,
    pub(super) signal: Arc<Signals>,
    /// When the tenant lock may have run out, by a clock that nobody sets.
    pub(super) lock_end: Arc<Mutex<Instant>>,
    start: Option<Box<Start>>,
    /// A person named the task while its plan handed out nothing.
    named: bool,
    /// Of the task when it was claimed.
    version: u64,
    /// The checkpoint was read: before that it is the store's alone.
    resumed: bool,
    /// Its plan has fewer slots than tasks, or has not been looked at yet: another task may wait for this one's slot.
    scarce: bool,
}

/// Why an attempt ends without having reached an end of its task. It writes nothing more.
#[derive(Debug)]
pub(super) enum Stop {
    /// The store answered: somebody else owns the task.
    Lost(String),
    /// The tenant lock may have run out while the store did not answer.
    LockRanOut,
    /// What is stored contradicts the rules, or cannot be read.
    Broken(String),
    /// The plan was changed in between: decide again.
    PlanMoved,
    /// The instance is stopping.
    Leaving,
}

/// Why an attempt stops that was told so while it ran.
pub(super) const NOT_ITS_OWN: &str = "somebody else owns the task, or its tenant lock was taken away";

/// What is found once the attempt's fence stands.
enum Point {
    /// Work goes on.
    Onward,
    /// The plan does not want it any more.
    Halt(Fact),
    /// Work cannot go on from what is stored.
    Invalid(String),
}

impl From<Misfit> for Stop {
    fn from(misfit: Misfit) -> Self {
        Stop::Broken(misfit.to_string())
    }
}

impl Attempt {
    /// An attempt of a task that was claimed and whose tenant lock was granted, at `asked`, to `holder`.
    pub(crate) fn new(
        engine: &Arc<Shared>,
        mut row: TaskRow,
        mut job: Job,
        holder: &Holder,
        asked: Instant,
        named: bool,
    ) -> Box<Attempt> {
        let lock_ms = std::time::Duration::from_millis(engine.options.lock_ms);
        let lock_end = Arc::new(Mutex::new(asked + lock_ms));
        let signal = Arc::new(Signals::new(Signal::from(&row.control)));
        // An attempt may wait for hours, among thousands: what it shares with others it does not keep for itself.
        row.task.plan = job.plan.id.clone();
        row.task.owner = row.task.owner.map(|_| engine.instance.clone());
        job.spec.stages = None;
        let now = engine.clock.now();
        let mut checkpoint = Box::new(Checkpoint::new(row.task.pass, now));
        if let Some(context) = &row.task.context {
            checkpoint.context_data = context.clone();
        }
        Box::new(Attempt {
            engine: Arc::clone(engine),
            start: row.control.start.map(Box::new),
            ledger: Ledger::new(row.task.status, row.checkpoint),
            task: row.task,
            job,
            checkpoint,
            fence: holder.fence,
            signal,
            lock_end,
            named,
            version: row.version,
            resumed: false,
            scarce: true,
        })
    }

    /// From now on it is known as running here.
    pub(crate) fn enter(&self) {
        let running = Running {
            tenant: self.task.tenant.clone(),
            plan: self.task.plan.clone(),
            fence: self.fence,
            signal: Arc::clone(&self.signal),
            lock_end: Arc::clone(&self.lock_end),
            // An answer to an earlier attempt does not count here, one to this one's first commit does.
            told: (self.version + 1, self.engine.tellings.fetch_add(1, Ordering::Relaxed)),
            unsaved: None,
        };
        self.engine.joined(&self.task.plan);
        self.engine.writing.joined();
        locked(&self.engine.running).insert(self.task.id.clone(), running);
    }

    /// Carries it out, gives the lock back if the task has ended, and says that it is over.
    pub(crate) async fn run(mut self: Box<Self>) {
        match self.carry_out().await {
            Ok(()) => {
                self.ended();
                Box::pin(self.rejoin()).await;
            }
            Err(stop) => Box::pin(self.stopped(&stop)).await,
        }
        let engine = &self.engine;
        let (others, of_plan) = {
            let mut running = locked(&engine.running);
            // The next attempt of the same task may have begun since the last commit.
            if running.get(&self.task.id).is_some_and(|here| here.fence == self.fence) {
                running.remove(&self.task.id);
            }
            (running.len(), engine.left(&self.task.plan))
        };
        // A plan of which something still runs here cannot be over.
        if of_plan == 0 {
            engine.touch(&self.task.plan);
        }
        // There was no room here, or none in the plan. Where others have its slots too, the store says when it has one.
        let was_full = self.scarce && of_plan + 1 >= self.job.plan.spec.max_concurrency;
        if others + 1 >= engine.options.tasks_max as usize || was_full {
            engine.queue.wake();
        }
        engine.writes_no_more();
        if others == 0 {
            engine.idle.notify_waiters();
        }
    }

    async fn carry_out(&mut self) -> Result<(), Stop> {
        let instance = self.engine.instance.clone();
        let begin = advance::begin(&self.task, self.start.as_deref(), instance, self.fence);
        let Some(begin) = begin else {
            return Err(Stop::Broken(format!("nothing was asked of the task, which is {}", self.task.status)));
        };
        let retries = matches!(begin, Fact::TaskRetryStarted(_));
        let mut next = self.boundary(vec![begin]).await?;
        self.start = None;
        if retries {
            // Whoever draws a bar sees where it begins again, without waiting for the next beat.
            let Task { id, completed, stages, .. } = &self.task;
            self.engine.bus.tell(News::TaskProgress { task: id.clone(), completed: *completed, stages: *stages });
        }
        if self.task.status.is_running() {
            next = match Box::pin(self.resume_point()).await? {
                Point::Onward if next.is_some() => next,
                // Every stage was done before: the end comes now, with the context that was read.
                Point::Onward => self.boundary(Vec::new()).await?,
                Point::Halt(fact) => self.boundary(vec![fact]).await?,
                Point::Invalid(why) => self.boundary(self.cannot_go_on(&why, next)?).await?,
            };
        }
        while let Some(at) = next {
            // What came with the answer takes effect before the announced stage runs.
            let facts = match self.halt() {
                Some(halt) => vec![halt],
                None if self.signal.look(|signal| signal.leaving) => return Err(Stop::Leaving),
                None => {
                    self.engine.writes_no_more();
                    let facts = self.stage(&at).await;
                    self.engine.writing.joined();
                    facts?
                }
            };
            next = self.boundary(facts).await?;
        }
        Ok(())
    }

    /// The task fails where it stands: in the stage that is announced, or after its last one.
    fn cannot_go_on(&self, why: &str, next: Option<At>) -> Result<Vec<Fact>, Stop> {
        let failed = |at: &At| self.failure(FailureKind::Persistence, why, at);
        match (next, self.job.work.names.last()) {
            (Some(at), _) => {
                let failure = failed(&at);
                Ok(advance::ended(&self.task, at, advance::Outcome::Failed(failure)))
            }
            (None, Some(stage)) => {
                let at = At { index: self.task.completed, stage: stage.clone() };
                Ok(vec![Fact::TaskFailed { failure: failed(&at) }])
            }
            (None, None) => Err(Stop::Broken(why.to_owned())),
        }
    }

    /// One commit: what has happened, and what comes next with it. Answers the stage to run, if any. On the
    /// heap: a task that waits in a stage, perhaps for hours, does not keep room for its next boundary.
    fn boundary(&mut self, facts: Vec<Fact>) -> impl Future<Output = Result<Option<At>, Stop>> + Send + '_ {
        Box::pin(self.commit_boundary(facts))
    }

    async fn commit_boundary(&mut self, facts: Vec<Fact>) -> Result<Option<At>, Stop> {
        let engine = Arc::clone(&self.engine);
        // Whoever stops here had its turn just now, when it learned that it is to.
        let _turn = match facts[..] {
            [Fact::TaskPaused { .. } | Fact::TaskCancelled { .. }] => None,
            _ => engine.turn().await,
        };
        if Instant::now() >= *locked(&self.lock_end) {
            return Err(Stop::LockRanOut);
        }
        if self.signal.look(|signal| signal.is_lost(self.fence)) {
            return Err(Stop::Lost(NOT_ITS_OWN.to_owned()));
        }
        let now = self.engine.clock.now();
        let mut task = self.task.clone();
        let mut events = Vec::with_capacity(facts.len() + 1);
        for fact in facts {
            task = self.happened(task, fact, now, &mut events)?;
        }
        let mut next = None;
        if task.status.is_running() {
            let control = self.signal.look(Signal::wanted);
            let context = Some(&self.checkpoint.context_data);
            let fact = advance::onward(&task, &self.job.work.names, &control, self.job.work.reverse, context);
            if let Fact::StageStarted(at) = &fact {
                next = Some(at.clone());
            }
            // The first commit only begins: no task ends before its checkpoint was read.
            if next.is_some() || self.resumed {
                task = self.happened(task, fact, now, &mut events)?;
            }
        }
        let checkpoint = self.checkpoint_put(&task, now);
        self.commit(task, checkpoint, events).await?;
        // What could not be stored may have failed meanwhile.
        Ok(next.filter(|_| self.task.status.is_running()))
    }

    /// Applies a fact to the task, and to the checkpoint what it says of stages.
    fn happened(&mut self, task: Task, fact: Fact, now: Ms, events: &mut Vec<Event>) -> Result<Task, Misfit> {
        match &fact {
            Fact::StageFailed { failure, .. } => self.checkpoint.remember(failure.clone()),
            // What a stage returned went in when it ended; see `stages`.
            Fact::StageSkipped(at) if task.status == TaskStatus::Running => {
                drop(self.checkpoint.complete(&at.stage, None, 0));
            }
            _ => {}
        }
        let mut event = self.engine.about(&task, fact, now);
        self.sign(&mut event);
        let task = apply(Some(task), &event)?;
        events.push(event);
        Ok(task)
    }

    /// Who stands behind a fact, and why: whoever asked for it.
    fn sign(&self, event: &mut Event) {
        let control = &self.signal.look(Signal::wanted);
        let (by, reason) = match &event.fact {
            Fact::TaskPaused { cause: Cause::Approval } => return,
            Fact::TaskPaused { .. } => self.signed(control.pause.as_ref()),
            Fact::TaskCancelled { .. } => self.signed(control.cancel.as_ref()),
            Fact::StageSkipped(at) => match &control.skip {
                Some(skip) if skip.stage == at.index => (Some(skip.by.clone()), skip.reason.clone()),
                _ => return,
            },
            Fact::TaskResumed(_) | Fact::TaskRetryStarted(_) | Fact::TaskRollingBack(_) => match &self.start {
                Some(start) => (Some(start.by.clone()), start.reason.clone()),
                None => return,
            },
            _ => return,
        };
        (event.by, event.reason) = (by, reason);
    }

    fn signed(&self, hold: Option<&Hold>) -> (Option<By>, Option<Reason>) {
        hold.map_or((Some(self.engine.me.clone()), None), |hold| (hold.by.clone(), hold.reason.clone()))
    }

    /// What becomes of the checkpoint now that the task stands here. A rollback keeps its own progress
    /// in the task and leaves the checkpoint alone.
    pub(super) fn checkpoint_put(&mut self, task: &Task, now: Ms) -> CheckpointPut {
        match task.status {
            TaskStatus::Completed | TaskStatus::RolledBack => CheckpointPut::Remove,
            TaskStatus::RollingBack | TaskStatus::RollbackFailed => CheckpointPut::Keep,
            _ if !self.resumed => CheckpointPut::Keep,
            _ => {
                let checkpoint = &mut self.checkpoint;
                checkpoint.saved_at = now;
                checkpoint.fence = self.fence;
                checkpoint.pass = task.pass;
                checkpoint.executor_instance = Some(self.engine.instance.clone());
                checkpoint.version = self.ledger.checkpoint() + 1;
                CheckpointPut::Put((**checkpoint).clone())
            }
        }
    }

    /// What is stored once this attempt's fence stands: the checkpoint to go on from, and whether the
    /// plan still wants it.
    async fn resume_point(&mut self) -> Result<Point, Stop> {
        // Whatever the policy: before the fence stands, somebody else may still change what is read here.
        self.catch_up(true).await?;
        let plan = self.plan_now().await?;
        self.scarce = plan.as_ref().is_none_or(|row| row.plan.is_short_of_slots());
        let stored = match self.ledger.checkpoint() {
            0 => None,
            _ => self.load(&Key::Checkpoint(self.task.id.clone())).await?,
        };
        let rolling = self.task.status == TaskStatus::RollingBack;
        self.resumed = true;
        match stored {
            Some(Row::Checkpoint(stored)) => *self.checkpoint = stored,
            // What an ended task returned is there for a rollback; a run begins with nothing.
            _ if !rolling => *self.checkpoint = Checkpoint::new(self.task.pass, self.engine.clock.now()),
            _ => {}
        }
        if rolling {
            return Ok(Point::Onward);
        }
        if let Some(halt) = plan.and_then(|row| self.plan_halts(&row)) {
            return Ok(Point::Halt(halt));
        }
        let completed = self.task.completed;
        Ok(match self.checkpoint.resume_point(&self.job.work.names, None, self.engine.clock.now()) {
            Ok(at) if at == completed => Point::Onward,
            Ok(at) => Point::Invalid(format!("the checkpoint stands at stage {at}, the task at stage {completed}")),
            Err(rule) => Point::Invalid(format!("the checkpoint is not valid: {rule}")),
        })
    }

    /// A plan that was paused or cancelled while this task was being claimed has not asked it to stop:
    /// it had not begun.
    fn plan_halts(&self, row: &PlanRow) -> Option<Fact> {
        match row.plan.status {
            _ if row.plan.cancelled && !row.plan.status.is_final() => Some(Fact::TaskCancelled { cause: Cause::Plan }),
            // What was named was asked for while the plan was paused, or nobody conducted it.
            PlanStatus::Paused if !self.named => Some(Fact::TaskPaused { cause: Cause::Plan }),
            _ => None,
        }
    }

    async fn load(&self, key: &Key) -> Result<Option<Row>, Stop> {
        let load = || {
            Counts::add(&self.engine.counts.calls);
            self.engine.state.load(std::slice::from_ref(key))
        };
        Ok(self.answered(load).await?.pop().flatten())
    }

    async fn plan_now(&self) -> Result<Option<PlanRow>, Stop> {
        self.answered(|| self.engine.plan_now(&self.task.plan)).await
    }

    /// Asks until the store answers.
    async fn answered<T, F>(&self, ask: impl Fn() -> F) -> Result<T, Stop>
    where
        F: Future<Output = Result<T, PortError>>,
    {
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(PortError::Unavailable(why)) => {
                    self.engine.store_is_down(&why);
                    self.wait_for_store().await?;
                }
                Err(other) => return Err(Stop::Broken(other.to_string())),
            }
        }
    }

    /// Ends when the store answers again; an attempt whose lock may have run out meanwhile stops.
    pub(super) async fn wait_for_store(&self) -> Result<(), Stop> {
        let end = *locked(&self.lock_end);
        tokio::select! {
            biased;
            () = self.engine.health.up() => Ok(()),
            () = tokio::time::sleep_until(end) => Err(Stop::LockRanOut),
        }
    }

    /// What is wanted at this boundary instead of the next stage, if anything.
    fn halt(&self) -> Option<Fact> {
        let control = &self.signal.look(Signal::wanted);
        match (&control.cancel, &control.pause) {
            _ if self.task.status == TaskStatus::RollingBack => None,
            (Some(hold), _) => Some(Fact::TaskCancelled { cause: hold.cause }),
            (None, Some(hold)) => Some(Fact::TaskPaused { cause: hold.cause }),
            (None, None) => None,
        }
    }

    pub(super) fn failure(&self, kind: FailureKind, message: &str, at: &At) -> Failure {
        let attempt = self.task.attempt.map_or(0, |attempt| attempt.number);
        Failure::new(kind, message, at.stage.clone(), attempt, self.engine.clock.now())
    }

    /// What earlier stages returned.
    pub(super) fn context(&self) -> Json {
        self.checkpoint.context_data.clone()
    }

    fn ended(&self) {
        // A paused task keeps its tenant.
        if self.task.status != TaskStatus::Paused {
            let Task { tenant, id, .. } = &self.task;
            let held = Held { tenant: tenant.clone(), task: id.clone(), fence: self.fence };
            locked(&self.engine.to_release).push(held);
            self.engine.releasing.notify_one();
        }
    }

    /// A pause that came with the plan's may be written after the plan was resumed, and after that had
    /// reached every task it saw: then the task resumes by itself. Likewise with `on_failure: stop`: who was
    /// being claimed when a task failed ends with those that had not begun.
    async fn rejoin(&mut self) {
        let with_plan = self.task.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Plan);
        if self.task.status != TaskStatus::Paused || !with_plan {
            return;
        }
        let Ok(Some(row)) = self.plan_now().await else { return };
        let failed = Statuses::of(&[TaskStatus::Failed]);
        let stops = row.plan.status == PlanStatus::Paused && row.plan.on_failure == OnFailure::Stop;
        if row.plan.status == PlanStatus::Running {
            self.engine.resume_with_plan(&row.plan.id).await;
        } else if stops && self.engine.has_task(&row.plan.id, failed).await.unwrap_or(true) {
            self.engine.plan_was_paused(&row.plan.id, OnFailure::Stop);
        }
    }

    /// The attempt is over and its task is not: nobody runs it any more, and that is how it shall read.
    async fn stopped(&self, stop: &Stop) {
        let why = match stop {
            Stop::Lost(why) | Stop::Broken(why) => why.clone(),
            Stop::LockRanOut => "the tenant lock may have run out while the store did not answer".to_owned(),
            Stop::PlanMoved => "the plan kept changing".to_owned(),
            Stop::Leaving => "the instance is stopping".to_owned(),
        };
        if self.ledger.is_behind() {
            Counts::add(&self.engine.counts.dropped);
            self.engine.note_dropped(&self.task.id, &why);
        }
        tracing::warn!(task = %self.task.id, tenant = %self.task.tenant, fence = %self.fence, why, "the attempt stops");
        if let Stop::Lost(_) = stop {
            Counts::add(&self.engine.counts.lost);
            self.engine.bus.tell(News::TaskLost { task: self.task.id.clone(), why });
        }
        self.engine.let_go(&self.task.id, self.fence).await;
        let (plan, task) = (self.task.plan.clone(), self.task.id.clone());
        self.engine.bus.tell(News::TaskInterrupted { plan, task });
    }
}

#[cfg(test)]
mod tests;
