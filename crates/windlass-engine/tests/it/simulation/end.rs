//! After the storm: everything comes to rest within bounded time and says what it waits for, people can see
//! all of it to its end, and nothing is left behind.

use std::time::Duration;

// sleep: the clock is paused, so this passes simulated time only.
use tokio::time::sleep;
use windlass_core::id::{InstanceId, TaskId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::PAGE_MAX;
use windlass_core::port::lock::Force;
use windlass_core::port::state::{Filter, Key, PlanRow, Row, TaskRow};
use windlass_core::projection::apply;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Cause, Task};
use windlass_core::time::Ms;
use windlass_engine::Engine;
use windlass_engine::command::Caller;
use windlass_engine::command::plan::Verb;
use windlass_engine::command::task::{Order, Which};

use super::net::Weather;
use super::people::caller;
use super::plans;
use super::world::World;

/// Between two looks.
const LOOK_MS: u64 = 3_000;
/// Looks until everything must rest.
const LOOKS_MAX: u32 = 40;
/// Rounds in which people see everything to its end; in the last ones they cancel.
const ROUNDS: u32 = 12;
/// What a task at rest may wait for.
const RESTS: [&str; 9] =
    ["interrupted", "frozen", "locked", "planReady", "planPaused", "planInterrupted", "slot", "paused", "approval"];

impl World {
    /// All of it; whatever is wrong is noted.
    pub(super) async fn end(&mut self) {
        self.rest().await;
        if !self.truth.is_wrong() {
            self.people_are_told().await;
        }
        for round in 0..ROUNDS {
            if self.truth.is_wrong() || self.open_plans().await.is_empty() {
                break;
            }
            self.see_to(round > ROUNDS / 2).await;
            self.rest().await;
        }
        let open = self.open_plans().await;
        if let Some(row) = open.first() {
            let why = self.engine().why_plan(&row.plan.id).await;
            self.truth.wrong(format_args!("nobody can end plan {}: {why:?}", row.plan.id));
        }
        if !self.truth.is_wrong() {
            self.locks_are_given_back().await;
            self.histories_fit().await;
            self.names_are_used_once();
            self.everything_is_forgotten().await;
        }
    }

    fn engine(&self) -> &Engine {
        &self.nodes[0].engine
    }

    /// Waits until nothing moves, at most so long.
    async fn rest(&mut self) {
        let mut moving = None;
        for _ in 0..LOOKS_MAX {
            sleep(Duration::from_millis(LOOK_MS)).await;
            moving = self.moves().await;
            if moving.is_none() || self.truth.is_wrong() {
                return;
            }
        }
        let moving = moving.unwrap_or_default();
        self.truth.wrong(format_args!("nothing goes wrong any more, and it does not come to rest: {moving}"));
    }

    /// Something that moves, or seems to.
    async fn moves(&self) -> Option<String> {
        let live: Vec<InstanceId> = self.nodes.iter().map(|node| node.engine.instance().clone()).collect();
        for row in self.tasks().await {
            let TaskRow { task, control, .. } = &row;
            if let Some(owner) = task.owner.as_ref().filter(|owner| live.contains(owner)) {
                return Some(format!("{} is {} and {owner}'s", task.id, task.status));
            }
            if task.status.is_active() || control.start.is_some() {
                let why = self.engine().why_task(&Which::Task(task.id.clone())).await;
                match why {
                    Ok(why) if RESTS.contains(&why.cause) => {}
                    other => return Some(format!("{} is {}: {other:?}", task.id, task.status)),
                }
            }
        }
        for row in self.open_plans().await {
            let view = self.engine().view_plan(&row.plan.id).await.unwrap();
            if view.tally.active() == 0 && row.plan.status != PlanStatus::Ready && !self.is_asked(&row).await {
                return Some(format!("plan {} is {} with nothing left to do", row.plan.id, row.plan.status));
            }
        }
        self.nodes
            .iter()
            .find(|node| node.engine.running() > 0)
            .map(|node| format!("{} runs {} attempts of nobody's", node.engine.instance(), node.engine.running()))
    }

