//! The steps that random calls commit: built from what the store answers, by core's rules, and then
//! spoiled where the call says so.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{Event, Fact};
use windlass_core::fence::Fence;
use windlass_core::id::{StageName, TaskId};
use windlass_core::plan;
use windlass_core::port::state::{CheckpointPut, Key, Row, Step, TaskRow, Writer};
use windlass_core::projection;
use windlass_core::task::command::{Command, Decision, Retry, RetryFrom, Standing, decide};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Cause, Task, advance};

use super::call::{Call, Does, Go, PLANS, TASKS, Wants, What, Wrong};
use super::side::{Side, instance, task, tenant};
use super::text::GRAIN_MS;
use crate::world::step::{self, Draft};
use crate::world::{Attempt, BORN, id};

/// Stages of every task.
const STAGES: u32 = 3;

impl Side<'_> {
    /// The step that a call commits, if there is anything to write to.
    pub(super) async fn step(&self, call: &Call) -> Option<Step> {
        match &call.what {
            What::Create { plan, tenant: first, at_once } => {
                let tenants = [tenant(*first), tenant(first + 1)];
                let draft = Draft::new(&format!("plan-{plan}"), &[tenants[0].as_str(), tenants[1].as_str()]);
                let draft = draft.stages(STAGES).at_once(*at_once).born(BORN.plus(u64::from(call.n) / 8));
                Some(named(call, draft.step()))
            }
            What::Plan { plan, go, instance: i, late } => {
                let step = self.plan_step(call, *plan, *go, *i).await?;
                Some(late_plan(named(call, step), *late))
            }
            What::Again { back, reused } => {
                let mut step = self.steps.iter().rev().nth(*back)?.clone();
                step.op.digest ^= u64::from(*reused);
                Some(step)
            }
            What::Owner { task: i, does, wrong } => {
                let i = if matches!(does, Does::Begin) { *i } else { self.running(call, *i).await };
                let row = self.row(call, i).await?;
                let stored = self.rival(call).checkpoint(&row.task.id).await;
                Some(spoiled(named(call, self.owner_step(&row, i, *does, stored)), *wrong))
            }
            What::Claimer { task: i, skips, wrong } => {
                let row = self.row(call, *i).await?;
                let facts = if *skips { vec![Fact::TaskCancelled { cause: Cause::Conflict }] } else { Vec::new() };
                let mut step = put(&row, facts);
                step.by = Writer::Claimer(row.task.owner.clone().unwrap_or_else(|| instance(0)));
                step.tasks[0].task.owner = None;
                Some(spoiled(named(call, step), *wrong))
            }
            What::Person { task: i, wants, wrong } => {
                let row = self.row(call, *i).await?;
                Some(spoiled(named(call, self.person_step(call, &row, *wants).await), *wrong))
            }
            What::PutOff { task: i, epochs } => {
                let mut step = put(&self.row(call, *i).await?, Vec::new());
                step.tasks[0].task.ready_at = self.scale.base.plus(epochs * 1_000_000 + 500_000);
                Some(named(call, step))
            }
            _ => None,
        }
    }

    async fn row(&self, call: &Call, i: u32) -> Option<TaskRow> {
        match self.rival(call).load(Key::Task(task(i))).await {
            Some(Row::Task(row)) => Some(*row),
            _ => None,
        }
    }

    /// The first running task from `i` on, so that attempts come to something; `i` if none runs.
    async fn running(&self, call: &Call, i: u32) -> u32 {
        let all = PLANS * TASKS;
        for n in (i..i + all).map(|n| n % all) {
            let row = self.row(call, n).await;
            if row.is_some_and(|row| row.task.owner.is_some() && row.task.status.is_running()) {
                return n;
            }
        }
        i
    }

    async fn plan_step(&self, call: &Call, i: u32, go: Go, conductor: u32) -> Option<Step> {
        let id = id(&format!("plan-{i}"));
        let Some(Row::Plan(row)) = self.rival(call).load(Key::Plan(id)).await else { return None };
        let conductor = instance(conductor);
        let fact = match go {
            Go::Start => Fact::PlanStarted { conductor },
            Go::Pause => Fact::PlanPaused,
            Go::Resume => Fact::PlanResumed { conductor },
            Go::Settle => {
                let tally = self.rival(call).load(Key::Tally(row.plan.id.clone())).await;
                let Some(Row::Tally(tally)) = tally else { return None };
                plan::command::settle(&row.plan, tally)?
            }
        };
        // What the plan's table does not allow is tried as well: the store has it too.
        let by = match go {
            Go::Start => plan::PlanMove::Start,
            Go::Resume if row.plan.status.is_final() => plan::PlanMove::Reopen,
            Go::Resume => plan::PlanMove::Resume,
            Go::Pause => plan::PlanMove::Pause,
            Go::Settle => return Some(step::plan("settle", &row, fact)),
        };
        let fits = plan::after(row.plan.status, by).is_some();
        if fits {
            return Some(step::plan("move", &row, fact));
        }
        let put = windlass_core::port::state::PlanPut { plan: row.plan.clone(), version: row.version, spec: None };
        Some(Step { plan: Some(put), ..step::empty("move") })
    }

    fn owner_step(&self, row: &TaskRow, i: u32, does: Does, stored: Option<Checkpoint>) -> Step {
        let task = &row.task;
        let owner = task.owner.clone().unwrap_or_else(|| instance(0));
        let fence = self.lock_of(i, false).map_or(Fence::NONE, |held| held.fence);
        let attempt = Attempt { task: task.id.clone(), tenant: task.tenant.clone(), instance: owner, fence };
        let next = advance::next_stage(task, false).unwrap_or(task.completed).min(STAGES - 1);
        let at = step::at(next);
        let begin = advance::begin(task, row.control.start.as_ref(), attempt.instance.clone(), fence);
        let facts = match does {
            Does::Begin => begin.into_iter().collect(),
            Does::Stage => advance::ended(task, at.clone(), advance::Outcome::Completed { took_ms: 1 }),
            Does::Onward => vec![advance::onward(task, &stages(), &row.control, false, None)],
            Does::Approval => {
                advance::ended(task, at.clone(), advance::Outcome::ApprovalWanted { message: "Well?".to_owned() })
            }
            Does::Fail => advance::ended(task, at.clone(), advance::Outcome::Failed(step::failure("it broke"))),
            Does::Forget => Vec::new(),
        };
        let mut step = put(row, facts);
        step.by = Writer::Owner { instance: attempt.instance.clone(), fence };
        step.checkpoint = match does {
            Does::Stage | Does::Fail => CheckpointPut::Put(step::checkpoint(stored, next, &attempt)),
            Does::Forget => CheckpointPut::Remove,
            Does::Begin | Does::Onward | Does::Approval => CheckpointPut::Keep,
        };
        step
    }

    async fn person_step(&self, call: &Call, row: &TaskRow, wants: Wants) -> Step {
        let rival = self.rival(call);
        let checkpoint = rival.checkpoint(&row.task.id).await;
        let lease = match &row.task.owner {
            Some(owner) => rival.load(Key::Instance(owner.clone())).await,
            None => None,
        };
        // Real milliseconds have passed on a store's clock: leases end grains apart from each other.
        let now = self.now(call).plus(GRAIN_MS / 2);
        let lease_expired = !matches!(lease, Some(Row::Instance(row)) if row.until > now);
        let at = Standing {
            task: &row.task,
            control: &row.control,
            lease_expired,
            latest: true,
            frozen: false,
            stages: &stages(),
            checkpoint: checkpoint.as_ref(),
            kept_until: None,
            can_take_back: true,
            retry_limit: 0,
        };
        let by = id("Zoë");
        // What is wanted, or else the next that core allows.
        let first = Wants::ALL.iter().position(|other| *other == wants).unwrap_or(0);
        let others = Wants::ALL.iter().cycle().skip(first + 1).take(Wants::ALL.len());
        let others = others.filter(|other| **other != Wants::Cancel);
        let mut allowed = std::iter::once(&wants)
            .chain(others)
            .filter_map(|wants| decide(&at, &command(*wants), &by, None, BORN).ok());
        match allowed.next() {
            Some(decision) => decided(row, decision),
            // What core refuses is asked all the same, from where the task stands.
            None => step::asks("ask", &row.task.id, &[row.task.status], step::pause()),
        }
    }
}

