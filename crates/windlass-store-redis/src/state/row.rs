//! Plans and tasks as hashes: names and values, an empty value for what there is not.

mod fields;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use windlass_core::failure::Failure;
use windlass_core::id::{InstanceId, OpId};
use windlass_core::json::Json;
use windlass_core::plan::Plan;
use windlass_core::port::PortError;
use windlass_core::task::range::Range;
use windlass_core::task::{Attempt, AttemptKind, Control, Hold, Task};
use windlass_core::time::Ms;

use super::known::Part;
use super::step::json;
pub(super) use fields::{Fields, control};

/// Behind the last write of a task that its tenant's next one has overtaken.
const OVERTAKEN: char = '!';

type Pairs = Vec<(&'static str, String)>;

/// What of a plan is read; its tasks' ids are for people.
pub(super) const PLAN: [&str; 16] = [
    "planId",
    "name",
    "status",
    "tasks",
    "maxConcurrency",
    "onFailure",
    "onConflict",
    "recovery",
    "conductor",
    "cancelled",
    "createdAt",
    "startedAt",
    "updatedAt",
    "endedAt",
    "version",
    "seq",
];

/// What of a task is read where it is handed out.
pub(super) const TASK: [&str; 28] = [
    "taskId",
    "tenantId",
    "planId",
    "position",
    "status",
    "stages",
    "completed",
    "stage",
    "attempt",
    "done",
    "detail",
    "owner",
    "fence",
    "readyAt",
    "createdAt",
    "startedAt",
    "updatedAt",
    "endedAt",
    "pause",
    "cancel",
    "skip",
    "start",
    "revoked",
    "control",
    "checkpoint",
    "version",
    "seq",
    "op",
];

pub(super) fn plan_fields(plan: &Plan) -> Pairs {
    let word = |value: Result<String, PortError>| value.unwrap_or_default().trim_matches('"').to_owned();
    vec![
        ("planId", plan.id.to_string()),
        ("name", plan.name.to_string()),
        ("status", plan.status.name().to_owned()),
        ("tasks", plan.tasks.to_string()),
        ("maxConcurrency", plan.max_concurrency.to_string()),
        ("onFailure", word(json(&plan.on_failure))),
        ("onConflict", word(json(&plan.on_conflict))),
        ("recovery", word(json(&plan.recovery))),
        ("conductor", id(plan.conductor.as_ref())),
        ("cancelled", plan.cancelled.to_string()),
        ("createdAt", plan.created_at.get().to_string()),
        ("startedAt", at(plan.started_at)),
        ("updatedAt", plan.updated_at.get().to_string()),
        ("endedAt", at(plan.ended_at)),
    ]
}

/// What of a task may change; of one that was so, what has. Nothing of a task that runs is longer than 64 bytes, or Redis would keep
/// its hash as some thirty pieces of memory instead of one.
pub(super) fn task_fields(task: &Task, was: Option<&Part>) -> Result<Pairs, PortError> {
    let [completed, stage, done] = progress(task);
    let updated = task.updated_at.get().to_string();
    let mut fields = vec![("completed", completed), ("stage", stage), ("done", done), ("updatedAt", updated)];
    let changed = |same: fn(&Part, &Task) -> bool| was.is_none_or(|was| !same(was, task));
    if changed(|was, is| was.status == is.status) {
        fields.push(("status", task.status.name().to_owned()));
    }
    if changed(|was, is| was.owner == is.owner) {
        fields.push(("owner", id(task.owner.as_ref())));
    }
    if changed(|was, is| was.fence == is.fence) {
        fields.push(("fence", task.fence.0.to_string()));
    }
    if changed(|was, is| was.ready_at == is.ready_at) {
        fields.push(("readyAt", task.ready_at.get().to_string()));
    }
    if changed(|was, is| was.started_at == is.started_at) {
        fields.push(("startedAt", at(task.started_at)));
    }
    if changed(|was, is| was.ended_at == is.ended_at) {
        fields.push(("endedAt", at(task.ended_at)));
    }
    if changed(|was, is| was.rest.stages == is.stages) {
        fields.push(("stages", task.stages.to_string()));
    }
    if changed(|was, is| was.rest.attempt == Rest::of(is).attempt) {
        fields.push(("attempt", task.attempt.as_ref().map(attempt).transpose()?.unwrap_or_default()));
    }
    if changed(|was, is| was.rest.keeps_detail(is)) {
        fields.push(("detail", if Rest::of(task).is_usual() { String::new() } else { detail(task)? }));
    }
    Ok(fields)
}

/// What stays of a task, whatever becomes of it.
pub(super) fn fixed_fields(task: &Task) -> [(&'static str, String); 5] {
    [
        ("taskId", task.id.to_string()),
        ("tenantId", task.tenant.to_string()),
        ("planId", task.plan.to_string()),
        ("position", task.position.to_string()),
        ("createdAt", task.created_at.get().to_string()),
    ]
}

/// A task in lists, as scripts write it too: the newest first, by plan, by place.
pub(super) fn place(task: &Task) -> String {
    format!("{:015} {} {:010} {}", Ms::MAX.get() - task.created_at.get(), task.plan, task.position, task.id)
}

/// Its turn among those that wait to be handed out, likewise.
pub(super) fn turn(task: &Task, ready_at: Ms) -> String {
    format!("{:015} {:010} {}", ready_at.get(), task.position, task.id)
}

/// How far a task has come, which changes with every boundary: `completed`, `stage` and `done`.
pub(super) fn progress(task: &Task) -> [String; 3] {
    let some = |n: Option<u32>| n.map_or_else(String::new, |n| n.to_string());
    [task.completed.to_string(), some(task.stage), some(task.attempt.map(|attempt| attempt.done))]
}

/// What stays of an attempt as long as it runs.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    number: u32,
    kind: AttemptKind,
    from: u32,
    to: u32,
}

fn attempt(attempt: &Attempt) -> Result<String, PortError> {
    let Attempt { number, kind, range: Range { from, to }, .. } = *attempt;
    json(&Run { number, kind, from, to })
}

/// What is seldom of a task, without what is as nearly always.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Detail<'t> {
    /// How far it has come has fields of its own. It stood in here before.
    #[serde(default, skip_serializing)]
    stages: Option<u32>,
    #[serde(default, skip_serializing)]
    completed: u32,
    #[serde(default, skip_serializing)]
    stage: Option<u32>,
    #[serde(default, skip_serializing)]
    attempt: Option<Attempt>,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pass: u32,
    #[serde(default, skip_serializing_if = "is_none")]
    retries: u32,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    taken_back: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hold: Option<Cow<'t, Hold>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Cow<'t, Failure>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    context: Option<Json>,
}

