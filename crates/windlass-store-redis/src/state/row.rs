//! Plans and tasks as hashes: names and values, an empty value for what there is not.

use std::borrow::Cow;
use std::collections::HashMap;

use redis::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::failure::Failure;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, OpId};
use windlass_core::json::Json;
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::PortError;
use windlass_core::port::state::{InstanceRow, LastOp, OpRow, PlanRow, TaskRow};
use windlass_core::task::range::Range;
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Attempt, AttemptKind, Control, Hold, Task};
use windlass_core::time::Ms;

use super::known::Part;
use super::step::json;
use crate::error::corrupt;
use crate::reply::{Parts, array, text};

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

/// A hash by its names.
pub(super) struct Fields(HashMap<String, String>);

impl Fields {
    /// `None` for one that is not there.
    pub(super) fn of(value: Value) -> Result<Option<Fields>, PortError> {
        if let Value::Map(pairs) = value {
            let pairs = pairs.into_iter().map(|(name, value)| Ok((text(name)?, text(value)?)));
            return Ok(Some(Fields(pairs.collect::<Result<_, PortError>>()?)).filter(|fields| !fields.0.is_empty()));
        }
        let mut fields = HashMap::new();
        let mut all = array(value)?.into_iter();
        while let (Some(name), Some(value)) = (all.next(), all.next()) {
            fields.insert(text(name)?, text(value)?);
        }
        Ok(Some(Fields(fields)).filter(|fields| !fields.0.is_empty()))
    }

