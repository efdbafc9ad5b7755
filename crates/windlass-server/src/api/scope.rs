//! What a key that is limited to some tenants sees of plans, which are everybody's: its own tasks.

use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::plan::Tally;
use windlass_core::plan::file::{self, Format};
use windlass_core::port::state::{Filter, Row, TaskRow};
use windlass_core::task::status::Statuses;
use windlass_core::trigger::TriggerSpec;
use windlass_core::trigger::target::{Subject, Target};
use windlass_engine::command::task::Which;
use windlass_engine::query::view::TaskView;

use crate::call::Call;
use crate::problem::Problem;

impl Call {
    /// The tasks of a plan that are this key's to see; `None` if all are. Without any, the plan is not there for it.
    pub(crate) async fn own_tasks(&self, plan: &PlanId) -> Result<Option<Vec<TaskRow>>, Problem> {
        let Some(tenants) = &self.who.tenants else { return Ok(None) };
        let mut own = Vec::new();
        for tenant in tenants {
            let (plan, tenant) = (Some(plan.clone()), Some(tenant.clone()));
            let filter = Filter::Tasks { plan, tenant, statuses: Statuses::default(), interrupted: false };
            // A tenant has one task in a plan.
            let page = self.engine().list(&filter, None, 1).await?;
            own.extend(page.items.into_iter().filter_map(|row| match row {
                Row::Task(row) => Some(*row),
                _ => None,
            }));
        }
        match own.is_empty() {
            true => Err(Problem::not_found(format!("plan {plan}"))),
            false => Ok(Some(own)),
        }
    }

    /// Refuses what is done to a plan as a whole to whoever may not touch all of it.
    pub(crate) async fn whole_plan(&self, plan: &PlanId) -> Result<(), Problem> {
        let Some(own) = self.own_tasks(plan).await? else { return Ok(()) };
        let tasks = self.engine().view_plan(plan).await?.plan.tasks;
        match own.len() == tasks as usize {
            true => Ok(()),
            false => Err(Problem::beyond("the plan has tasks of other tenants; operate on your own tasks instead")),
        }
    }

    /// Another tenant's task is not there.
    pub(crate) async fn own_task(&self, which: &Which) -> Result<(), Problem> {
        match which {
            _ if self.who.tenants.is_none() => Ok(()),
            Which::Tenant(tenant) => self.own_tenant(tenant),
            Which::Task(task) => self.visible_task(task).await.map(drop),
        }
    }

    pub(crate) async fn visible_task(&self, task: &TaskId) -> Result<TaskView, Problem> {
        let view = self.engine().view_task(&Which::Task(task.clone())).await?;
        match self.who.sees(&view.task.tenant) {
            true => Ok(view),
            false => Err(Problem::not_found(format!("task {task}"))),
        }
    }

    pub(crate) fn own_tenant(&self, tenant: &TenantId) -> Result<(), Problem> {
        match self.who.sees(tenant) {
            true => Ok(()),
            false => Err(Problem::not_found(format!("tenant {tenant}"))),
        }
    }

    /// Whoever is limited makes triggers within the same limits.
    pub(crate) async fn own_target(&self, spec: &TriggerSpec) -> Result<(), Problem> {
        let beyond = |what: &str| Err(Problem::beyond(format!("the trigger {what}")));
        if let Target::Job(job) = &spec.target
            && !self.who.sees_queue(&job.queue)
        {
            return beyond("submits to a queue that is not this key's");
        }
        if self.who.tenants.is_none() {
            return Ok(());
        }
        if !self.who.sees_maybe(spec.tenant.as_ref()) {
            return beyond("must name one of this key's tenants");
        }
        match &spec.target {
            Target::Job(_) | Target::Http(_) => Ok(()),
            Target::Plan(plan) => {
                let file = file::parse(plan.as_str(), Format::Json)?;
                match file.tasks.iter().all(|task| self.who.sees(&task.tenant)) {
                    true => Ok(()),
                    false => beyond("makes a plan with tasks of other tenants"),
                }
            }
            Target::Operation(operation) => match &operation.on {
                Subject::Plan(plan) => self.whole_plan(plan).await,
                Subject::Task(task) => self.visible_task(task).await.map(drop),
                Subject::Tenant(tenant) => self.own_tenant(tenant),
            },
        }
    }
}

pub(crate) fn tally(rows: &[TaskRow]) -> Tally {
    rows.iter().fold(Tally::default(), |mut tally, row| {
        tally.add(row.task.status, 1);
        tally
    })
}
