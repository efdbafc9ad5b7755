//! What is true: as it is seen at the store itself and at the target, beneath every fault. The promises are
//! judged here, at the moment at which they would be broken.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::event::{Begun, Event, Fact};
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, OpId, PlanId, TaskId, TenantId};
use windlass_core::plan::spec::Recovery;
use windlass_core::port::state::{Step, Stepped, TaskRow, Writer};
use windlass_core::task::Task;
use windlass_engine::stage::Told;

use super::plans::{index_of, is_silent};
use super::works::Works;

/// Calls in one millisecond beyond which somebody goes round in circles.
const CALLS_MAX: u32 = 5_000;

/// Everything that happened in one seed, and the first thing that should not have.
pub(super) struct Truth {
    facts: Mutex<Facts>,
    /// Rung after every write.
    pub(super) bell: Notify,
}

pub(super) struct Facts {
    began: Instant,
    hash: DefaultHasher,
    trace: Option<Vec<String>>,
    wrong: Option<String>,
    pub(super) plans: BTreeMap<PlanId, PlanSeen>,
    pub(super) tasks: BTreeMap<TaskId, TaskSeen>,
    /// The highest fence under which each tenant's state was written.
    fences: BTreeMap<TenantId, Fence>,
    /// The highest that the target has seen.
    target: BTreeMap<TenantId, Fence>,
    attempts: BTreeMap<Fence, Tried>,
    /// Where each pass of each task began.
    bases: BTreeMap<(TaskId, u32), u32>,
    /// Stages whose end is durable, by task, pass and index.
    done: BTreeSet<(TaskId, u32, u32)>,
    /// Stages that a person passed over while nobody ran the task.
    passed_over: BTreeSet<(TaskId, u32, u32)>,
    /// Operations of people and of engines on their behalf that took effect.
    ops: BTreeSet<OpId>,
    quiet: Option<Quiet>,
    pub(super) works: Works,
    /// Calls in this millisecond.
    calls: (u128, u32),
    /// How often each kind of thing happened.
    pub(super) counts: BTreeMap<&'static str, u64>,
}

pub(super) struct PlanSeen {
    pub(super) name: String,
    max_concurrency: u32,
    recovery: Recovery,
    pub(super) stages: Vec<windlass_core::stage::Stage>,
}

pub(super) struct TaskSeen {
    pub(super) plan: PlanId,
    pub(super) owner: Option<InstanceId>,
    version: u64,
}

struct Tried {
    task: TaskId,
    pass: u32,
    rollback: bool,
    /// The stages that ran, in order.
    ran: Vec<u32>,
}

/// After everything has stopped and until a person does something, these plans stand still.
struct Quiet {
    plans: BTreeSet<PlanId>,
    /// What they sent may still arrive.
    before: BTreeSet<InstanceId>,
}

impl Truth {
    pub(super) fn new(told: bool) -> Truth {
        let facts = Mutex::new(Facts {
            began: Instant::now(),
            hash: DefaultHasher::new(),
            trace: told.then(Vec::new),
            wrong: None,
            plans: BTreeMap::new(),
            tasks: BTreeMap::new(),
            fences: BTreeMap::new(),
            target: BTreeMap::new(),
            attempts: BTreeMap::new(),
            bases: BTreeMap::new(),
            done: BTreeSet::new(),
            passed_over: BTreeSet::new(),
            ops: BTreeSet::new(),
            quiet: None,
            works: Works::default(),
            calls: (0, 0),
            counts: BTreeMap::new(),
        });
        Truth { facts, bell: Notify::new() }
    }

    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap()
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        self.facts().note(what);
    }

    /// The first thing that is wrong stays.
    pub(super) fn wrong(&self, what: std::fmt::Arguments<'_>) {
        self.facts().wrong(what);
    }

    pub(super) fn is_wrong(&self) -> bool {
        self.facts().wrong.is_some()
    }

    /// What was wrong, a number for everything that happened, and the tale if it was told.
    pub(super) fn end(&self) -> (Option<String>, u64, Vec<String>) {
        let mut facts = self.facts();
        (facts.wrong.take(), facts.hash.finish(), facts.trace.take().unwrap_or_default())
    }

    /// An engine makes a call; `false` if it does nothing but that.
    pub(super) fn may_call(&self, what: &str) -> bool {
        let mut facts = self.facts();
        let now = facts.age().as_millis();
        let (at, calls) = facts.calls;
        facts.calls = (now, if at == now { calls + 1 } else { 0 });
        if calls == CALLS_MAX {
            facts.wrong(format_args!("{CALLS_MAX} calls in one millisecond, the last of {what}"));
        }
        calls < CALLS_MAX
    }

    /// A stage wants to do something at the target; `false` if the target has seen a higher fence.
    pub(super) fn effect(&self, told: &Told, first: bool) -> bool {
        self.facts().effect(told, first)
    }

    /// Everything has stopped.
    pub(super) fn all_stopped(&self, before: BTreeSet<InstanceId>) {
        let mut facts = self.facts();
        let manual = facts.plans.iter().filter(|(_, plan)| plan.recovery == Recovery::Manual);
        let plans = manual.map(|(id, _)| id.clone()).collect();
        facts.quiet = Some(Quiet { plans, before });
    }

    /// A person does something.
    pub(super) fn person(&self) {
        self.facts().quiet = None;
    }
}