    /// The values of these names, in their order; the first is always there if any is.
    pub(super) fn named(names: &[&str], value: Value) -> Result<Option<Fields>, PortError> {
        let values = array(value)?;
        if values.first().is_none_or(|first| *first == Value::Nil) {
            return Ok(None);
        }
        let pairs = names.iter().zip(values).map(|(name, value)| Ok(((*name).to_owned(), text(value)?)));
        pairs.collect::<Result<_, _>>().map(|fields| Some(Fields(fields)))
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn parse<T: std::str::FromStr>(&self, name: &str) -> Result<T, PortError>
    where
        T::Err: std::fmt::Display,
    {
        self.text(name).parse().map_err(|error| corrupt(name, error))
    }

    fn some<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, PortError>
    where
        T::Err: std::fmt::Display,
    {
        if self.text(name).is_empty() { Ok(None) } else { self.parse(name).map(Some) }
    }

    fn at(&self, name: &str) -> Result<Ms, PortError> {
        self.parse(name).map(Ms::new)
    }

    fn some_at(&self, name: &str) -> Result<Option<Ms>, PortError> {
        Ok(self.some(name)?.map(Ms::new))
    }

    fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PortError> {
        let text = self.text(name);
        match text.is_empty() {
            true => Ok(None),
            false => serde_json::from_str(text).map(Some).map_err(|error| corrupt(name, error)),
        }
    }

    fn word<T: DeserializeOwned>(&self, name: &str) -> Result<T, PortError> {
        serde_json::from_str(&format!("\"{}\"", self.text(name))).map_err(|error| corrupt(name, error))
    }

    pub(super) fn plan(&self) -> Result<PlanRow, PortError> {
        let plan = Plan {
            id: self.parse("planId")?,
            name: self.parse("name")?,
            status: self.word::<PlanStatus>("status")?,
            tasks: self.parse("tasks")?,
            max_concurrency: self.parse("maxConcurrency")?,
            on_failure: self.word("onFailure")?,
            on_conflict: self.word("onConflict")?,
            recovery: self.word("recovery")?,
            conductor: self.some("conductor")?,
            cancelled: self.parse("cancelled")?,
            created_at: self.at("createdAt")?,
            started_at: self.some_at("startedAt")?,
            updated_at: self.at("updatedAt")?,
            ended_at: self.some_at("endedAt")?,
        };
        Ok(PlanRow { plan, version: self.parse("version")?, seq: self.some("seq")?.unwrap_or(0) })
    }

    /// Whether this task was written before how far it has come had fields of its own.
    pub(super) fn is_of_before(&self) -> bool {
        self.text("stages").is_empty()
    }

    pub(super) fn task(&self) -> Result<TaskRow, PortError> {
        let detail = match self.text("detail") {
            "" => "{}",
            detail => detail,
        };
        let detail: Detail<'_> = serde_json::from_str(detail).map_err(|error| corrupt("detail", error))?;
        let (stages, completed, stage, attempt) = match detail.stages {
            Some(stages) => (stages, detail.completed, detail.stage, detail.attempt),
            None => (self.parse("stages")?, self.parse("completed")?, self.some("stage")?, self.attempt()?),
        };
        let task = Task {
            id: self.parse("taskId")?,
            tenant: self.parse("tenantId")?,
            plan: self.parse("planId")?,
            position: self.parse("position")?,
            status: self.word::<TaskStatus>("status")?,
            stages,
            completed,
            stage,
            attempt,
            pass: detail.pass,
            retries: detail.retries,
            taken_back: detail.taken_back,
            hold: detail.hold.map(Cow::into_owned),
            owner: self.some("owner")?,
            fence: Fence(self.parse("fence")?),
            ready_at: self.at("readyAt")?,
            created_at: self.at("createdAt")?,
            started_at: self.some_at("startedAt")?,
            updated_at: self.at("updatedAt")?,
            ended_at: self.some_at("endedAt")?,
            failure: detail.failure.map(Cow::into_owned),
            context: detail.context,
        };
        Ok(TaskRow {
            task,
            control: self.control()?,
            checkpoint: self.parse("checkpoint")?,
            version: self.parse("version")?,
            seq: self.some("seq")?.unwrap_or(0),
            op: self.last_op()?,
        })
    }

    fn attempt(&self) -> Result<Option<Attempt>, PortError> {
        let Some(Run { number, kind, from, to }) = self.json("attempt")? else { return Ok(None) };
        Ok(Some(Attempt { number, kind, range: Range { from, to }, done: self.parse("done")? }))
    }

    fn last_op(&self) -> Result<Option<LastOp>, PortError> {
        let text = self.text("op");
        if text.is_empty() {
            return Ok(None);
        }
        let bad = || corrupt("op", text);
        let [id, digest, at] = text.split(' ').collect::<Vec<_>>()[..] else { return Err(bad()) };
        let id: OpId = id.parse().map_err(|_| bad())?;
        let digest = if digest == "=" { ends_with(&id) } else { digest.parse().ok() };
        // Behind the time of one that is overtaken stands a mark.
        let at = at.trim_end_matches(OVERTAKEN).parse().map_err(|_| bad())?;
        Ok(Some(LastOp { digest: digest.ok_or_else(bad)?, id, at: Ms::new(at) }))
    }

    fn control(&self) -> Result<Control, PortError> {
        Ok(Control {
            pause: self.json("pause")?,
            cancel: self.json("cancel")?,
            skip: self.json("skip")?,
            start: self.json("start")?,
            revoked: self.some("revoked")?.map(Fence),
        })
    }

    pub(super) fn op(&self) -> Result<OpRow, PortError> {
        Ok(OpRow {
            digest: self.parse("digest")?,
            version: self.parse("version")?,
            seq: self.parse("seq")?,
            at: self.at("at")?,
            answer: self.json("answer")?,
        })
    }

    pub(super) fn instance(&self, id: InstanceId) -> Result<InstanceRow, PortError> {
        Ok(InstanceRow { id, since: self.at("since")?, until: self.at("until")? })
    }

    /// A tenant's fence, and the task that was started last.
    pub(super) fn tenant<T: std::str::FromStr>(&self) -> Result<(Fence, Option<T>), PortError>
    where
        T::Err: std::fmt::Display,
    {
        Ok((Fence(self.parse("fence")?), self.some("started")?))
    }

    /// How many stand where, by the names of statuses.
    pub(super) fn count(&self, name: &str) -> Result<u32, PortError> {
        Ok(self.some(name)?.unwrap_or(0))
    }
}

/// What others want of a task: five texts, each of which may be empty.
pub(super) fn control(parts: &mut Parts) -> Result<Control, PortError> {
    fn json<T: DeserializeOwned>(text: Option<String>) -> Result<Option<T>, PortError> {
        text.map(|text| serde_json::from_str(&text)).transpose().map_err(|error| corrupt("a request", error))
    }
    Ok(Control {
        pause: json(parts.some()?)?,
        cancel: json(parts.some()?)?,
        skip: json(parts.some()?)?,
        start: json(parts.some()?)?,
        revoked: json(parts.some()?)?,
    })
}