fn command(wants: Wants) -> Command {
    let retry = |from| Command::Retry(Retry { from, restart_if_invalid: true, force: false });
    match wants {
        Wants::Pause => Command::Pause(Cause::Person),
        Wants::Resume => Command::Resume,
        Wants::Cancel => Command::Cancel(Cause::Person),
        Wants::Retry => retry(RetryFrom::Checkpoint),
        Wants::RetryFromStart => retry(RetryFrom::Start),
        Wants::Rollback => Command::Rollback { force: false },
        Wants::Approve => Command::Approve,
        Wants::Reject => Command::Reject,
        Wants::Skip => Command::SkipStage(None),
    }
}

/// A decision as a step: a put where the task itself changes, and the request.
fn decided(row: &TaskRow, decision: Decision) -> Step {
    let requests = Fact::is_request;
    let mut step = if decision.facts.iter().all(requests) && decision.ask.is_some() {
        let events = decision.facts.into_iter().map(|fact| step::task_event(&row.task, fact)).collect();
        Step { events, ..step::empty("ask") }
    } else {
        put(row, decision.facts)
    };
    if let Some(request) = decision.ask {
        step.ask = step::asks("ask", &row.task.id, &[row.task.status], request).ask;
    }
    if let Some(checkpoint) = decision.checkpoint {
        step.checkpoint = CheckpointPut::Put(checkpoint);
    }
    step
}

