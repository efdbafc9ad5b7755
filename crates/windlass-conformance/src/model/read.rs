//! Reads and lists.

use std::collections::BTreeMap;

use windlass_core::id::InstanceId;
use windlass_core::plan::Tally;
use windlass_core::port::state::{Filter, Key, PlanRow, Row, TaskRow};
use windlass_core::time::Ms;

use super::Data;

impl Data {
    pub(super) fn load(&self, key: &Key) -> Option<Row> {
        match key {
            Key::Plan(id) => self.plans.get(id).map(|plan| Row::Plan(plan.row.clone())),
            Key::PlanSpec(id) => self.plans.get(id).map(|plan| Row::PlanSpec(plan.spec.clone())),
            Key::PlanHistory(id) => self.plans.get(id).map(|plan| Row::History(plan.history.clone())),
            Key::Tally(id) => self.plans.get(id).map(|plan| Row::Tally(self.tally(&plan.row))),
            Key::Task(id) => self.tasks.get(id).map(|task| Row::Task(Box::new(task.row.clone()))),
            Key::TaskSpec(id) => self.tasks.get(id).map(|task| Row::TaskSpec(task.spec.clone())),
            Key::TaskHistory(id) => self.tasks.get(id).map(|task| Row::History(task.history.clone())),
            Key::Checkpoint(id) => self.tasks.get(id)?.checkpoint.clone().map(Row::Checkpoint),
            Key::Tenant(id) => self.tenants.get(id).cloned().map(Row::Tenant),
            Key::Op(id) => self.ops.get(id).cloned().map(Row::Op),
            Key::Instance(id) => self.instances.get(id).cloned().map(Row::Instance),
        }
    }

    fn tally(&self, plan: &PlanRow) -> Tally {
        let mut tally = Tally::default();
        for entry in self.tasks.values().filter(|entry| entry.row.task.plan == plan.plan.id) {
            tally.add(entry.row.task.status, 1);
        }
        tally
    }

    /// Everything that the filter lets through, under its sort key.
    pub(super) fn list(&self, filter: &Filter, now: Ms) -> BTreeMap<String, Row> {
        match filter {
            Filter::Plans { statuses } => {
                let rows = self.plans.values().map(|entry| &entry.row);
                let rows = rows.filter(|row| statuses.is_empty() || statuses.contains(&row.plan.status));
                rows.map(|row| (plan_key(row), Row::Plan(row.clone()))).collect()
            }
            Filter::Tasks { plan, tenant, statuses, interrupted } => {
                let rows = self.tasks.values().map(|entry| &entry.row);
                let rows = rows.filter(|row| {
                    plan.as_ref().is_none_or(|plan| *plan == row.task.plan)
                        && tenant.as_ref().is_none_or(|tenant| *tenant == row.task.tenant)
                        && (statuses.is_empty() || statuses.has(row.task.status))
                        && (!interrupted || self.is_interrupted(row, now))
                });
                rows.map(|row| (task_key(row), Row::Task(Box::new(row.clone())))).collect()
            }
            Filter::Instances => {
                let rows = self.instances.values();
                rows.map(|row| (row.id.to_string(), Row::Instance(row.clone()))).collect()
            }
        }
    }

    fn is_interrupted(&self, row: &TaskRow, now: Ms) -> bool {
        row.task.status.is_running() && row.task.owner.as_ref().is_none_or(|owner| !self.is_live(owner, now))
    }

    /// Until when an instance's lease runs; never for one that is not known.
    pub(super) fn lease(&self, instance: &InstanceId) -> Ms {
        self.instances.get(instance).map_or(Ms::ZERO, |row| row.until)
    }

    pub(super) fn is_live(&self, instance: &InstanceId, now: Ms) -> bool {
        self.lease(instance) > now
    }
}

/// The newest first, then by id.
fn plan_key(row: &PlanRow) -> String {
    format!("{} {}", newest_first(row.plan.created_at), row.plan.id)
}

/// Those of newer plans first, in the order of their plan.
fn task_key(row: &TaskRow) -> String {
    let task = &row.task;
    // A space sorts before every character of an id, so that `p` comes before `p-1`.
    format!("{} {} {:010}", newest_first(task.created_at), task.plan, task.position)
}

fn newest_first(at: Ms) -> String {
    format!("{:020}", u64::MAX - at.get())
}
