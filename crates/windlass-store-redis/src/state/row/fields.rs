//! What Redis has of plans, tasks and whatever else is read by names.

use std::borrow::Cow;
use std::collections::HashMap;

use redis::Value;
use serde::de::DeserializeOwned;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, OpId};
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::PortError;
use windlass_core::port::state::{InstanceRow, LastOp, OpRow, PlanRow, TaskRow};
use windlass_core::task::range::Range;
use windlass_core::task::status::TaskStatus;
use windlass_core::task::{Attempt, Control, Task};
use windlass_core::time::Ms;

use super::{Detail, OVERTAKEN, Run, ends_with};
use crate::error::corrupt;
use crate::reply::{Parts, array, text};

/// A hash by its names.
pub(in crate::state) struct Fields(HashMap<String, String>);

impl Fields {
    /// `None` for one that is not there.
    pub(in crate::state) fn of(value: Value) -> Result<Option<Fields>, PortError> {
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
    pub(in crate::state) fn named(names: &[&str], value: Value) -> Result<Option<Fields>, PortError> {
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

    pub(in crate::state) fn plan(&self) -> Result<PlanRow, PortError> {
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
    pub(in crate::state) fn is_of_before(&self) -> bool {
        self.text("stages").is_empty()
    }

    pub(in crate::state) fn task(&self) -> Result<TaskRow, PortError> {
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

    pub(in crate::state) fn op(&self) -> Result<OpRow, PortError> {
        Ok(OpRow {
            digest: self.parse("digest")?,
            version: self.parse("version")?,
            seq: self.parse("seq")?,
            at: self.at("at")?,
            answer: self.json("answer")?,
        })
    }

    pub(in crate::state) fn instance(&self, id: InstanceId) -> Result<InstanceRow, PortError> {
        Ok(InstanceRow { id, since: self.at("since")?, until: self.at("until")? })
    }

    /// A tenant's fence, and the task that was started last.
    pub(in crate::state) fn tenant<T: std::str::FromStr>(&self) -> Result<(Fence, Option<T>), PortError>
    where
        T::Err: std::fmt::Display,
    {
        Ok((Fence(self.parse("fence")?), self.some("started")?))
    }

    /// How many stand where, by the names of statuses.
    pub(in crate::state) fn count(&self, name: &str) -> Result<u32, PortError> {
        Ok(self.some(name)?.unwrap_or(0))
    }
}

/// What others want of a task: five texts, each of which may be empty.
pub(in crate::state) fn control(parts: &mut Parts) -> Result<Control, PortError> {
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
