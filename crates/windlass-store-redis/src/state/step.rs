//! A step as the script of commits reads it, and its answer.

use std::collections::HashMap;

use redis::Value;
use windlass_core::event::Event;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, TaskId};
use windlass_core::json::Json;
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::state::{Ask, CheckpointPut, PlanPut, Step, Stepped, TaskPut, Writer};
use windlass_core::port::{PortError, Refusal};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Request, Task};
use windlass_core::time::Ms;

use super::event::tail;
use super::known::Known;
use super::row::{self, control};
use crate::error::corrupt;
use crate::group::Args;
use crate::reply::{Parts, parts};

/// Puts the step behind what the call has already.
pub(super) fn push(call: &mut Args, step: &Step) -> Result<(), PortError> {
    let (id, digest) = (&step.op.id, step.op.digest);
    call.push(id.as_str());
    call.push(match &step.by {
        Writer::Owner { .. } | Writer::Claimer(_) => row::said(id, digest),
        Writer::Person(_) => digest.to_string(),
    });
    match &step.by {
        Writer::Owner { instance, fence } => call.push(("O", instance.as_str(), fence.0)),
        Writer::Claimer(instance) => call.push(("C", instance.as_str(), 0)),
        Writer::Person(_) => call.push(("P", "", 0)),
    }
    push_plan(call, step)?;
    call.push(step.tasks.len());
    for put in &step.tasks {
        push_task(call, put)?;
    }
    match &step.checkpoint {
        CheckpointPut::Keep => call.push("keep"),
        CheckpointPut::Remove => call.push("remove"),
        CheckpointPut::Put(checkpoint) => {
            let instance = checkpoint.executor_instance.as_ref().map_or("", InstanceId::as_str);
            call.push(("put", json(checkpoint)?, checkpoint.version, checkpoint.fence.0, instance));
        }
    }
    match &step.ask {
        None => call.push(0),
        Some(ask) => push_ask(call, ask)?,
    }
    call.push(step.events.len());
    let tasks: HashMap<&TaskId, &Task> = step.tasks.iter().map(|put| (&put.task.id, &put.task)).collect();
    for event in &step.events {
        push_event(call, event, event.task.as_ref().and_then(|task| tasks.get(task).copied()))?;
    }
    call.push(step.answer.as_ref().map_or("", Json::as_str));
    Ok(())
}

fn push_plan(call: &mut Args, step: &Step) -> Result<(), PortError> {
    let Some(PlanPut { plan, version, spec }) = &step.plan else {
        call.push(0);
        return Ok(());
    };
    let from = PlanStatus::ALL.into_iter().filter(|from| from.may_become(plan.status));
    let from: String = from.fold(",".to_owned(), |all, from| all + from.name() + ",");
    let tasks: Vec<&str> =
        step.tasks.iter().filter(|put| put.task.plan == plan.id).map(|put| put.task.id.as_str()).collect();
    call.push((1, plan.id.as_str(), plan.status.name(), from, *version, plan.created_at.get()));
    call.push((at(plan.ended_at), json(&tasks)?));
    push_spec(call, spec.as_ref())?;
    push_fields(call, row::plan_fields(plan));
    Ok(())
}

fn push_task(call: &mut Args, put: &TaskPut) -> Result<(), PortError> {
    let Task { id, tenant, plan, position, created_at, status, fence, ready_at, .. } = &put.task;
    let owner = put.task.owner.as_ref().map_or("", InstanceId::as_str);
    call.push((id.as_str(), tenant.as_str(), plan.as_str(), *position, created_at.get(), status.name()));
    call.push((names(put.from), put.version, fence.0, owner, ready_at.get()));
    push_spec(call, put.spec.as_ref())?;
    let mut fields = row::task_fields(&put.task, None)?;
    if put.from.is_empty() {
        fields.extend(row::fixed_fields(&put.task));
    }
    push_fields(call, fields);
    Ok(())
}

fn push_spec<T: serde::Serialize>(call: &mut Args, spec: Option<&T>) -> Result<(), PortError> {
    match spec {
        None => call.push(0),
        Some(spec) => call.push((1, json(spec)?)),
    }
    Ok(())
}

