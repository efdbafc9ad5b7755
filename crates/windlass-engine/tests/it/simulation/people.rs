//! What people do: everything, at any time, by any instance, sometimes twice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use windlass_core::id::{InstanceId, PlanId, TaskId};
use windlass_core::json::Json;
use windlass_core::plan::spec::PlanFile;
use windlass_core::port::lock::Force;
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_engine::command::plan::Verb;
use windlass_engine::command::task::{Order, Which};
use windlass_engine::command::{Caller, IdempotencyKey};
use windlass_engine::{Engine, Error};

use super::plans;
use super::truth::Truth;

/// Something that a person asks for, so that it can be asked again.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    Create(Box<PlanFile>, bool),
    Plan(PlanId, Verb),
    Task(Order),
    Tenant(u32, Force),
}

/// A wish, and how it is asked.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    wish: Wish,
    caller: Caller,
}

/// What people remember.
#[derive(Default)]
pub(super) struct Memory {
    named: u32,
    keys: u32,
    /// Asked with a key, and what the answer was.
    answers: Arc<Mutex<BTreeMap<String, String>>>,
    repeatable: Vec<Asked>,
}

/// A person, without more.
pub(super) fn caller() -> Caller {
    Caller::new("ann".parse().unwrap())
}

/// Something that somebody wants now.
pub(super) fn wish(dice: &mut fastrand::Rng, truth: &Truth, memory: &mut Memory) -> Asked {
    if !memory.repeatable.is_empty() && dice.u32(..8) == 0 {
        return memory.repeatable[dice.usize(..memory.repeatable.len())].clone();
    }
    let (plans, tasks) = {
        let facts = truth.facts();
        let plans: Vec<PlanId> = facts.plans.keys().cloned().collect();
        (plans, facts.tasks.keys().cloned().collect::<Vec<TaskId>>())
    };
    let wish = match dice.u32(..100) {
        _ if plans.is_empty() || tasks.is_empty() => creation(dice, memory),
        0..10 if plans.len() < 5 => creation(dice, memory),
        10..35 => {
            let verb = [Verb::Start, Verb::Pause, Verb::Resume, Verb::Resume, Verb::Cancel];
            // A cancelled plan has not much left to tell.
            let verb = if dice.u32(..4) == 0 { verb[dice.usize(..5)] } else { verb[dice.usize(..4)] };
            Wish::Plan(plans[dice.usize(..plans.len())].clone(), verb)
        }
        35..43 => {
            let force = [Force::Freeze, Force::Unfreeze, Force::Unfreeze, Force::Release];
            Wish::Tenant(dice.u32(..plans::TENANTS), force[dice.usize(..4)])
        }
        _ => {
            let which = match dice.u32(..3) {
                0 => Which::Tenant(plans::tenant(dice.u32(..plans::TENANTS))),
                _ => Which::Task(tasks[dice.usize(..tasks.len())].clone()),
            };
            let command = command(dice);
            let renewed = matches!(command, Command::Retry(_)) && dice.u32(..4) == 0;
            let config = renewed.then(|| Json::parse("\"newer\"").unwrap());
            Wish::Task(Order { which, command, config })
        }
    };
    let key = (dice.u32(..3) == 0).then(|| {
        memory.keys += 1;
        IdempotencyKey { credential: "c".to_owned(), key: format!("k{}", memory.keys) }
    });
    let reason = dice.bool().then(|| "because".parse().unwrap());
    let caller = Caller { reason, key, dry_run: dice.u32(..20) == 0, ..caller() };
    let asked = Asked { wish, caller };
    if asked.caller.key.is_some() && !asked.caller.dry_run {
        memory.repeatable.push(asked.clone());
    }
    asked
}

/// Everything that this instance seems to have left is to go on elsewhere.
pub(super) fn take_up(truth: &Truth, instance: &InstanceId) -> Vec<Asked> {
    let facts = truth.facts();
    let left = facts.tasks.iter().filter(|(_, task)| task.owner.as_ref() == Some(instance));
    let retry = Retry { from: RetryFrom::Checkpoint, restart_if_invalid: true, force: false };
    left.map(|(id, _)| {
        let command = Command::Retry(retry.clone());
        Asked { wish: Wish::Task(Order { which: Which::Task(id.clone()), command, config: None }), caller: caller() }
    })
    .collect()
}

fn creation(dice: &mut fastrand::Rng, memory: &mut Memory) -> Wish {
    memory.named += 1;
    let start = dice.u32(..5) > 0;
    Wish::Create(Box::new(plans::random(dice, &format!("p{}", memory.named))), start)
}

fn command(dice: &mut fastrand::Rng) -> Command {
    let force = dice.bool();
    let stage = format!("s{}", dice.u32(..5)).parse().unwrap();
    let retry = |from| Command::Retry(Retry { from, restart_if_invalid: force, force });
    match dice.u32(..20) {
        0..3 => Command::Pause(Cause::Person),
        3..6 => Command::Resume,
        6 => Command::Cancel(Cause::Person),
        7..10 => retry(RetryFrom::Checkpoint),
        10 => retry(RetryFrom::Stage(stage)),
        11 => retry(RetryFrom::Start),
        12..14 => Command::Rollback { force },
        14..17 => Command::Approve,
        17 => Command::Reject,
        18 => Command::SkipStage(None),
        _ => Command::SkipStage(Some(stage)),
    }
}

/// Asks an engine for it, and holds the answer against an earlier one.
pub(super) async fn ask(engine: Engine, asked: Asked, truth: Arc<Truth>, answers: &Mutex<BTreeMap<String, String>>) {
    let Asked { wish, caller } = asked;
    let what = match &wish {
        Wish::Create(file, start) => format!("create {} {start}", file.name),
        other => format!("{other:?}"),
    };
    let key = caller.key.as_ref().map(|key| key.key.clone());
    truth.note(format_args!("{} is asked ({key:?}): {what}", engine.instance()));
    let answer: Result<String, Error> = match wish {
        Wish::Create(file, start) => engine.create(&file, start, &caller).await.map(|made| format!("{made:?}")),
        Wish::Plan(plan, verb) => engine.plan(&plan, verb, &caller).await.map(|done| format!("{done:?}")),
        Wish::Task(order) => engine.task(&order, &caller).await.map(|done| format!("{done:?}")),
        Wish::Tenant(n, force) => {
            let done = engine.tenant(&plans::tenant(n), force, &caller).await;
            // What it was before is told, so the second answer is another one.
            truth.note(format_args!("{} answers {:?}", engine.instance(), done.err()));
            return;
        }
    };
    truth.note(format_args!("{} answers ({what}): {answer:?}", engine.instance()));
    if let Err(error @ (Error::Misfit(_) | Error::Invalid(_))) = &answer {
        truth.wrong(format_args!("{what} was answered {error}"));
    }
    let (Some(key), Ok(answer), false) = (key, answer, caller.dry_run) else { return };
    // Taken without the store, it gets its lasting answer later.
    if answer.contains("asked for in memory") {
        return;
    }
    let mut answers = answers.lock().unwrap();
    let first = answers.entry(key.clone()).or_insert_with(|| answer.clone());
    if *first != answer {
        truth.wrong(format_args!("{what} with key {key} was answered {first}, and then {answer}"));
    }
}

impl Memory {
    pub(super) fn answers(&self) -> &Arc<Mutex<BTreeMap<String, String>>> {
        &self.answers
    }
}
