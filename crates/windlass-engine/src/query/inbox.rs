//! What waits for a person.

use serde::Serialize;
use windlass_core::id::{JobId, PlanId, TaskId, TenantId, TriggerId};
use windlass_core::job::JobStatus;
use windlass_core::plan::PlanStatus;
use windlass_core::port::job::JobFilter;
use windlass_core::port::state::{Filter, Row, TaskRow};
use windlass_core::port::trigger::TriggerFilter;
use windlass_core::port::{PAGE_MAX, PortError};
use windlass_core::task::Cause;
use windlass_core::task::status::{Statuses, TaskStatus};

use crate::Engine;
use crate::error::Error;

/// One thing that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// What sort.
    pub kind: Kind,
    /// The plan, if it is about one.
    pub plan: Option<PlanId>,
    /// The task, if it is about one.
    pub task: Option<TaskId>,
    /// The job.
    pub job: Option<JobId>,
    /// The trigger.
    pub trigger: Option<TriggerId>,
    /// Whose.
    pub tenant: Option<TenantId>,
    /// For people.
    pub text: String,
}

/// What waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A RUNNING plan that nobody conducts.
    InterruptedPlan,
    /// A task that nobody runs.
    InterruptedTask,
    /// A task that waits for a yes or a no.
    Approval,
    /// A paused task.
    PausedTask,
    /// A paused plan.
    PausedPlan,
    /// A task that cannot begin because its tenant is frozen.
    FrozenTask,
    /// A task that failed.
    Failure,
    /// A task that could not be taken back.
    FailedRollback,
    /// An occurrence of a trigger that fell due while no scheduler lived.
    HeldOccurrence,
    /// An occurrence that failed as often as it may.
    DeadOccurrence,
    /// A job that failed as often as it may.
    DeadJob,
}

impl Item {
    fn new(kind: Kind, tenant: Option<TenantId>, text: String) -> Item {
        Item { kind, plan: None, task: None, job: None, trigger: None, tenant, text }
    }
}

impl Engine {
    /// What waits for a person: up to a page of each sort, the newest plans first; `true` if there is more.
    pub async fn inbox(&self) -> Result<(Vec<Item>, bool), Error> {
        let (mut items, mut more) = (Vec::new(), false);
        for status in [PlanStatus::Running, PlanStatus::Paused] {
            let page = self.list(&Filter::Plans { statuses: vec![status] }, None, PAGE_MAX).await?;
            more |= page.next.is_some();
            for row in page.items {
                let Row::Plan(row) = row else { continue };
                let (kind, text) = match status {
                    PlanStatus::Paused => (Kind::PausedPlan, "paused"),
                    _ if self.0.conductor_gone(&row.plan).await? => (Kind::InterruptedPlan, "nobody conducts it"),
                    _ => continue,
                };
                items.push(Item { plan: Some(row.plan.id), ..Item::new(kind, None, text.to_owned()) });
            }
        }
        let waits = [TaskStatus::Paused, TaskStatus::Failed, TaskStatus::RollbackFailed];
        let filter =
            |statuses: Statuses, interrupted| Filter::Tasks { plan: None, tenant: None, statuses, interrupted };
        let runs = [TaskStatus::Running, TaskStatus::RollingBack].into_iter().collect();
        for filter in [filter(runs, true), filter(waits.into_iter().collect(), false)] {
            let page = self.list(&filter, None, PAGE_MAX).await?;
            more |= page.next.is_some();
            for row in page.items {
                if let Row::Task(row) = row
                    && row.control.start.is_none()
                {
                    items.push(item(*row));
                }
            }
        }
        more |= self.frozen(&mut items).await?;
        more |= self.dead_jobs(&mut items).await?;
        more |= self.waiting_triggers(&mut items).await?;
        items.sort_by_key(|item| item.kind);
        Ok((items, more))
    }

