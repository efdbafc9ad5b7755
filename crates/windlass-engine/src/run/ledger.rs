//! What the store knows of an attempt, and what it does not yet. With the store there, a boundary is one
//! commit. Without it, the policy says whether the attempt waits, goes on in memory, or fails; a write
//! without an answer may have been taken, so it is always repeated as it was before anything follows it.

use windlass_core::event::{Event, Fact};
use windlass_core::failure::FailureKind;
use windlass_core::plan::spec::{OnFailure, Recovery};
use windlass_core::plan::{PlanStatus, spec::PlanSpec};
use windlass_core::port::state::{CheckpointPut, Key, PlanPut, Row, Step, Stepped, TaskPut, Writer};
use windlass_core::port::{PortError, Refusal};
use windlass_core::projection::{apply, apply_plan};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Task, advance};
use windlass_core::time::Ms;

use super::attempt::{Attempt, Stop};
use crate::options::OnOutage;
use crate::shared::{Counts, Unsaved, locked};

/// What the store has of the task.
pub(super) struct Ledger {
    status: TaskStatus,
    checkpoint: u64,
    behind: Option<Box<Behind>>,
}

/// What the store may not have.
struct Behind {
    since: Ms,
    /// Sent, and not answered.
    first: Option<Step>,
    /// What has happened after it, and was never sent.
    rest: Vec<Event>,
    /// What becomes of the checkpoint with the rest.
    checkpoint: CheckpointPut,
}

/// What the store answered, if it did.
enum Answer {
    Taken(Stepped),
    Refused(Refusal),
    None,
}

impl Ledger {
    pub(super) fn new(status: TaskStatus, checkpoint: u64) -> Ledger {
        Ledger { status, checkpoint, behind: None }
    }

    /// The version of the stored checkpoint; 0: none.
    pub(super) fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// Whether the store lacks something.
    pub(super) fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// `step` was taken.
    fn taken(&mut self, step: &Step) {
        if let [put] = &step.tasks[..] {
            self.status = put.task.status;
        }
        match &step.checkpoint {
            CheckpointPut::Keep => {}
            CheckpointPut::Put(checkpoint) => self.checkpoint = checkpoint.version,
            CheckpointPut::Remove => self.checkpoint = 0,
        }
    }
}

impl Attempt {
    /// The one write of a boundary: the task as it is now, its checkpoint, what has happened.
    pub(super) async fn commit(
        &mut self,
        task: Task,
        checkpoint: CheckpointPut,
        events: Vec<Event>,
    ) -> Result<(), Stop> {
        let failed = events.iter().any(|event| matches!(event.fact, Fact::TaskFailed { .. }));
        if self.ledger.behind.is_some() {
            return self.commit_behind(task, checkpoint, events).await;
        }
        if !failed || self.job.plan.spec.on_failure == OnFailure::Continue {
            let step = self.step(task.clone(), checkpoint, events, None);
            let sent = self.send(step).await;
            self.task = task;
            return self.settled(sent).await;
        }
        for _ in 0..PLAN_MOVES_MAX {
            let Some(plan) = self.plan_after_failure(&task).await? else {
                // Nothing was sent: the failure waits for the store together with what it does to the plan.
                self.tell_unsaved(&events);
                let since = self.engine.clock.now();
                self.ledger.behind = Some(Box::new(Behind { since, first: None, rest: events, checkpoint }));
                self.task = task;
                return self.settled(Ok(())).await;
            };
            let step = self.step(task.clone(), checkpoint.clone(), events.clone(), plan);
            match self.send(step).await {
                Err(Stop::PlanMoved) => continue,
                other => {
                    self.task = task;
                    return self.settled(other).await;
                }
            }
        }
        Err(Stop::PlanMoved)
    }

    /// After the write: an attempt that is over does not leave before the store has everything.
    async fn settled(&mut self, sent: Result<(), Stop>) -> Result<(), Stop> {
        sent?;
        if self.ledger.behind.is_none() {
            return Ok(());
        }
        if self.engine.options.outage == OnOutage::Fail && self.task.status.is_running() {
            self.fail_unsaved()?;
        }
        self.show_unsaved();
        match self.task.status.is_running() {
            true => Ok(()),
            false => self.catch_up(true).await,
        }
    }

    fn step(&self, task: Task, checkpoint: CheckpointPut, events: Vec<Event>, plan: Option<(PlanPut, Event)>) -> Step {
        let from = Statuses::of(&[self.ledger.status]);
        let (plan, paused) = plan.unzip();
        Step {
            op: self.engine.op(),
            by: Writer::Owner { instance: self.engine.instance.clone(), fence: self.fence },
            plan,
            tasks: vec![TaskPut { task, from, version: 0, spec: None }],
            checkpoint,
            ask: None,
            events: events.into_iter().chain(paused).collect(),
            answer: None,
        }
    }

