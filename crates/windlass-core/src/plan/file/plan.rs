//! The plan and its tasks.

use std::collections::HashMap;

use crate::id::TenantId;
use crate::json::Json;
use crate::plan::spec::{
    CONCURRENCY, OnConflict, OnFailure, PlanFile, PlanSpec, Recovery, TASKS_MAX, TaskFile, TaskSpec,
};

use super::decode::{Fields, Spot, Wanted, each, id, json, list, whole, word};
use super::limits::{MAX_CONCURRENCY, RETRY_LIMIT, SETTINGS_BYTES_MAX};
use super::place::Place;
use super::problem::{Code, Problems, shown};
use super::stage::stages;
use super::tree::{Node, Value};

const PLAN: &[&str] =
    &["plan", "id", "max_concurrency", "on_conflict", "on_failure", "recovery", "retry_limit", "stages", "tasks"];
const TASK: &[&str] = &["tenant", "config", "previous", "retry_limit", "stages"];

const TASKS: Wanted =
    ("a list of tasks", "list one task or more, each a map with a `tenant`; in TOML each begins with `[[tasks]]`");

const ON_CONFLICT: &[(&str, OnConflict)] =
    &[("skip", OnConflict::Skip), ("wait", OnConflict::Wait), ("refuse", OnConflict::Refuse)];
const ON_FAILURE: &[(&str, OnFailure)] =
    &[("continue", OnFailure::Continue), ("stop", OnFailure::Stop), ("pause", OnFailure::Pause)];
const RECOVERY: &[(&str, Recovery)] = &[("manual", Recovery::Manual), ("auto", Recovery::Auto)];

pub(super) fn decode(tree: &Node, problems: &mut Problems) -> Option<PlanFile> {
    const HELP: &str = "write a map with the keys `plan`, `stages` and `tasks`";
    let root = Spot::root(tree);
    if let Value::Null = tree.value {
        return root.refuse(problems, Code::Empty, "there is nothing in the file", HELP);
    }
    let fields = Fields::of(&root, PLAN, ("a plan", HELP), problems)?;
    let name = fields.required("plan", "add `plan`: what the plan is called", problems);
    let name = name.and_then(|spot| id(&spot, problems));
    let own_id = fields.or("id", None, |spot| id(spot, problems).map(Some));
    let max_concurrency = fields.or("max_concurrency", CONCURRENCY, |spot| whole(spot, MAX_CONCURRENCY, problems));
    let on_conflict = fields.or("on_conflict", OnConflict::default(), |spot| word(spot, ON_CONFLICT, problems));
    let on_failure = fields.or("on_failure", OnFailure::default(), |spot| word(spot, ON_FAILURE, problems));
    let recovery = fields.or("recovery", Recovery::default(), |spot| word(spot, RECOVERY, problems));
    let retry_limit = fields.or("retry_limit", None, |spot| whole(spot, RETRY_LIMIT, problems).map(Some));
    let has_stages = fields.get("stages").is_some() || fields.meant("stages");
    let stages = fields.or("stages", Vec::new(), |spot| stages(spot, problems));
    let tasks = fields.required("tasks", "add `tasks`: a list with a map for each tenant", problems);
    let tasks = tasks.and_then(|spot| tasks_of(&spot, has_stages, problems));

    let spec = PlanSpec {
        max_concurrency: max_concurrency?,
        on_conflict: on_conflict?,
        on_failure: on_failure?,
        recovery: recovery?,
        retry_limit: retry_limit?,
        stages: stages?,
    };
    Some(PlanFile { name: name?, id: own_id?, spec, tasks: tasks? })
}

fn tasks_of(spot: &Spot<'_>, plan_has_stages: bool, problems: &mut Problems) -> Option<Vec<TaskFile>> {
    let nodes = list(spot, TASKS, TASKS_MAX, problems)?;
    let mut first = HashMap::new();
    each(spot, nodes, |spot| task(spot, plan_has_stages, &mut first, problems))
}

fn task(
    spot: &Spot<'_>,
    plan_has_stages: bool,
    first: &mut HashMap<TenantId, Place>,
    problems: &mut Problems,
) -> Option<TaskFile> {
    let fields = Fields::of(spot, TASK, ("a task", "write a map with the key `tenant`"), problems)?;
    let tenant = fields.required("tenant", "add `tenant`: whose task it is", problems);
    let tenant = tenant.and_then(|spot| new_tenant(&spot, first, problems));
    let config = fields.or("config", None, |spot| settings(spot, problems));
    let previous = fields.or("previous", None, |spot| settings(spot, problems));
    let retry_limit = fields.or("retry_limit", None, |spot| whole(spot, RETRY_LIMIT, problems).map(Some));
    let has_stages = plan_has_stages || fields.get("stages").is_some() || fields.meant("stages");
    let stages = fields.or("stages", None, |spot| stages(spot, problems).map(Some));
    if !has_stages {
        let help = "add `stages:` to the plan, for all its tasks, or to this one";
        return spot.refuse(problems, Code::NoStages, "the task has no stages", help);
    }
    let spec = TaskSpec { config: config?, previous: previous?, retry_limit: retry_limit?, stages: stages? };
    Some(TaskFile { tenant: tenant?, spec })
}

fn new_tenant(spot: &Spot<'_>, first: &mut HashMap<TenantId, Place>, problems: &mut Problems) -> Option<TenantId> {
    let tenant: TenantId = id(spot, problems)?;
    if let Some(before) = first.get(&tenant) {
        let message = format!("the tenant {} has a task already, at line {}", shown(tenant.as_str()), before.line);
        let help = "keep one of the two, or make two plans: a plan has one task for each tenant";
        return spot.refuse(problems, Code::RepeatedName, message, help);
    }
    first.insert(tenant.clone(), spot.node.place);
    Some(tenant)
}

/// `null` is the same as nothing, because programs that write plans write it so.
fn settings(spot: &Spot<'_>, problems: &mut Problems) -> Option<Option<Json>> {
    match spot.node.value {
        Value::Null => Some(None),
        _ => json(spot, SETTINGS_BYTES_MAX, problems).map(Some),
    }
}
