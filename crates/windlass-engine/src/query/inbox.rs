//! What waits for a person.

use serde::Serialize;
use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::PAGE_MAX;
use windlass_core::port::state::{Filter, Row, TaskRow};
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
        items.sort_by_key(|item| item.kind);
        Ok((items, more))
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
