//! What waits for a person.

use serde::Serialize;
use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Filter, Row, TaskRow};
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
    /// The plan.
    pub plan: PlanId,
    /// The task, if it is about one.
    pub task: Option<TaskId>,
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
                items.push(Item { kind, plan: row.plan.id, task: None, tenant: None, text: text.to_owned() });
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
        items.sort_by_key(|item| item.kind);
        Ok((items, more))
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
            let (tenant, statuses) = (Some(freeze.tenant.clone()), Statuses::of(&[TaskStatus::Pending]));
            let filter = Filter::Tasks { plan: None, tenant, statuses, interrupted: false };
            let tasks = self.list(&filter, None, PAGE_MAX).await?;
            more |= tasks.next.is_some();
            items.extend(tasks.items.into_iter().filter_map(|row| match row {
                Row::Task(row) => Some(Item {
                    kind: Kind::FrozenTask,
                    plan: row.task.plan,
                    task: Some(row.task.id),
                    tenant: Some(row.task.tenant),
                    text: format!("the tenant was frozen by {} at {}", freeze.by, freeze.at),
                }),
                _ => None,
            }));
        }
        Ok(more)
    }
}

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
    Item { kind, plan: task.plan, task: Some(task.id), tenant: Some(task.tenant), text }
}