impl Facts {
    /// How long the world is there.
    pub(super) fn age(&self) -> std::time::Duration {
        self.began.elapsed()
    }

    pub(super) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        let line = format!("{:>7} {what}", self.began.elapsed().as_millis());
        self.hash.write(line.as_bytes());
        if let Some(trace) = &mut self.trace {
            trace.push(line);
        }
    }

    pub(super) fn wrong(&mut self, what: std::fmt::Arguments<'_>) {
        self.note(format_args!("WRONG: {what}"));
        if self.wrong.is_none() {
            self.wrong = Some(what.to_string());
        }
    }

    /// The store took a step, or had taken it before.
    pub(super) fn taken(&mut self, from: &InstanceId, step: &Step, stepped: &Stepped) {
        let again = match (&step.by, &step.tasks[..]) {
            (Writer::Person(_), _) => !self.ops.insert(step.op.id.clone()),
            (_, [put]) => self.tasks.get(&put.task.id).is_some_and(|seen| seen.version == stepped.version),
            _ => false,
        };
        self.note_step(from, step, if again { "had" } else { "took" });
        if again {
            return self.count("a repeat was known again");
        }
        self.is_quiet(from, step);
        if let Some(put) = &step.plan
            && let Some(spec) = &put.spec
        {
            let seen = PlanSeen {
                name: put.plan.name.to_string(),
                max_concurrency: spec.max_concurrency,
                recovery: spec.recovery,
                stages: spec.stages.clone(),
            };
            self.plans.insert(put.plan.id.clone(), seen);
            if matches!(&step.by, Writer::Person(by) if by.as_str().starts_with("trigger:")) {
                self.count("a trigger made a plan");
            }
        }
        if let (Writer::Owner { fence, .. }, [put]) = (&step.by, &step.tasks[..]) {
            self.written_under(*fence, &put.task);
        }
        for put in &step.tasks {
            let Task { id, plan, owner, .. } = put.task.clone();
            let version = self.tasks.get(&id).map_or(1, |seen| seen.version + 1);
            self.tasks.insert(id, TaskSeen { plan, owner, version });
        }
        let mut changed: BTreeSet<_> = step.events.iter().filter_map(|event| event.task.clone()).collect();
        changed.extend(step.ask.as_ref().map(|ask| ask.task.clone()));
        for id in changed.into_iter().filter(|id| !step.tasks.iter().any(|put| put.task.id == *id)) {
            if let Some(seen) = self.tasks.get_mut(&id) {
                seen.version += 1;
            }
        }
        for event in &step.events {
            self.happened(event, step);
        }
    }

    fn note_step(&mut self, from: &InstanceId, step: &Step, how: &str) {
        let facts: Vec<_> = step.events.iter().map(|event| Shown(event).to_string()).collect();
        let subject = match (&step.tasks[..], &step.plan) {
            ([put], _) => format!("{} -> {} of {:?}", put.task.id, put.task.status, put.task.owner),
            (_, Some(put)) => format!("{} -> {}", put.plan.id, put.plan.status),
            _ => String::new(),
        };
        let by = match &step.by {
            Writer::Owner { fence, .. } => format!("owner under {fence}"),
            Writer::Claimer(_) => "claimer".to_owned(),
            Writer::Person(by) => by.to_string(),
        };
        let ask = step.ask.as_ref().map(|ask| format!(" ask {} {:?}", ask.task, ask.request)).unwrap_or_default();
        self.note(format_args!("{from} {how} {} by {by}: {subject}{ask} {facts:?}", step.op.id));
    }

    pub(super) fn written_under(&mut self, fence: Fence, task: &Task) {
        let last = self.fences.entry(task.tenant.clone()).or_default();
        let (stored, seen) = (*last, self.target.get(&task.tenant).copied().unwrap_or_default());
        *last = stored.max(fence);
        if fence < stored {
            self.wrong(format_args!("{}'s state was written under {fence} after {stored}", task.tenant));
        }
        if fence < seen {
            self.wrong(format_args!("{} was written under {fence}, the target has seen {seen}", task.id));
        }
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn happened(&mut self, event: &Event, step: &Step) {
        self.count(event.fact.name());
        let Some(task) = &event.task else { return };
        let pass = step.tasks.first().map_or(1, |put| put.task.pass);
        match &event.fact {
            Fact::TaskStarted(begun) | Fact::TaskRetryStarted(begun) => self.begun(task, begun, false),
            Fact::TaskResumed(begun) => self.begun(task, begun, false),
            Fact::TaskRollingBack(begun) => self.begun(task, begun, true),
            Fact::StageCompleted { at, .. } => {
                let first = self.done.insert((task.clone(), pass, at.index));
                if !first {
                    self.wrong(format_args!("stage {} of {task} completed twice in pass {pass}", at.index));
                }
            }
            // A person's word about an interrupted task raises no fence: it binds the next attempt only.
            Fact::StageSkipped(at) if matches!(step.by, Writer::Person(_)) => {
                self.passed_over.insert((task.clone(), pass, at.index));
            }
            Fact::StageSkipped(at) | Fact::Approved(at) => {
                self.done.insert((task.clone(), pass, at.index));
            }
            _ => {}
        }
    }

    fn begun(&mut self, task: &TaskId, begun: &Begun, rollback: bool) {
        let Begun { range, pass, fence, .. } = begun;
        let base = self.bases.entry((task.clone(), *pass)).or_insert(range.from);
        *base = range.from.min(*base);
        let tried = Tried { task: task.clone(), pass: *pass, rollback, ran: Vec::new() };
        if self.attempts.insert(*fence, tried).is_some() {
            self.wrong(format_args!("two attempts began under fence {fence}"));
        }
    }

    fn is_quiet(&mut self, from: &InstanceId, step: &Step) {
        let Some(quiet) = self.quiet.as_ref().filter(|quiet| !quiet.before.contains(from)) else { return };
        let settles = |fact: &Fact| {
            matches!(fact, Fact::PlanCompleted { .. } | Fact::PlanFailed { .. } | Fact::PlanCancelled { .. })
        };
        // That all its tasks have ended may still be written down.
        let moved = match &step.plan {
            Some(put) => quiet.plans.contains(&put.plan.id) && !step.events.iter().all(|event| settles(&event.fact)),
            None => step.tasks.iter().any(|put| quiet.plans.contains(&put.task.plan)),
        };
        if moved {
            let facts: Vec<_> = step.events.iter().map(|event| event.fact.name()).collect();
            self.wrong(format_args!("after a restart, and without anybody's word, {from} did {facts:?}"));
        }
    }

    /// The store made these tasks somebody's.
    pub(super) fn claimed(&mut self, from: &InstanceId, rows: &[TaskRow], in_turn: bool) {
        let mut plans = BTreeSet::new();
        for row in rows {
            let TaskRow { task, version, .. } = row;
            self.note(format_args!("{from} claims {} ({})", task.id, task.status));
            if let Some(quiet) = self.quiet.as_ref().filter(|quiet| !quiet.before.contains(from))
                && quiet.plans.contains(&task.plan)
            {
                self.wrong(format_args!("after a restart, and without anybody's word, {from} claimed {}", task.id));
            }
            let Task { plan, owner, .. } = task.clone();
            plans.insert(plan.clone());
            self.tasks.insert(task.id.clone(), TaskSeen { plan, owner, version: *version });
        }
        for plan in plans.into_iter().filter(|_| in_turn) {
            let owned = self.tasks.values().filter(|task| task.plan == plan && task.owner.is_some()).count();
            let max = self.plans.get(&plan).map_or(u32::MAX, |plan| plan.max_concurrency);
            if owned > max as usize {
                self.wrong(format_args!("{owned} tasks of plan {plan} are owned; at most {max} may be"));
            }
        }
    }

    fn effect(&mut self, told: &Told, first: bool) -> bool {
        let Told { tenant, task, stage, pass, fence, .. } = told;
        let seen = self.target.entry(tenant.clone()).or_default();
        if *fence < *seen {
            let seen = *seen;
            self.count("the target refused");
            self.note(format_args!("target refuses {task}/{stage}/{pass} under {fence}: it has seen {seen}"));
            return false;
        }
        *seen = *fence;
        self.count("the target took");
        self.note(format_args!("target takes {task}/{stage}/{pass} under {fence}"));
        let index = index_of(stage);
        if self.fences.get(tenant).copied().unwrap_or_default() < *fence {
            self.wrong(format_args!("{task}/{stage} runs under {fence}, which the store has not seen"));
            return true;
        }
        let base = self.bases.get(&(task.clone(), *pass)).copied().unwrap_or(0);
        let stages = self.tasks.get(task).and_then(|task| self.plans.get(&task.plan)).map(|plan| plan.stages.clone());
        let done = |index: u32| self.done.contains(&(task.clone(), *pass, index));
        let again = done(index);
        let Some(tried) = self.attempts.get(fence).filter(|tried| tried.task == *task && tried.pass == *pass) else {
            self.wrong(format_args!("{task}/{stage}/{pass} runs under {fence}, which is not its attempt's"));
            return true;
        };
        let silent = |index: u32| stages.as_ref().is_some_and(|stages| is_silent(&stages[index as usize]));
        let passed_over = |index: u32| self.passed_over.contains(&(task.clone(), *pass, index));
        let ready = |before: u32| done(before) || passed_over(before) || tried.ran.contains(&before) || silent(before);
        let missing = (base..index).find(|before| !tried.rollback && !ready(*before));
        let back = tried.rollback && tried.ran.windows(3).any(|run| (run[0] < run[1]) != (run[1] < run[2]));
        if again && first {
            self.wrong(format_args!("{task}/{stage} runs again in pass {pass}, although its end was durable"));
        } else if let Some(missing) = missing {
            self.wrong(format_args!("{task}/{stage} runs in pass {pass} before stage {missing} is done"));
        } else if back {
            self.wrong(format_args!("the rollback of {task} under {fence} goes to and fro"));
        }
        if let Some(tried) = self.attempts.get_mut(fence)
            && tried.ran.last() != Some(&index)
        {
            tried.ran.push(index);
        }
        true
    }
}

/// An event in a trace.
struct Shown<'a>(&'a Event);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fact = &self.0.fact;
        f.write_str(fact.name())?;
        match fact {
            Fact::StageStarted(at) | Fact::StageSkipped(at) | Fact::Approved(at) => write!(f, " {}", at.stage),
            Fact::StageCompleted { at, .. } | Fact::StageFailed { at, .. } => write!(f, " {}", at.stage),
            Fact::TaskRetryStarted(begun) | Fact::TaskRollingBack(begun) => {
                write!(f, " [{}, {}) pass {}", begun.range.from, begun.range.to, begun.pass)
            }
            Fact::TaskPaused { cause } | Fact::TaskCancelled { cause } => write!(f, " {cause:?}"),
            _ => Ok(()),
        }
    }
}