    /// What rests and goes on by nobody's word but a person's is in the inbox.
    async fn people_are_told(&self) {
        let (items, _) = self.engine().inbox().await.unwrap();
        for row in self.tasks().await {
            let TaskRow { task, control, .. } = &row;
            let waits = matches!(task.status, TaskStatus::Paused | TaskStatus::Failed | TaskStatus::RollbackFailed)
                || task.status.is_running();
            if waits && control.start.is_none() && !items.iter().any(|item| item.task.as_ref() == Some(&task.id)) {
                self.truth.wrong(format_args!("{} is {} and not in the inbox", task.id, task.status));
            }
        }
        for PlanRow { plan, .. } in self.open_plans().await {
            let view = self.engine().view_plan(&plan.id).await.unwrap();
            let waits = view.interrupted || plan.status == PlanStatus::Paused;
            if waits && !items.iter().any(|item| item.task.is_none() && item.plan.as_ref() == Some(&plan.id)) {
                self.truth.wrong(format_args!("plan {} is {} and not in the inbox", plan.id, plan.status));
            }
        }
    }

    async fn is_asked(&self, plan: &PlanRow) -> bool {
        self.tasks().await.iter().any(|row| row.task.plan == plan.plan.id && row.control.start.is_some())
    }

    async fn tasks(&self) -> Vec<TaskRow> {
        let filter = Filter::Tasks { plan: None, tenant: None, statuses: Statuses::ALL, interrupted: false };
        let page = self.state.list(&filter, None, PAGE_MAX).await.unwrap();
        let task = |row| match row {
            Row::Task(row) => *row,
            _ => panic!("a list of tasks has something else"),
        };
        page.items.into_iter().map(task).collect()
    }

    async fn open_plans(&self) -> Vec<PlanRow> {
        let statuses = vec![PlanStatus::Ready, PlanStatus::Running, PlanStatus::Paused];
        let page = self.state.list(&Filter::Plans { statuses }, None, PAGE_MAX).await.unwrap();
        let plan = |row| match row {
            Row::Plan(row) => row,
            _ => panic!("a list of plans has something else"),
        };
        page.items.into_iter().map(plan).collect()
    }

    /// People do for everything what its state offers.
    async fn see_to(&mut self, cancel: bool) {
        self.truth.person();
        self.truth.note(format_args!("people see to it, cancelling: {cancel}"));
        let engine = self.engine().clone();
        let caller = Caller { reason: "to the end".parse().ok(), ..caller() };
        for n in 0..plans::TENANTS {
            self.answered(engine.tenant(&plans::tenant(n), Force::Unfreeze, &caller).await.map(drop));
        }
        for PlanRow { plan, .. } in self.open_plans().await {
            let verb = match plan.status {
                _ if cancel => Verb::Cancel,
                PlanStatus::Ready => Verb::Start,
                _ => Verb::Resume,
            };
            self.answered(engine.plan(&plan.id, verb, &caller).await.map(drop));
        }
        for row in self.tasks().await {
            let Some(command) = helps(&row, cancel) else { continue };
            let order = Order { which: Which::Task(row.task.id.clone()), command, config: None };
            self.answered(engine.task(&order, &caller).await.map(drop));
        }
    }

    /// A no is an answer; nothing else is.
    fn answered(&self, answer: Result<(), windlass_engine::Error>) {
        use windlass_engine::Error;
        match answer {
            Ok(()) | Err(Error::Refused(_) | Error::Store(_) | Error::Conflict(_)) => {}
            Err(error) => self.truth.wrong(format_args!("with everything in order, a person is told: {error}")),
        }
    }

    async fn locks_are_given_back(&mut self) {
        let mut left = Vec::new();
        for _ in 0..10 {
            left = self.locks.list(None, PAGE_MAX).await.unwrap().items;
            left.retain(|tenant| tenant.holder.is_some());
            if left.is_empty() {
                return;
            }
            sleep(Duration::from_millis(self.options.lock_renew_ms / 3)).await;
        }
        self.truth.wrong(format_args!("locks are left behind: {left:?}"));
    }

