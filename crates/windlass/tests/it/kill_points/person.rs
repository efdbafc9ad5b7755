//! The person who sees a plan through. What they do follows from what is stored, so that whoever comes after a crash goes on
//! where the one before was interrupted.

use std::time::Duration;

use windlass::Windlass;
use windlass::core::event::Fact;
use windlass::core::port::PAGE_MAX;
use windlass::core::port::state::{Filter, Row, TaskRow};
use windlass::core::task::Cause;
use windlass::core::task::command::{Command, Retry, RetryFrom};
use windlass::core::task::status::TaskStatus;
use windlass::engine::Error;
use windlass::engine::clock::{Clock, SystemClock};
use windlass::engine::command::Done;
use windlass::engine::command::plan::Verb;
use windlass::engine::command::task::{Order, Which};
use windlass::engine::query::inbox::{Item, Kind};

use super::script::{PAUSE, Script, Stage, ann, plan_id, task_id};

/// What waits after a crash.
pub(crate) const RECOVERY: &[Kind] =
    &[Kind::InterruptedPlan, Kind::InterruptedTask, Kind::Approval, Kind::Failure, Kind::PausedTask, Kind::PausedPlan];

/// Sees the plan to its end: answers what waits, of these kinds, until nothing does and no tenant is locked any more.
pub(crate) async fn see_through(script: &Script, stage: &Stage, kinds: &[Kind]) {
    let windlass = &stage.windlass;
    let mut news = windlass.subscribe();
    loop {
        let items = windlass.inbox().await.unwrap().0;
        let tasks = windlass.tasks_of(&plan_id(), &TaskStatus::ALL).await.unwrap();
        for item in items.iter().filter(|item| kinds.contains(&item.kind)) {
            answer(script, windlass, item, &items, &tasks).await;
        }
        if script.name == PAUSE.name {
            pause(stage, &items, &tasks).await;
        }
        if script.taken_back.is_some() {
            for row in tasks.iter().filter(|row| row.task.status == TaskStatus::Completed) {
                done(windlass.task(&order(row.task.position, Command::Rollback { force: false }), &ann()).await);
            }
        }
        if is_over(script, windlass).await {
            return;
        }
        // Locks are given back without an event, and a lease ends without one: look again now and then.
        drop(tokio::time::timeout(Duration::from_millis(50), news.recv()).await);
    }
}

async fn is_over(script: &Script, windlass: &Windlass) -> bool {
    let ended = windlass.view_plan(&plan_id()).await.unwrap().plan.status.is_final();
    let tasks = windlass.tasks_of(&plan_id(), &TaskStatus::ALL).await.unwrap();
    let last = if script.taken_back.is_some() { TaskStatus::RolledBack } else { TaskStatus::Completed };
    ended
        && tasks.iter().all(|row| row.task.status == last && row.control.start.is_none())
        && windlass.stores().locks.list(None, 10).await.unwrap().items.is_empty()
}

/// Waits until no lease runs but this instance's.
pub(crate) async fn until_the_dead_are_gone(windlass: &Windlass) {
    loop {
        let page = windlass.list(&Filter::Instances, None, PAGE_MAX).await.unwrap();
        let now = SystemClock.now();
        let lives = |row: &Row| match row {
            Row::Instance(row) if row.id != *windlass.instance() => row.until.since(now),
            _ => 0,
        };
        let Some(left_ms) = page.items.iter().map(lives).max().filter(|left_ms| *left_ms > 0) else { return };
        // sleep: a lease ends by the clock and without a word.
        tokio::time::sleep(Duration::from_millis(left_ms)).await;
    }
}

/// What a person does about it.
async fn answer(script: &Script, windlass: &Windlass, item: &Item, inbox: &[Item], tasks: &[TaskRow]) {
    let row = tasks.iter().find(|row| Some(&row.task.id) == item.task.as_ref());
    let retry = Command::Retry(Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false });
    let back = Command::Rollback { force: false };
    let command = match (item.kind, row) {
        (Kind::InterruptedPlan, _) => {
            return done(windlass.plan(item.plan.as_ref().unwrap(), Verb::Resume, &ann()).await);
        }
        // When everything of it has come to rest.
        (Kind::PausedPlan, _) => {
            if !tasks.iter().any(|row| runs(row, inbox)) {
                done(windlass.plan(item.plan.as_ref().unwrap(), Verb::Resume, &ann()).await);
            }
            return;
        }
        (Kind::InterruptedTask, Some(row)) if row.task.status == TaskStatus::RollingBack => back,
        (Kind::Failure, _) if script.taken_back.is_some() => back,
        (Kind::InterruptedTask | Kind::Failure, _) => retry,
        (Kind::Approval, _) => Command::Approve,
        // What paused with its plan resumes with it.
        (Kind::PausedTask, Some(row)) if row.task.hold.as_ref().is_some_and(|hold| hold.cause == Cause::Plan) => return,
        (Kind::PausedTask, _) => Command::Resume,
        _ => panic!("{item:?} is not in the script"),
    };
    let which = Which::Task(item.task.clone().unwrap());
    done(windlass.task(&Order { which, command, config: None }, &ann()).await);
}

/// Asks for the pauses of the script, once each, and then lets the stages go on to see that they were asked.
async fn pause(stage: &Stage, inbox: &[Item], tasks: &[TaskRow]) {
    let windlass = &stage.windlass;
    let rests = windlass.task_history(&Which::Task(task_id(0))).await.unwrap();
    let plan = windlass.plan_history(&plan_id()).await.unwrap();
    let mut gate = 0;
    if rests.iter().any(|event| matches!(event.fact, Fact::TaskPauseRequested)) {
        gate = 1;
    } else if tasks.iter().any(|row| row.task.position == 0 && row.task.stage == Some(0)) {
        done(windlass.task(&order(0, Command::Pause(Cause::Person)), &ann()).await);
    }
    if plan.iter().any(|event| matches!(event.fact, Fact::PlanPaused)) {
        gate = 2;
    } else if tasks.iter().all(|row| row.task.stage == Some(1) && runs(row, inbox)) {
        done(windlass.plan(&plan_id(), Verb::Pause, &ann()).await);
    }
    stage.gate.send_if_modified(|open| std::mem::replace(open, gate.max(*open)) < gate);
}

/// RUNNING, and somebody alive runs it.
fn runs(row: &TaskRow, inbox: &[Item]) -> bool {
    let interrupted = |item: &Item| item.kind == Kind::InterruptedTask && item.task.as_ref() == Some(&row.task.id);
    row.task.status == TaskStatus::Running && row.control.start.is_none() && !inbox.iter().any(interrupted)
}

fn order(position: u32, command: Command) -> Order {
    Order { which: Which::Task(task_id(position)), command, config: None }
}

/// What the engine refuses has changed since it was looked at.
fn done(done: Result<Done, Error>) {
    assert!(matches!(done, Ok(_) | Err(Error::Refused(_) | Error::Store(_) | Error::Contended)), "{done:?}");
}