fn push_fields(call: &mut Args, fields: Vec<(&'static str, String)>) {
    call.push(fields.len());
    for (name, value) in fields {
        call.push((name, value));
    }
}

fn push_ask(call: &mut Args, ask: &Ask) -> Result<(), PortError> {
    let (request, value) = match &ask.request {
        Request::Pause(hold) => ("pause", json(hold)?),
        Request::Unpause => ("unpause", String::new()),
        Request::Cancel(hold) => ("cancel", json(hold)?),
        Request::Skip(skip) => ("skip", json(skip)?),
        Request::Start(start) => ("start", json(start)?),
        Request::Revoke(fence) => ("revoked", fence.0.to_string()),
    };
    call.push((1, ask.task.as_str(), names(ask.from), request, value));
    Ok(())
}

fn push_event(call: &mut Args, event: &Event, about: Option<&Task>) -> Result<(), PortError> {
    let task = event.task.as_ref().map_or("", |task| task.as_str());
    call.push((task, event.plan.as_str(), event.fact.name(), tail(event, about)?));
    Ok(())
}

pub(super) fn at(ms: Option<Ms>) -> String {
    ms.map_or_else(String::new, |ms| ms.get().to_string())
}

/// Between commas, so that one can be looked for.
fn names(statuses: Statuses) -> String {
    match statuses.is_empty() {
        true => String::new(),
        false => statuses.iter().fold(",".to_owned(), |all, status| all + status.name() + ","),
    }
}

pub(crate) fn json<T: serde::Serialize>(value: &T) -> Result<String, PortError> {
    serde_json::to_string(value).map_err(|error| PortError::Invalid(format!("it cannot be written: {error}")))
}

/// What the step came to.
pub(super) fn answered(known: &Known, step: &Step, answer: Value) -> Result<Result<Stepped, Refusal>, PortError> {
    let parts = &mut parts(answer)?;
    let word = parts.text()?;
    if word != "ok" {
        return refusal(&word, parts, |what, nth| expected(step, what, nth)).map(Err);
    }
    let (version, seq, at) = (parts.number()?, parts.number()?, parts.at()?);
    let kept = parts.some()?.map(|text| Json::parse(&text)).transpose().map_err(|error| corrupt("an answer", error))?;
    let stepped = Stepped { version, seq, control: control(parts)?, at, answer: kept };
    let checkpoint = parts.some()?.map(|version| version.parse()).transpose();
    known.stepped(step, &stepped, checkpoint.map_err(|error| corrupt("a checkpoint's version", error))?);
    Ok(Ok(stepped))
}

fn expected(step: &Step, what: &str, nth: usize) -> String {
    let of_plan = |plan: &Plan| format!("one that may become {}", plan.status);
    match what {
        "plan" => step.plan.as_ref().map(|put| of_plan(&put.plan)),
        "task" => step.tasks.get(nth).map(|put| put.from.to_string()),
        _ => step.ask.as_ref().map(|ask| ask.from.to_string()),
    }
    .unwrap_or_default()
}

/// Why an item was refused, as scripts say it.
pub(super) fn refusal(
    word: &str,
    parts: &mut Parts,
    expected: impl Fn(&str, usize) -> String,
) -> Result<Refusal, PortError> {
    Ok(match word {
        "OpReused" => Refusal::OpReused,
        "Exists" => Refusal::Exists(parts.text()?),
        "NotFound" => Refusal::NotFound(parts.text()?),
        "Invalid" => Refusal::Invalid(parts.text()?),
        "Version" => Refusal::Version { given: parts.number()?, stored: parts.number()? },
        "Checkpoint" => Refusal::Checkpoint { given: parts.number()?, stored: parts.number()? },
        "Stale" => Refusal::Stale { given: Fence(parts.parse()?), stored: Fence(parts.parse()?) },
        "Owned" => {
            let owner = parts.some()?.map(|owner| owner.parse()).transpose();
            Refusal::Owned { owner: owner.map_err(|error| corrupt("an owner", error))?, until: parts.at()? }
        }
        "State" => {
            let status = status_name(&parts.text()?)?;
            let what = parts.text()?;
            Refusal::State { status, expected: expected(&what, parts.number()?) }
        }
        other => return Err(corrupt("an answer", other)),
    })
}

fn status_name(text: &str) -> Result<&'static str, PortError> {
    let tasks = TaskStatus::ALL.into_iter().map(TaskStatus::name);
    let mut all = tasks.chain(PlanStatus::ALL.into_iter().map(PlanStatus::name));
    all.find(|name| *name == text).ok_or_else(|| corrupt("a status", text))
}