    /// What is stored of every task is what its events say.
    async fn histories_fit(&mut self) {
        for row in self.tasks().await {
            let id = row.task.id.clone();
            let loaded = self.state.load(&[Key::TaskHistory(id.clone())]).await.unwrap().pop().flatten();
            let Some(Row::History(events)) = loaded else {
                return self.truth.wrong(format_args!("{id} has no history"));
            };
            let gap = events.windows(2).find(|pair| pair[1].seq != pair[0].seq + 1);
            if gap.is_some() || events.last().map(|event| event.seq) != Some(row.seq) {
                let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
                return self.truth.wrong(format_args!("the events of {id}, up to {}, are {seqs:?}", row.seq));
            }
            if row.seq > 200 {
                continue;
            }
            let replayed = events.iter().try_fold(None, |task, event| apply(task, event).map(Some));
            match replayed {
                Ok(Some(replayed)) if essence(replayed.clone()) == essence(row.task.clone()) => {}
                other => {
                    let (told, stored) = (other.map(|task| task.map(essence)), essence(row.task));
                    return self.truth.wrong(format_args!("{id}: its events say {told:?}, stored is {stored:?}"));
                }
            }
        }
    }

    /// Every plan has a name of its own here, so two of one name were made by one request.
    pub(super) fn names_are_used_once(&self) {
        let names: Vec<_> = self.truth.facts().plans.values().map(|plan| plan.name.clone()).collect();
        let twice = names.iter().find(|name| names.iter().filter(|other| other == name).count() > 1);
        if let Some(name) = twice {
            self.truth.wrong(format_args!("one request made plan {name} twice"));
        }
    }

    async fn everything_is_forgotten(&mut self) {
        let tasks: Vec<TaskId> = self.tasks().await.into_iter().map(|row| row.task.id).collect();
        self.end_all();
        tokio::time::advance(Duration::from_millis(self.options.retention_ms + 60_000)).await;
        self.begin(Weather { lost: 0, slow: 0, slow_ms: 0 }).await;
        sleep(Duration::from_millis(2 * self.options.janitor_ms.min(self.options.lock_renew_ms) + 1_000)).await;
        let plans: Vec<_> = self.truth.facts().plans.keys().cloned().collect();
        let of_plan =
            |plan| [Key::Plan, Key::PlanSpec, Key::Tally, Key::PlanHistory].map(|key| key(Clone::clone(plan)));
        let of_task =
            |task| [Key::Task, Key::TaskSpec, Key::TaskHistory, Key::Checkpoint].map(|key| key(Clone::clone(task)));
        let keys: Vec<Key> = plans.iter().flat_map(of_plan).chain(tasks.iter().flat_map(of_task)).collect();
        let rows = self.state.load(&keys).await.unwrap();
        if let Some((key, row)) = keys.iter().zip(rows).find(|(_, row)| row.is_some()) {
            self.truth.wrong(format_args!("its time is over, and {key:?} is still there: {row:?}"));
        }
        if !self.tasks().await.is_empty() {
            self.truth.wrong(format_args!("their time is over, and tasks are still listed"));
        }
    }
}

/// What a person does for a task in this state, to bring it to its end.
fn helps(row: &TaskRow, cancel: bool) -> Option<Command> {
    let cause = row.task.hold.as_ref().map(|hold| hold.cause);
    Some(match row.task.status {
        TaskStatus::Pending | TaskStatus::Paused | TaskStatus::Running if cancel => Command::Cancel(Cause::Person),
        TaskStatus::Paused if cause == Some(Cause::Approval) => Command::Approve,
        TaskStatus::Paused => Command::Resume,
        TaskStatus::Running => {
            Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: true, force: true })
        }
        TaskStatus::RollingBack => Command::Rollback { force: true },
        _ => return None,
    })
}

/// A task without what is not told by events (who has claimed it, and until when it waits), and without the
/// time of its last change: what others want of a task is noted beside it and does not touch it.
fn essence(task: Task) -> Task {
    Task { owner: None, ready_at: Ms::ZERO, updated_at: Ms::ZERO, ..task }
}