    /// Jobs that a person may requeue; `true` if there is more, or their store does not answer.
    async fn dead_jobs(&self, items: &mut Vec<Item>) -> Result<bool, Error> {
        let Some(queues) = &self.0.queues else { return Ok(false) };
        let filter = JobFilter { statuses: vec![JobStatus::Failed], ..JobFilter::default() };
        let (mut jobs, mut after) = (Vec::new(), None);
        for _ in 0..LOOKS_MAX {
            let page = match queues.list(&filter, after.as_ref(), PAGE_MAX).await {
                Ok(page) => page,
                Err(Error::Port(PortError::Unavailable(_))) => return Ok(true),
                Err(error) => return Err(error),
            };
            jobs.extend(page.items);
            after = page.next;
            if after.is_none() || jobs.len() >= PAGE_MAX as usize {
                break;
            }
        }
        items.extend(jobs.into_iter().map(|job| {
            let why = job.error.map(|error| error.to_string()).unwrap_or_default();
            let text = format!("queue {}, after {} attempts: {why}", job.queue, job.attempt);
            Item { job: Some(job.id), ..Item::new(Kind::DeadJob, job.tenant, text) }
        }));
        Ok(after.is_some())
    }

    /// Occurrences that a person may fire or skip; `true` if there is more, or their store does not answer.
    async fn waiting_triggers(&self, items: &mut Vec<Item>) -> Result<bool, Error> {
        let Some(triggers) = &self.0.triggers else { return Ok(false) };
        let filter = TriggerFilter { waiting: true, ..TriggerFilter::default() };
        let (mut found, mut after) = (Vec::new(), None);
        for _ in 0..LOOKS_MAX {
            let page = match triggers.list(&filter, after.as_ref(), PAGE_MAX).await {
                Ok(page) => page,
                Err(PortError::Unavailable(_)) => return Ok(true),
                Err(error) => return Err(error.into()),
            };
            found.extend(page.items);
            after = page.next;
            if after.is_none() || found.len() >= PAGE_MAX as usize {
                break;
            }
        }
        items.extend(found.into_iter().map(|trigger| {
            let (at, error) = (trigger.run.trigger_at, trigger.run.error.unwrap_or_default());
            let (kind, text) = match trigger.run.held {
                true => (Kind::HeldOccurrence, format!("fell due at {at} while no scheduler lived")),
                false => (Kind::DeadOccurrence, format!("due at {at}: {error}")),
            };
            Item { trigger: Some(trigger.id), ..Item::new(kind, trigger.spec.tenant, text) }
        }));
        Ok(after.is_some())
    }

    /// What would begin if somebody unfroze its tenant; `true` if there is more, or locks do not answer.
    async fn frozen(&self, items: &mut Vec<Item>) -> Result<bool, Error> {
        let page = match self.0.locks.list(None, PAGE_MAX).await {
            Ok(page) => page,
            // What state knows is shown all the same.
            Err(PortError::Unavailable(_)) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        let mut more = page.next.is_some();
        for freeze in page.items.into_iter().filter_map(|tenant| tenant.freeze) {
            let tenant = Some(freeze.tenant.clone());
            let filter = Filter::Tasks { plan: None, tenant, statuses: Statuses::default(), interrupted: false };
            let tasks = self.list(&filter, None, PAGE_MAX).await?;
            more |= tasks.next.is_some();
            items.extend(tasks.items.into_iter().filter_map(|row| match row {
                // What has not begun, or was asked to begin again.
                Row::Task(row) if row.task.status == TaskStatus::Pending || row.control.start.is_some() => {
                    let text = format!("the tenant was frozen by {} at {}", freeze.by, freeze.at);
                    let (plan, task) = (Some(row.task.plan), Some(row.task.id));
                    Some(Item { plan, task, ..Item::new(Kind::FrozenTask, Some(row.task.tenant), text) })
                }
                _ => None,
            }));
        }
        Ok(more)
    }
}

/// Pages that are looked at to fill one: those of a store may be short, and even empty, before the end.
const LOOKS_MAX: u32 = 8;

fn item(row: TaskRow) -> Item {
    let task = row.task;
    let cause = task.hold.as_ref().map(|hold| hold.cause);
    let failure = task.failure.as_ref().map(|failure| format!("stage {}: {}", failure.stage, failure.message));
    let (kind, text) = match (task.status, cause) {
        (TaskStatus::Paused, Some(Cause::Approval)) => (Kind::Approval, "an approval is wanted".to_owned()),
        (TaskStatus::Paused, _) => (Kind::PausedTask, "paused".to_owned()),
        (TaskStatus::Failed, _) => (Kind::Failure, failure.unwrap_or_default()),
        (TaskStatus::RollbackFailed, _) => (Kind::FailedRollback, failure.unwrap_or_default()),
        _ => (Kind::InterruptedTask, "nobody runs it".to_owned()),
    };
    Item { plan: Some(task.plan), task: Some(task.id), ..Item::new(kind, Some(task.tenant), text) }
}