fn first() -> u32 {
    1
}

fn is_first(n: &u32) -> bool {
    *n == first()
}

fn is_none(n: &u32) -> bool {
    *n == 0
}

/// A `null` that was given is a value, only an absent key is none.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// What of a task `progress` does not say and a boundary leaves alone, nearly always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rest {
    stages: u32,
    /// As it began.
    attempt: Option<Attempt>,
    pass: u32,
    retries: u32,
    taken_back: bool,
    /// There is more, which a task that runs does not have.
    pub(super) more: bool,
}

impl Rest {
    pub(super) fn of(task: &Task) -> Rest {
        Rest {
            stages: task.stages,
            attempt: task.attempt.map(|attempt| Attempt { done: 0, ..attempt }),
            pass: task.pass,
            retries: task.retries,
            taken_back: task.taken_back,
            more: task.hold.is_some() || task.failure.is_some() || task.context.is_some(),
        }
    }

    /// Whether `detail` is as it was.
    fn keeps_detail(&self, task: &Task) -> bool {
        let Rest { pass, retries, taken_back, more, .. } = Rest::of(task);
        !self.more && !more && (self.pass, self.retries, self.taken_back) == (pass, retries, taken_back)
    }

    /// Whether there is nothing for `detail`.
    fn is_usual(&self) -> bool {
        is_first(&self.pass) && is_none(&self.retries) && !self.taken_back && !self.more
    }
}

fn detail(task: &Task) -> Result<String, PortError> {
    json(&Detail {
        stages: None,
        completed: 0,
        stage: None,
        attempt: None,
        pass: task.pass,
        retries: task.retries,
        taken_back: task.taken_back,
        hold: task.hold.as_ref().map(Cow::Borrowed),
        failure: task.failure.as_ref().map(Cow::Borrowed),
        context: task.context.clone(),
    })
}

/// How a row names its owner's last write, without its time: id and digest. That of an instance's `n`th operation is `n`, which its
/// id ends with.
pub(super) fn op(id: &OpId, digest: u64) -> String {
    format!("{id} {}", said(id, digest))
}

/// A digest, beside its id.
pub(super) fn said(id: &OpId, digest: u64) -> String {
    if ends_with(id) == Some(digest) { "=".to_owned() } else { digest.to_string() }
}

fn ends_with(id: &OpId) -> Option<u64> {
    let (_, n) = id.as_str().rsplit_once('-')?;
    n.parse().ok().filter(|number: &u64| number.to_string() == n)
}

pub(super) fn id(instance: Option<&InstanceId>) -> String {
    instance.map_or_else(String::new, ToString::to_string)
}

fn at(ms: Option<Ms>) -> String {
    ms.map_or_else(String::new, |ms| ms.get().to_string())
}

/// The names of what others want, as a row has them beside it: so that it is seen at once whether it is the same.
pub(super) fn asked(control: &Control) -> String {
    wanted(control).filter(|(_, is)| *is).map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

/// What is to be set where something is not wanted any more.
pub(super) fn taken_back(before: &Control, after: &Control) -> Pairs {
    let gone = wanted(before).zip(wanted(after)).filter(|((_, was), (_, is))| *was && !*is);
    let mut fields: Pairs = gone.map(|((name, _), _)| (name, String::new())).collect();
    if fields.iter().any(|(name, _)| *name == "pause") {
        fields.push(("pauseRequested", "false".to_owned()));
    }
    if !fields.is_empty() {
        fields.push(("control", asked(after)));
    }
    fields
}

fn wanted(control: &Control) -> impl Iterator<Item = (&'static str, bool)> {
    let Control { pause, cancel, skip, start, revoked } = control;
    [
        ("pause", pause.is_some()),
        ("cancel", cancel.is_some()),
        ("skip", skip.is_some()),
        ("start", start.is_some()),
        ("revoked", revoked.is_some()),
    ]
    .into_iter()
}
