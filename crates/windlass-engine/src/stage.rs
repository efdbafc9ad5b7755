//! What a stage can be: one file per kind. An action is rendered and run here; when it may run, how
//! often it is tried again and what becomes of its answer is the attempt's business.

pub mod actions;
mod approval;
pub mod exec;
#[cfg(test)]
mod fixture;
pub mod guard;
pub mod handler;
pub mod http;
mod job;
mod poll;
pub mod secret;
mod sleep;
mod strings;
pub mod template;
pub mod web;

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::failure::FailureKind;
use windlass_core::fence::Fence;
use windlass_core::id::{JobId, PlanId, StageName, TaskId, TenantId};
use windlass_core::json::Json;
use windlass_core::task::{Control, Hold};

use crate::watched::Watched;

pub(crate) use job::NO_STORE;

/// What a stage is told: which one it is, for whom, and what it works with.
#[derive(Debug, Clone)]
pub struct Told {
    /// The plan.
    pub plan: PlanId,
    /// The task.
    pub task: TaskId,
    /// Whose work it is.
    pub tenant: TenantId,
    /// The stage.
    pub stage: StageName,
    /// The attempt's number, from 1.
    pub attempt: u32,
    /// The pass, from 1.
    pub pass: u32,
    /// The fence of the attempt: a target that remembers the largest it has seen can refuse a late one.
    pub fence: Fence,
    /// What the stages work with; in a rollback without `undo`, what they worked with before.
    pub config: Option<Json>,
    /// What they worked with before.
    pub previous: Option<Json>,
    /// What earlier stages returned: a JSON object by stage name.
    pub context: Json,
}

impl Told {
    /// `plan/task/stage/pass`: the same when a crash makes the stage run again.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}/{}/{}", self.plan, self.task, self.stage, self.pass)
    }
}

/// How an action ended, if it did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// Done; what it returned enters the context.
    Done(Option<Json>),
    /// It waited, and somebody wants the task to stop here.
    Yielded,
    /// A person must decide; this is what they are asked.
    ApprovalWanted(String),
}

/// Why an action failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What sort.
    pub kind: FailureKind,
    /// For people; holds no secret.
    pub message: String,
    /// Whether trying again may help. A template that cannot be rendered will not heal.
    pub again: bool,
}

impl Trouble {
    /// The stage ran and said no; it may be tried again.
    pub fn stage(message: impl Into<String>) -> Trouble {
        Trouble { kind: FailureKind::Stage, message: message.into(), again: true }
    }

    /// It can never work as it is written.
    pub fn hopeless(kind: FailureKind, message: impl Into<String>) -> Trouble {
        Trouble { kind, message: message.into(), again: false }
    }
}

/// What is wanted of a running task now.
#[derive(Debug, Clone, Default)]
pub struct Signal {
    /// By people. Of most tasks nothing is, and every one that waits keeps room for this.
    control: Option<Box<Control>>,
    /// Its plan pauses, and it runs where that was asked for: it need not be told through the store.
    with_plan: Option<Box<Hold>>,
    /// Somebody else owns the task: stop at once, write nothing.
    pub lost: bool,
    /// The instance is stopping: the task goes no further here.
    pub leaving: bool,
}

static NOTHING: Control = Control { pause: None, cancel: None, skip: None, start: None, revoked: None };

impl Signal {
    /// What people want.
    #[must_use]
    pub fn control(&self) -> &Control {
        self.control.as_deref().unwrap_or(&NOTHING)
    }

    /// What its attempt is to heed: what people want, and a pause of its plan that was asked for here.
    #[must_use]
    pub fn wanted(&self) -> Control {
        let mut control = self.control().clone();
        control.pause = control.pause.or_else(|| self.with_plan.as_deref().cloned());
        control
    }

    /// Its plan pauses, or does not any more; `false` if that is not new.
    pub fn set_with_plan(&mut self, hold: Option<&Hold>) -> bool {
        let changed = self.with_plan.as_deref() != hold;
        if changed {
            self.with_plan = hold.map(|hold| Box::new(hold.clone()));
        }
        changed
    }

    /// Whether the attempt under this fence has nothing to say any more.
    #[must_use]
    pub fn is_lost(&self, fence: Fence) -> bool {
        self.lost || self.control().revoked == Some(fence)
    }

    /// People want this now; `false` if they wanted it before.
    pub fn set_control(&mut self, control: &Control) -> bool {
        let changed = self.control() != control;
        if changed {
            self.control = (!control.is_empty()).then(|| Box::new(control.clone()));
        }
        changed
    }
}

impl From<&Control> for Signal {
    fn from(control: &Control) -> Signal {
        let mut signal = Signal::default();
        signal.set_control(control);
        signal
    }
}

/// Where a running task's signal is: set by others, looked at and waited for by its attempt.
pub type Signals = Watched<Signal>;

/// Tells an action that waits when to stop waiting.
#[derive(Debug, Clone)]
pub struct Yield {
    signal: Arc<Signals>,
    /// A rollback yields to nobody.
    deaf: bool,
    stage: u32,
    /// The job that the stage waits for.
    job: Option<JobId>,
}

impl Yield {
    /// Listens to `signal` on behalf of the stage at this index; a rollback yields to no person and is `deaf`.
    #[must_use]
    pub fn new(signal: Arc<Signals>, deaf: bool, stage: u32) -> Yield {
        Yield { signal, deaf, stage, job: None }
    }

    /// Ends when somebody wants the task to pause, to end, or to pass over this stage, or when the
    /// instance is stopping; never otherwise.
    pub async fn wanted(&mut self) {
        let (deaf, stage) = (self.deaf, self.stage);
        let wanted = |signal: &Signal| {
            let Control { pause, cancel, skip, .. } = signal.control();
            let pauses = pause.is_some() || signal.with_plan.is_some();
            let asked = pauses || cancel.is_some() || skip.as_ref().is_some_and(|skip| skip.stage == stage);
            signal.leaving || (asked && !deaf)
        };
        self.signal.until(wanted).await;
    }

    /// Ends when somebody wants the task to end, or to pass over this stage; never otherwise.
    async fn unwanted(&self) {
        let unwanted = |signal: &Signal| {
            let Control { cancel, skip, .. } = signal.control();
            cancel.is_some() || skip.as_ref().is_some_and(|skip| skip.stage == self.stage)
        };
        match self.deaf {
            true => std::future::pending().await,
            false => self.signal.until(unwanted).await,
        }
    }

    /// The job that the stage waited for when its time was over.
    pub(crate) fn left(&mut self) -> Option<JobId> {
        self.job.take()
    }
}

/// A Rust function that is a stage.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Runs once; dropped when its time is over or the task is lost. What it returns enters the context.
    async fn run(&self, told: Told, args: Json) -> Result<Option<Json>, Trouble>;
}

#[async_trait]
impl<F, R> Handler for F
where
    F: Fn(Told, Json) -> R + Send + Sync,
    R: Future<Output = Result<Option<Json>, Trouble>> + Send,
{
    async fn run(&self, told: Told, args: Json) -> Result<Option<Json>, Trouble> {
        self(told, args).await
    }
}
