//! How far a stream has come: of each task and of the plan, the number of the last event that was sent.

use std::collections::HashMap;

use windlass_core::event::Event;
use windlass_core::id::{PlanId, TaskId};
use windlass_core::port::PAGE_MAX;
use windlass_core::port::state::{Filter, Row, TaskRow};
use windlass_core::task::status::Statuses;
use windlass_core::time::Ms;
use windlass_engine::Error;
use windlass_engine::command::task::Which;

use super::About;
use crate::call::Call;
use crate::problem::Problem;

/// What was missed while a stream was cut off.
pub(super) enum Missed {
    /// These.
    Events(Vec<Event>),
    /// Nobody knows any more.
    Unknown,
}

/// The last number sent, by the plan or the task that counts.
#[derive(Default)]
pub(super) struct Position(HashMap<String, u64>);

impl Position {
    /// Where a stream begins: after the event that was seen last, or now.
    pub(super) async fn begin(call: &Call, about: &About, last: Option<&str>) -> Result<(Position, Missed), Problem> {
        let mut position = Position::default();
        let missed = match (about, last) {
            (About::Everything, _) => Missed::Events(Vec::new()),
            (_, None) => {
                position.missed(call, about, None).await?;
                Missed::Events(Vec::new())
            }
            (_, Some(last)) => match position.seen(call, about, last).await? {
                Some(at) => position.missed(call, about, Some(at)).await?,
                None => {
                    position.missed(call, about, None).await?;
                    Missed::Unknown
                }
            },
        };
        Ok((position, missed))
    }

    /// Whether an event is new; it is not afterwards.
    pub(super) fn advance(&mut self, event: &Event) -> bool {
        let last = self.0.entry(counted_by(event)).or_default();
        let new = event.seq > *last;
        *last = event.seq.max(*last);
        new
    }

    /// Takes up where `last` (`subject:number`) says; answers when that happened. `None` if nobody knows any more.
    async fn seen(&mut self, call: &Call, about: &About, last: &str) -> Result<Option<Ms>, Problem> {
        let Some((subject, seq)) = last.rsplit_once(':') else { return Ok(None) };
        let Ok(seq) = seq.parse::<u64>() else { return Ok(None) };
        let history = match about {
            About::Plan(plan) if subject == plan.as_str() => call.engine().plan_history(plan).await?,
            About::Task(task) if subject != task.as_str() => return Ok(None),
            _ => {
                let Ok(task) = subject.parse::<TaskId>() else { return Ok(None) };
                match call.engine().task_history(&Which::Task(task)).await {
                    Ok(history) => history,
                    Err(Error::Store(_)) => return Ok(None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let ours = |event: &Event| !matches!(about, About::Plan(plan) if event.plan != *plan);
        self.0.insert(subject.to_owned(), seq);
        // 0 is before the first event.
        let first = history.first().filter(|event| seq == 0 && event.seq == 1);
        let at = history.iter().find(|event| event.seq == seq).or(first).filter(|event| ours(event));
        Ok(at.map(|event| event.at))
    }

    /// What is stored and was not sent: since `at`, or, without, only where things stand.
    pub(super) async fn missed(&mut self, call: &Call, about: &About, at: Option<Ms>) -> Result<Missed, Problem> {
        let mut events = Vec::new();
        match about {
            About::Everything => {}
            About::Task(task) => {
                let history = call.engine().task_history(&Which::Task(task.clone())).await?;
                if !self.take(history, at, &mut events) {
                    return Ok(Missed::Unknown);
                }
            }
            About::Plan(plan) => {
                if !self.take(call.engine().plan_history(plan).await?, at, &mut events) {
                    return Ok(Missed::Unknown);
                }
                for row in tasks(call, plan).await? {
                    if !self.task(call, &row, at, &mut events).await? {
                        return Ok(Missed::Unknown);
                    }
                }
                events.sort_by_key(|event| event.at);
            }
        }
        Ok(Missed::Events(events))
    }

    async fn task(&mut self, call: &Call, row: &TaskRow, at: Option<Ms>, to: &mut Vec<Event>) -> Result<bool, Problem> {
        let id = row.task.id.as_str();
        let known = self.0.get(id).copied();
        match (at, known) {
            // Nothing happened to it since.
            (Some(at), None) if row.task.updated_at < at => {}
            (None, None) => {}
            (_, Some(known)) if known >= row.seq => return Ok(true),
            _ => {
                let history = call.engine().task_history(&Which::Task(row.task.id.clone())).await?;
                return Ok(self.take(history, at.or(Some(Ms::ZERO)), to));
            }
        }
        self.0.insert(id.to_owned(), row.seq);
        Ok(true)
    }

    /// Takes what is new of a history; `false` if some of it is gone.
    fn take(&mut self, history: Vec<Event>, at: Option<Ms>, to: &mut Vec<Event>) -> bool {
        let Some(first) = history.first() else { return true };
        let known = self.0.get(&counted_by(first)).copied();
        let whole = match (known, at) {
            (Some(known), _) => first.seq <= known + 1,
            (None, Some(at)) => first.seq == 1 || first.at < at,
            (None, None) => true,
        };
        for event in history {
            if self.advance(&event) && at.is_some_and(|at| known.is_some() || event.at >= at) {
                to.push(event);
            }
        }
        whole
    }
}

fn counted_by(event: &Event) -> String {
    event.task.as_ref().map_or_else(|| event.plan.to_string(), ToString::to_string)
}

/// Every task of a plan.
async fn tasks(call: &Call, plan: &PlanId) -> Result<Vec<TaskRow>, Problem> {
    let filter =
        Filter::Tasks { plan: Some(plan.clone()), tenant: None, statuses: Statuses::default(), interrupted: false };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = call.engine().list(&filter, after.as_ref(), PAGE_MAX).await?;
        all.extend(page.items.into_iter().filter_map(|row| match row {
            Row::Task(row) if call.who.sees(&row.task.tenant) => Some(*row),
            _ => None,
        }));
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}
