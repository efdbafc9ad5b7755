//! State on Redis: the port's methods. What changes is one script, taken whole or not at all; what is read together is
//! read at one moment.

mod event;
pub(crate) mod known;
mod list;
mod load;
mod onward;
mod row;
pub(crate) mod step;
pub(crate) mod straight;

use async_trait::async_trait;
use windlass_core::id::{InstanceId, TaskId};
use windlass_core::port::state::{Beat, Filter, Key, Row, State, Step, Stepped, Take, TaskRow, Which, Writer};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::task::Control;
use windlass_core::time::Ms;

use crate::error::corrupt;
use crate::group::{self, Args};
use crate::page::{check_batch, check_limit};
use crate::reply::{array, number, parts};
use crate::script;
use crate::wake::Port;
use crate::{Inner, Redis};
use known::Known;
use onward::Onward;
use row::Fields;

const ENOUGH: usize = 128;

#[async_trait]
impl State for Redis {
    fn at_once(&self) -> Option<usize> {
        None
    }

    /// Two calls of half as many items are on their way then. What a task has in Redis is spread over its memory: the fewer
    /// are worked on at once by all instances together, the more of it the server's processor has at hand. Twice as many made a
    /// boundary wait twice as long, and four instances slower than one.
    fn enough(&self) -> Option<usize> {
        Some(ENOUGH)
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        check_batch(steps.len())?;
        let known = &self.inner.known;
        if let [step] = steps
            && let Writer::Owner { instance, .. } = &step.by
            && let Some(onward) = Onward::of(known, step)
            && let Some(stepped) = self.onward(instance, onward).await?
        {
            return Ok(vec![Ok(stepped)]);
        }
        let checked: Vec<Result<(), Refusal>> = steps.iter().map(Step::check).collect();
        let mut sound = Vec::new();
        for (step, _) in steps.iter().zip(&checked).filter(|(_, checked)| checked.is_ok()) {
            let mut args = Args::default();
            step::push(&mut args, step)?;
            sound.push(args);
        }
        let mut answers = self.committed(sound).await?.into_iter();
        let each = steps.iter().zip(checked).map(|(step, checked)| match checked {
            Err(refusal) => Ok(Err(refusal)),
            Ok(()) => step::answered(known, step, answers.next().unwrap_or(redis::Value::Nil)),
        });
        each.collect()
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        let call = self.inner.script(&script::TAKE).arg(take.instance.as_str());
        let names = (row::TASK.len(), &row::TASK[..]);
        let call = match &take.which {
            Which::Ready { plan, limit } => {
                call.arg((plan.as_ref().map_or("", |plan| plan.as_str()), *limit)).arg(names).arg(0)
            }
            Which::Named(tasks) if tasks.is_empty() => return Ok(Vec::new()),
            Which::Named(tasks) => {
                check_batch(tasks.len())?;
                let mut call = call.arg(("", 0)).arg(names).arg(tasks.len());
                tasks.iter().for_each(|task| call.push(task.as_str()));
                call
            }
        };
        let answers = array(self.inner.call(&call).await?)?;
        let mut each = Vec::with_capacity(answers.len());
        for answer in answers {
            each.push(taken(&self.inner.known, &take.instance, answer)?);
        }
        Ok(each)
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        let call = self.inner.script(&script::BEAT).arg((instance.as_str(), lease_ms.min(Ms::MAX.get())));
        let answer = &mut parts(self.inner.call(&call).await?)?;
        if lease_ms == 0 {
            self.inner.straight.ended(instance);
        }
        let until = answer.at()?;
        let mut asked: Vec<(TaskId, Control)> = Vec::new();
        for task in answer.parts()? {
            let task = &mut parts(task)?;
            asked.push((task.parse()?, row::control(task)?));
        }
        asked.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Beat { until, asked })
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        check_batch(keys.len())?;
        load::load(&self.inner, keys).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        check_limit(limit)?;
        list::list(&self.inner, filter, after, limit).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(Port::State, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let call = self.inner.script(&script::PURGE_STATE).arg((before.get(), limit));
        number(self.inner.call(&call).await?)
    }
}

impl Redis {
    /// A step of an owner from a row that it knows; `None`: the row is not as it was left.
    async fn onward(&self, instance: &InstanceId, onward: Onward<'_>) -> Result<Option<Stepped>, PortError> {
        let Inner { known, straight, keys, .. } = &*self.inner;
        if onward.is_boundary() {
            straight::prepare(&self.inner, instance);
            if let Some((seal, at)) = straight.sealed(instance).filter(|(seal, _)| onward.seal() == Some(*seal))
                && straight::carry(&self.inner, onward.boundary(keys, seal, at)?).await?
            {
                return Ok(Some(onward.written(known, at, Some(seal))));
            }
        }
        let seal = straight.sealed(instance).map(|(seal, _)| seal);
        let args = onward.args()?;
        let (stamp, answer) = group::carry(&self.inner, |inner| &inner.onward, &script::ONWARD, args).await?;
        let at = Ms::new(stamp.parse().map_err(|error| corrupt("a time", error))?);
        Ok((answer == redis::Value::Int(1)).then(|| onward.written(known, at, seal)))
    }

    /// Steps in their order: one alone goes out with those of others.
    async fn committed(&self, mut steps: Vec<Args>) -> Result<Vec<redis::Value>, PortError> {
        match (steps.pop(), steps.is_empty()) {
            (None, _) => Ok(Vec::new()),
            (Some(one), true) => {
                let (_, answer) = group::carry(&self.inner, |inner| &inner.commits, &script::COMMIT, one).await?;
                Ok(vec![answer])
            }
            (Some(last), false) => {
                steps.push(last);
                let mut call = self.inner.script(&script::COMMIT).arg(steps.len());
                steps.iter().flat_map(Args::iter).for_each(|arg| call.push(arg));
                let answer = &mut parts(self.inner.call(&call).await?)?;
                drop(answer.value()?);
                array(answer.value()?)
            }
        }
    }
}

fn taken(known: &Known, instance: &InstanceId, answer: redis::Value) -> Result<Result<TaskRow, Refusal>, PortError> {
    let parts = &mut parts(answer)?;
    let word = parts.text()?;
    match word.as_str() {
        "ok" => {
            let fields = Fields::named(&row::TASK, parts.value()?)?;
            let fields = fields.ok_or_else(|| PortError::Corrupt("a task that was taken is not there".to_owned()))?;
            let row = fields.task()?;
            // Whoever knows a row writes what has changed, and another layout is written whole.
            if !fields.is_of_before() {
                known.taken(&row);
            }
            Ok(Ok(row))
        }
        "NoLease" => Ok(Err(Refusal::NoLease(instance.clone()))),
        word => step::refusal(word, parts, |_, _| "something to run".to_owned()).map(Err),
    }
}

impl Inner {
    /// Waits for a change of a port.
    pub(crate) async fn changed(&self, port: Port, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wake.changed(&self.link, &self.keys, port, since, wait_ms).await
    }
}