    /// Sends a step, or does what the policy says when there is no answer.
    async fn send(&mut self, step: Step) -> Result<(), Stop> {
        let mut answer = self.ask_store(&step).await?;
        let holds = self.engine.options.outage == OnOutage::Hold || self.job.plan.spec.recovery == Recovery::Auto;
        while holds && matches!(answer, Answer::None) {
            self.show_held(&step);
            self.wait_for_store().await?;
            answer = self.ask_store(&step).await?;
        }
        if holds && let Some(here) = locked(&self.engine.running).get_mut(&self.task.id) {
            here.unsaved = None;
        }
        match answer {
            Answer::Taken(stepped) => {
                self.taken(step, stepped);
                Ok(())
            }
            Answer::Refused(Refusal::Version { .. }) if step.plan.is_some() => Err(Stop::PlanMoved),
            Answer::Refused(refusal) => Err(Stop::Lost(refusal.to_string())),
            Answer::None => {
                self.tell_unsaved(&step.events);
                let since = self.engine.clock.now();
                let behind = Behind { since, first: Some(step), rest: Vec::new(), checkpoint: CheckpointPut::Keep };
                self.ledger.behind = Some(Box::new(behind));
                Ok(())
            }
        }
    }

    async fn ask_store(&self, step: &Step) -> Result<Answer, Stop> {
        Counts::add(&self.engine.counts.calls);
        Counts::add(&self.engine.counts.commits);
        match self.engine.state.commit(std::slice::from_ref(step)).await {
            Ok(mut answers) => match answers.pop() {
                Some(Ok(stepped)) => Ok(Answer::Taken(stepped)),
                Some(Err(refusal)) => Ok(Answer::Refused(refusal)),
                None => Err(Stop::Broken("the store answered nothing".to_owned())),
            },
            Err(PortError::Unavailable(why)) => {
                self.engine.store_is_down(&why);
                Ok(Answer::None)
            }
            Err(other) => Err(Stop::Broken(other.to_string())),
        }
    }

    fn taken(&mut self, step: Step, stepped: Stepped) {
        self.ledger.taken(&step);
        self.engine.set_control(&self.task.id, &stepped.control, stepped.version);
        let paused = step.events.iter().any(|event| matches!(event.fact, Fact::PlanPaused));
        if self.engine.bus.is_heard() {
            let about_task = step.events.into_iter().filter(|event| event.task.is_some());
            self.engine.tell(about_task.collect(), stepped.seq, true);
        }
        if paused {
            self.engine.plan_was_paused(&self.task.plan, self.job.plan.spec.on_failure);
        }
    }

    /// A boundary while the store lacks earlier ones: kept in memory, written if it is back.
    async fn commit_behind(&mut self, task: Task, checkpoint: CheckpointPut, events: Vec<Event>) -> Result<(), Stop> {
        self.tell_unsaved(&events);
        if let Some(behind) = &mut self.ledger.behind {
            behind.rest.extend(events);
            behind.checkpoint = checkpoint;
        }
        self.task = task;
        self.show_unsaved();
        let over = !self.task.status.is_running();
        if over || self.engine.health.down_since().is_none() {
            self.catch_up(over).await?;
        }
        Ok(())
    }

    /// Writes what the store lacks: what had no answer as it was, then the rest in one step. If the
    /// store is still away, waits for it when told to.
    pub(super) async fn catch_up(&mut self, wait: bool) -> Result<(), Stop> {
        while let Some(mut behind) = self.ledger.behind.take() {
            if behind.first.is_none() && behind.rest.is_empty() {
                break;
            }
            let answer = match self.next_of(&mut behind).await {
                Ok(None) => Ok(Answer::None),
                Ok(Some(step)) => self.ask_store(behind.first.insert(step)).await,
                Err(stop) => Err(stop),
            };
            let first = behind.first.take();
            let about_plan = first.as_ref().is_some_and(|step| step.plan.is_some());
            match (answer, first) {
                (Ok(Answer::Taken(stepped)), Some(step)) => {
                    self.ledger.taken(&step);
                    self.engine.set_control(&self.task.id, &stepped.control, stepped.version);
                    if about_plan {
                        self.engine.plan_was_paused(&self.task.plan, self.job.plan.spec.on_failure);
                    }
                }
                // The plan moved on: what the failure does to it is decided again.
                (Ok(Answer::Refused(Refusal::Version { .. })), Some(step)) if about_plan => {
                    behind.rest = step.events.into_iter().filter(|event| event.fact.is_about_task()).collect();
                    behind.checkpoint = step.checkpoint;
                }
                (Ok(Answer::None), first) => {
                    behind.first = first;
                    self.ledger.behind = Some(behind);
                    if !wait {
                        return Ok(());
                    }
                    self.wait_for_store().await?;
                    continue;
                }
                (answer, first) => {
                    behind.first = first;
                    self.ledger.behind = Some(behind);
                    return Err(match answer {
                        Ok(Answer::Refused(refusal)) => Stop::Lost(refusal.to_string()),
                        Ok(_) => Stop::Broken("the store answered what was not asked".to_owned()),
                        Err(stop) => stop,
                    });
                }
            }
            self.ledger.behind = Some(behind);
        }
        if let Some(here) = locked(&self.engine.running).get_mut(&self.task.id) {
            here.unsaved = None;
        }
        Ok(())
    }

