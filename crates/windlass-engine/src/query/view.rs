//! Plans and tasks as they stand.

use std::time::Duration;

use serde::Serialize;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::Event;
use windlass_core::id::PlanId;
use windlass_core::lock::{Freeze, Holder};
use windlass_core::plan::spec::Recovery;
use windlass_core::plan::{Plan, PlanStatus, Tally};
use windlass_core::port::state::{Filter, Key, Row, TaskRow};
use windlass_core::port::{Cursor, Page, Refusal};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Control, Task};

use crate::Engine;
use crate::bus::News;
use crate::command::task::Which;
use crate::error::Error;
use crate::shared::Shared;

/// Between two looks of somebody who waits for a plan or a task.
const LOOK: Duration = Duration::from_millis(500);

/// A plan and how far it is, computed from its tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    /// The plan.
    #[serde(flatten)]
    pub plan: Plan,
    /// How many of its tasks stand where.
    pub tally: Tally,
    /// Tasks that need nothing more.
    pub ended: u32,
    /// RUNNING, and nobody alive conducts it.
    pub interrupted: bool,
}

/// A task, what is wanted of it, and what it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskView {
    /// The task.
    #[serde(flatten)]
    pub task: Task,
    /// What people want of it.
    pub control: Control,
    /// A pause was asked for and has not taken effect.
    pub pause_requested: bool,
    /// RUNNING or ROLLING_BACK, and nobody alive runs it.
    pub interrupted: bool,
    /// Whether the store has what is shown.
    pub durable: bool,
    /// Where it would go on.
    pub checkpoint: Option<Checkpoint>,
    /// Who holds its tenant.
    pub lock: Option<Holder>,
    /// Whether its tenant is frozen.
    pub freeze: Option<Freeze>,
}

impl TaskView {
    /// Whether nothing of it moves any more unless a person says so. One that was asked to begin waits for room only.
    #[must_use]
    pub fn rests(&self) -> bool {
        let moves = matches!(self.task.status, TaskStatus::Pending | TaskStatus::Running | TaskStatus::RollingBack);
        self.control.start.is_none() && (!moves || self.interrupted)
    }
}

/// Ends when something of interest is heard, when it is time to look again all the same, or at the end.
async fn heard(news: &mut Receiver<News>, end: Instant, of_interest: impl Fn(&News) -> bool) {
    // News of other instances does not come here: look again now and then.
    let look = end.min(Instant::now() + LOOK);
    loop {
        match tokio::time::timeout_at(look, news.recv()).await {
            Ok(Ok(heard)) if !of_interest(&heard) => {}
            Ok(Ok(_)) | Ok(Err(RecvError::Lagged(_))) => break,
            // Nothing will be heard any more: only looking is left.
            Ok(Err(RecvError::Closed)) => return tokio::time::sleep_until(look).await,
            Err(_) => return,
        }
    }
    // Many events in a row are one look.
    while news.try_recv().is_ok() {}
}

impl Engine {
    /// A plan.
    pub async fn view_plan(&self, id: &PlanId) -> Result<PlanView, Error> {
        let shared: &Shared = &self.0;
        let row = shared.plan_row(id).await?;
        let tally = match shared.state.load(&[Key::Tally(id.clone())]).await?.pop().flatten() {
            Some(Row::Tally(tally)) => tally,
            _ => Tally::default(),
        };
        let running = row.plan.status == PlanStatus::Running;
        let interrupted = running && shared.conductor_gone(&row.plan).await?;
        Ok(PlanView { ended: tally.total() - tally.active(), plan: row.plan, tally, interrupted })
    }

    /// Whether nothing of a started plan moves any more unless a person says so.
    pub async fn rests(&self, id: &PlanId) -> Result<bool, Error> {
        let view = self.view_plan(id).await?;
        let begun = view.tally.of(TaskStatus::Running) + view.tally.of(TaskStatus::RollingBack);
        // Interrupted ones stay where they are, unless the plan says that any instance takes them up.
        let interrupted = match view.plan.recovery {
            Recovery::Manual if begun > 0 => self.interrupted_of(id).await?,
            _ => 0,
        };
        let still = begun <= interrupted;
        let waits = view.interrupted || view.tally.of(TaskStatus::Pending) == 0;
        match view.plan.status {
            PlanStatus::Ready => Ok(false),
            PlanStatus::Running if !still || !waits || view.tally.active() == 0 => Ok(false),
            PlanStatus::Running | PlanStatus::Paused if still => {
                let all: Vec<_> = TaskStatus::ALL.to_vec();
                let asked = self.tasks_of(id, &all).await?.iter().any(|row| row.control.start.is_some());
                // What was asked for may have begun between the two looks: it runs now, or has run.
                Ok(!asked && self.view_plan(id).await?.tally == view.tally)
            }
            status => Ok(status.is_final()),
        }
    }