/// A person's put of the task after those facts that fit it.
fn put(row: &TaskRow, facts: Vec<Fact>) -> Step {
    let mut step = step::person("put", row, Vec::new());
    for fact in facts {
        let task: Task = step.tasks[0].task.clone();
        let event = step::task_event(&task, fact);
        if let Ok(after) = projection::apply(Some(task), &event) {
            step.tasks[0].task = after;
            step.events.push(event);
        }
    }
    step
}

/// The step under the call's own id, with its events at the call's own time.
fn named(call: &Call, step: Step) -> Step {
    let events = step.events.iter().map(|event| Event { at: BORN.plus(u64::from(call.n)), ..event.clone() });
    let answer = windlass_core::json::Json::of(&call.n).ok();
    Step { op: step::empty(&format!("call-{}", call.n)).op, events: events.collect(), answer, ..step }
}

fn late_plan(mut step: Step, late: bool) -> Step {
    if let Some(put) = step.plan.as_mut().filter(|_| late) {
        put.version = put.version.saturating_sub(1);
    }
    step
}

fn spoiled(mut step: Step, wrong: Wrong) -> Step {
    let ghost: TaskId = id("ghost");
    match wrong {
        Wrong::Nothing => {}
        Wrong::Fence => {
            if let Writer::Owner { fence, .. } = &mut step.by {
                *fence = Fence(1);
            }
        }
        Wrong::Owner => match &mut step.by {
            Writer::Owner { instance, .. } | Writer::Claimer(instance) => *instance = id("stranger"),
            Writer::Person(_) => {}
        },
        Wrong::From => {
            let from = Statuses::of(&[TaskStatus::Paused]);
            step.tasks.iter_mut().for_each(|put| put.from = from);
            step.ask.iter_mut().for_each(|ask| ask.from = from);
        }
        Wrong::Version => step.tasks.iter_mut().for_each(|put| put.version += 1),
        Wrong::Checkpoint => {
            step.checkpoint = CheckpointPut::Put(Checkpoint { version: 9, ..Checkpoint::new(1, BORN) });
        }
        Wrong::Task => {
            step.tasks.iter_mut().for_each(|put| put.task.id = ghost.clone());
            step.ask.iter_mut().for_each(|ask| ask.task = ghost.clone());
        }
    }
    step
}

fn stages() -> Vec<StageName> {
    (0..STAGES).map(step::stage).collect()
}