    /// What is to be sent next: what had no answer, or the rest, with what a failure among it does to the plan: written
    /// apart, the plan could go on in between. `None` if the plan cannot be read now.
    async fn next_of(&mut self, behind: &mut Behind) -> Result<Option<Step>, Stop> {
        if let Some(first) = behind.first.take() {
            return Ok(Some(first));
        }
        let fails = self.task.status == TaskStatus::Failed && self.job.plan.spec.on_failure != OnFailure::Continue;
        let plan = match fails {
            true => match self.plan_after_failure(&self.task).await? {
                Some(plan) => plan,
                None => return Ok(None),
            },
            false => None,
        };
        let events = std::mem::take(&mut behind.rest);
        let mut checkpoint = std::mem::replace(&mut behind.checkpoint, CheckpointPut::Keep);
        if let CheckpointPut::Put(checkpoint) = &mut checkpoint {
            checkpoint.version = self.ledger.checkpoint + 1;
        }
        Ok(Some(self.step(self.task.clone(), checkpoint, events, plan)))
    }

    /// The policy says that a task whose state cannot be kept has failed.
    fn fail_unsaved(&mut self) -> Result<(), Stop> {
        let now = self.engine.clock.now();
        let Some(at) = super::plan::current(&self.task, &self.job.work.names) else { return Ok(()) };
        let failure = self.failure(FailureKind::Persistence, "the store does not answer", &at);
        self.checkpoint.remember(failure.clone());
        let mut events = Vec::new();
        for fact in advance::ended(&self.task, at, advance::Outcome::Failed(failure)) {
            let event = self.engine.about(&self.task, fact, now);
            self.task = apply(Some(self.task.clone()), &event)?;
            events.push(event);
        }
        self.tell_unsaved(&events);
        let task = self.task.clone();
        let checkpoint = self.checkpoint_put(&task, now);
        if let Some(behind) = &mut self.ledger.behind {
            behind.rest.extend(events);
            behind.checkpoint = checkpoint;
        }
        Ok(())
    }

    fn tell_unsaved(&self, events: &[Event]) {
        if self.engine.bus.is_heard() {
            self.engine.tell(events.to_vec(), 0, false);
        }
    }

    /// What waits at its boundary is in memory only, too.
    fn show_held(&self, step: &Step) {
        let since = self.engine.clock.now();
        if let ([put], Some(here)) = (&step.tasks[..], locked(&self.engine.running).get_mut(&self.task.id)) {
            here.unsaved.get_or_insert_with(|| Unsaved { since, task: Box::new(put.task.clone()) });
        }
    }

    fn show_unsaved(&self) {
        let since = self.ledger.behind.as_ref().map(|behind| behind.since);
        if let (Some(since), Some(here)) = (since, locked(&self.engine.running).get_mut(&self.task.id)) {
            here.unsaved = Some(Unsaved { since, task: Box::new(self.task.clone()) });
        }
    }

    /// What a failure does to the plan, in the same step: with `on_failure: stop` or `pause` nothing more
    /// is handed out from that moment on. `None` if the store does not answer.
    async fn plan_after_failure(&self, task: &Task) -> Result<Option<Option<(PlanPut, Event)>>, Stop> {
        Counts::add(&self.engine.counts.calls);
        let mut rows = match self.engine.state.load(&[Key::Plan(task.plan.clone())]).await {
            Ok(rows) => rows,
            Err(PortError::Unavailable(why)) => {
                self.engine.store_is_down(&why);
                return Ok(None);
            }
            Err(other) => return Err(Stop::Broken(other.to_string())),
        };
        match rows.pop().flatten() {
            Some(Row::Plan(row)) if row.plan.status == PlanStatus::Running => {
                Ok(Some(Some(self.engine.paused_by(&self.job.plan.spec, row, task)?)))
            }
            _ => Ok(Some(None)),
        }
    }
}

/// How often a plan may change under a failing task before the attempt gives up.
const PLAN_MOVES_MAX: usize = 16;

impl crate::shared::Shared {
    /// The plan paused because `task` failed.
    pub(crate) fn paused_by(
        &self,
        spec: &PlanSpec,
        row: windlass_core::port::state::PlanRow,
        task: &Task,
    ) -> Result<(PlanPut, Event), windlass_core::projection::Misfit> {
        let policy = if spec.on_failure == OnFailure::Stop { "stop" } else { "pause" };
        let event = Event {
            seq: 0,
            at: self.clock.now(),
            plan: row.plan.id.clone(),
            task: None,
            tenant: None,
            by: Some(self.me.clone()),
            reason: format!("on_failure: {policy}; task {} of tenant {} failed", task.id, task.tenant).parse().ok(),
            fact: Fact::PlanPaused,
        };
        let plan = apply_plan(Some(row.plan), spec, &event)?;
        Ok((PlanPut { plan, version: row.version, spec: None }, event))
    }
}