    /// Waits until the plan has ended, or until nothing of it moves any more without a person; at most `limit`. `None` when
    /// the time is over.
    pub async fn wait_plan(&self, plan: &PlanId, limit: Duration) -> Result<Option<PlanView>, Error> {
        let end = Instant::now() + limit;
        // Before looking: what happens while we look is not missed.
        let mut news = self.subscribe();
        loop {
            // A plan that has ended rests, too; what is answered is looked at afterwards, so that it is not older.
            if self.rests(plan).await? {
                return self.view_plan(plan).await.map(Some);
            }
            if Instant::now() >= end || self.0.is_stopping() {
                return Ok(None);
            }
            heard(&mut news, end, |news| match news {
                // No plan rests because of a stage that began or ended well.
                News::Event { event, .. } => event.plan == *plan && !event.fact.name().starts_with("Stage"),
                News::TaskInterrupted { plan: of, .. } => of == plan,
                _ => false,
            })
            .await;
        }
    }

    /// Waits until nothing of the task moves any more without a person; at most `limit`. `None` when the time is over.
    pub async fn wait_task(&self, which: &Which, limit: Duration) -> Result<Option<TaskView>, Error> {
        let end = Instant::now() + limit;
        let mut news = self.subscribe();
        loop {
            let view = self.view_task(which).await?;
            if view.rests() {
                return Ok(Some(view));
            }
            if Instant::now() >= end || self.0.is_stopping() {
                return Ok(None);
            }
            heard(&mut news, end, |news| match news {
                News::Event { event, .. } => {
                    event.task.as_ref() == Some(&view.task.id) && !event.fact.name().starts_with("Stage")
                }
                News::TaskInterrupted { task, .. } => *task == view.task.id,
                _ => false,
            })
            .await;
        }
    }

    /// How many of the plan's tasks have begun and are run by nobody alive.
    pub(crate) async fn interrupted_of(&self, id: &PlanId) -> Result<u32, Error> {
        let statuses = Statuses::of(&[TaskStatus::Running, TaskStatus::RollingBack]);
        Ok(self.every_task(id, statuses, true).await?.len() as u32)
    }

    /// A task; while the store does not answer, what this instance has of it in memory.
    pub async fn view_task(&self, which: &Which) -> Result<TaskView, Error> {
        let found = match self.0.find(which).await {
            Ok(found) => found,
            Err(error) => return self.in_memory(which).ok_or(error),
        };
        let at = found.standing();
        let interrupted = at.interrupted();
        let unsaved = self.in_memory(which);
        // A pause of its plan may have reached it here, and not yet the store.
        let pauses = |_: &_, here: &crate::shared::Running| here.signal.look(|signal| signal.wanted().pause);
        let pause = self.0.running_here(&Which::Task(found.row.task.id.clone()), pauses);
        Ok(TaskView {
            pause_requested: found.row.control.pause.is_some() || pause.is_some(),
            interrupted,
            durable: unsaved.is_none(),
            task: unsaved.map_or(found.row.task, |view| view.task),
            control: found.row.control,
            checkpoint: found.checkpoint,
            lock: found.lock.holder,
            freeze: found.lock.freeze,
        })
    }

    fn in_memory(&self, which: &Which) -> Option<TaskView> {
        let (task, control) = self.0.running_here(which, |_, here| {
            let task = (*here.unsaved.as_ref()?.task).clone();
            Some((task, here.signal.look(crate::stage::Signal::wanted)))
        })?;
        Some(TaskView {
            task,
            pause_requested: control.pause.is_some(),
            control,
            interrupted: false,
            durable: false,
            checkpoint: None,
            lock: None,
            freeze: None,
        })
    }

    /// What happened to a task, the newest 200 events, oldest first.
    pub async fn task_history(&self, which: &Which) -> Result<Vec<Event>, Error> {
        let found = self.0.find(which).await?;
        let id = found.row.task.id;
        self.history(Key::TaskHistory(id.clone()), || format!("task {id}")).await
    }

    /// What happened to a plan.
    pub async fn plan_history(&self, id: &PlanId) -> Result<Vec<Event>, Error> {
        self.history(Key::PlanHistory(id.clone()), || format!("plan {id}")).await
    }

    async fn history(&self, key: Key, whose: impl FnOnce() -> String) -> Result<Vec<Event>, Error> {
        match self.0.state.load(&[key]).await?.pop().flatten() {
            Some(Row::History(events)) => Ok(events),
            _ => Err(Refusal::NotFound(whose()).into()),
        }
    }

    /// A page of plans, tasks or instances.
    pub async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, Error> {
        Ok(self.0.state.list(filter, after, limit).await?)
    }

    /// The tasks of a plan that stand in one of these statuses: all of them, and a plan has 10,000 at most.
    pub async fn tasks_of(&self, plan: &PlanId, statuses: &[TaskStatus]) -> Result<Vec<TaskRow>, Error> {
        self.every_task(plan, Statuses::of(statuses), false).await
    }

    async fn every_task(&self, plan: &PlanId, statuses: Statuses, interrupted: bool) -> Result<Vec<TaskRow>, Error> {
        let filter = Filter::Tasks { plan: Some(plan.clone()), tenant: None, statuses, interrupted };
        let (mut tasks, mut after) = (Vec::new(), None);
        loop {
            let page = self.list(&filter, after.as_ref(), windlass_core::port::PAGE_MAX).await?;
            tasks.extend(page.items.into_iter().filter_map(|row| match row {
                Row::Task(row) => Some(*row),
                _ => None,
            }));
            after = page.next;
            if after.is_none() {
                return Ok(tasks);
            }
        }
    }
}
