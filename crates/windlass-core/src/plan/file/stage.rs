//! Stages, as plans and tasks list them.

use std::collections::HashMap;

use crate::id::StageName;
use crate::retry::Retry;
use crate::stage::{Action, STAGES_MAX, Stage, TIMEOUT_MS};

use super::action::{ACTIONS, UNDO_ACTIONS, action};
use super::decode::{Fields, Spot, Wanted, duration, each, id, list, template, whole};
use super::limits::{BACKOFF, RETRY_MAX, TIMEOUT};
use super::place::Place;
use super::problem::{Code, Problems, shown};
use super::tree::Value;

const STAGE: &[&str] =
    &["name", "http", "poll", "exec", "sleep", "approval", "job", "handler", "when", "timeout", "retry", "undo"];
const STAGES: Wanted = (
    "a list of stages",
    "list one stage or more, each a map with a `name` and one action; in TOML each begins with `[[stages]]`",
);
const RETRY: &[&str] = &["max", "backoff", "max_backoff"];

pub(super) fn stages(spot: &Spot<'_>, problems: &mut Problems) -> Option<Vec<Stage>> {
    let nodes = list(spot, STAGES, STAGES_MAX, problems)?;
    let mut first = HashMap::new();
    each(spot, nodes, |spot| stage(spot, &mut first, problems))
}

fn stage(spot: &Spot<'_>, first: &mut HashMap<StageName, Place>, problems: &mut Problems) -> Option<Stage> {
    let fields = Fields::of(
        spot,
        STAGE,
        ("a stage", "write a map with a `name` and one action, such as { name: wait, sleep: 30s }"),
        problems,
    )?;
    let name = fields.required("name", "add `name`: what the stage is called", problems);
    let name = name.and_then(|spot| new_name(&spot, first, problems));
    let action = action(spot, &fields, ACTIONS, problems);
    let when = fields.or("when", None, |spot| condition(spot, problems).map(Some));
    let timeout_ms = fields.or("timeout", TIMEOUT_MS, |spot| duration(spot, TIMEOUT, problems));
    let retry = fields.or("retry", Retry::NONE, |spot| retry(spot, problems));
    let undo = fields.or("undo", None, |spot| undo(spot, problems).map(Some));
    Some(Stage { name: name?, action: action?, when: when?, timeout_ms: timeout_ms?, retry: retry?, undo: undo? })
}

fn new_name(spot: &Spot<'_>, first: &mut HashMap<StageName, Place>, problems: &mut Problems) -> Option<StageName> {
    let name: StageName = id(spot, problems)?;
    if let Some(before) = first.get(&name) {
        let message = format!("a stage is called {} already, at line {}", shown(name.as_str()), before.line);
        return spot.refuse(problems, Code::RepeatedName, message, "give each stage of a list a name of its own");
    }
    first.insert(name.clone(), spot.node.place);
    Some(name)
}

/// A template, or plain `false`: the quick way to switch a stage off.
fn condition(spot: &Spot<'_>, problems: &mut Problems) -> Option<String> {
    match spot.node.value {
        Value::Bool(value) => Some(value.to_string()),
        _ => template(spot, problems),
    }
}

fn retry(spot: &Spot<'_>, problems: &mut Problems) -> Option<Retry> {
    let fields = Fields::of(spot, RETRY, ("a map", "write a map such as { max: 3, backoff: 1s }"), problems)?;
    let max = fields.or("max", Retry::NONE.max, |spot| whole(spot, RETRY_MAX, problems));
    let backoff_ms = fields.or("backoff", Retry::NONE.backoff_ms, |spot| duration(spot, BACKOFF, problems));
    let longest = fields.or("max_backoff", None, |spot| duration(spot, BACKOFF, problems).map(Some));
    let (max, backoff_ms) = (max?, backoff_ms?);
    // A pause that was asked for is not cut short by a default.
    let max_backoff_ms = longest?.unwrap_or(Retry::NONE.max_backoff_ms.max(backoff_ms));
    if let Some(spot) = fields.get("max_backoff").filter(|_| max_backoff_ms < backoff_ms) {
        let help = "make `max_backoff` at least as long as `backoff`, which is 1s unless given";
        return spot.refuse(problems, Code::KeysDisagree, "`max_backoff` is shorter than `backoff`", help);
    }
    Some(Retry { max, backoff_ms, max_backoff_ms })
}

fn undo(spot: &Spot<'_>, problems: &mut Problems) -> Option<Action> {
    let fields =
        Fields::of(spot, ACTIONS, ("a map", "write a map with one action, such as { exec: [/bin/undo] }"), problems)?;
    let action = action(spot, &fields, UNDO_ACTIONS, problems)?;
    if let Some(spot) = fields.get("approval") {
        let help = "take it out: a rollback passes over approvals";
        return spot.refuse_key(problems, Code::BadAction, "an undo cannot be an approval", help);
    }
    Some(action)
}
