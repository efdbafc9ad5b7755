//! Handing out tasks, leases, and forgetting.

use windlass_core::id::{InstanceId, PlanId, TaskId};
use windlass_core::plan::PlanStatus;
use windlass_core::port::state::{Beat, InstanceRow, PlanRow, Take, TaskRow, Which};
use windlass_core::port::{Each, Refusal};
use windlass_core::task::status::TaskStatus;
use windlass_core::time::Ms;

use super::{Data, batch};

impl Data {
    pub(super) fn take(&mut self, take: &Take, now: Ms) -> Each<TaskRow> {
        let live = self.is_live(&take.instance, now);
        let no_lease = || Err(Refusal::NoLease(take.instance.clone()));
        match &take.which {
            Which::Named(tasks) => {
                batch(tasks)?;
                let one = |task| if live { self.take_named(&take.instance, task, now) } else { no_lease() };
                Ok(tasks.iter().map(one).collect())
            }
            Which::Ready { .. } if !live => Ok(vec![no_lease()]),
            Which::Ready { plan, limit } => {
                let mut taken = Vec::new();
                while taken.len() < *limit as usize {
                    let Some(task) = self.next_ready(plan.as_ref(), now) else { break };
                    taken.push(Ok(self.own(&take.instance, &task)));
                }
                Ok(taken)
            }
        }
    }

    /// The first task that may be handed out, if any.
    fn next_ready(&self, only: Option<&PlanId>, now: Ms) -> Option<TaskId> {
        let plans = self.plans.values().map(|entry| &entry.row);
        let ready = plans.filter(|row| only.is_none_or(|only| *only == row.plan.id)).filter_map(|row| {
            let tasks = self.tasks.values().map(|entry| &entry.row);
            let ready = tasks.filter(|task| task.task.plan == row.plan.id && self.may_hand_out(row, task, now));
            ready.min_by_key(|row| (row.task.readiness(&row.control), row.task.ready_at, row.task.position))
        });
        ready.map(|row| row.task.id.clone()).next()
    }

    fn may_hand_out(&self, plan: &PlanRow, row: &TaskRow, now: Ms) -> bool {
        let conducted = plan.plan.conductor.as_ref().is_some_and(|conductor| self.is_live(conductor, now));
        let free = row.task.owner.as_ref().is_none_or(|owner| !self.is_live(owner, now));
        let others = self.tasks.values().map(|entry| &entry.row.task);
        let others = others.filter(|other| other.plan == plan.plan.id && other.id != row.task.id);
        let used = others.filter(|other| other.takes_slot()).count();
        plan.plan.status == PlanStatus::Running
            && conducted
            && free
            && row.task.readiness(&row.control).is_some()
            && row.task.ready_at <= now
            && used < plan.plan.max_concurrency as usize
    }

    fn take_named(&mut self, instance: &InstanceId, id: &TaskId, now: Ms) -> Result<TaskRow, Refusal> {
        let row = &self.tasks.get(id).ok_or_else(|| Refusal::NotFound(format!("task {id}")))?.row;
        match &row.task.owner {
            Some(owner) if owner == instance => return Ok(row.clone()),
            Some(owner) if self.is_live(owner, now) => {
                return Err(Refusal::Owned { owner: Some(owner.clone()), until: self.lease(owner) });
            }
            _ => {}
        }
        let status = row.task.status;
        if row.control.start.is_none() && status != TaskStatus::Pending && !status.is_running() {
            return Err(Refusal::State { status: status.name(), expected: "something to run".to_owned() });
        }
        Ok(self.own(instance, id))
    }

    fn own(&mut self, instance: &InstanceId, id: &TaskId) -> TaskRow {
        let row = &mut self.tasks.get_mut(id).expect("it was found").row;
        row.task.owner = Some(instance.clone());
        row.version += 1;
        row.clone()
    }

    pub(super) fn beat(&mut self, instance: &InstanceId, lease_ms: u64, now: Ms) -> Beat {
        let until = now.plus(lease_ms);
        let new = InstanceRow { id: instance.clone(), since: now, until };
        self.instances.entry(instance.clone()).or_insert(new).until = until;
        let rows = self.tasks.values().map(|entry| &entry.row);
        let mine = rows.filter(|row| row.task.owner.as_ref() == Some(instance) && row.control.wants_owner());
        Beat { until, asked: mine.map(|row| (row.task.id.clone(), row.control.clone())).collect() }
    }

    pub(super) fn purge(&mut self, before: Ms, limit: u32, now: Ms) -> u32 {
        if limit == 0 {
            return 0;
        }
        let old = |row: &PlanRow| row.plan.status.is_final() && row.plan.ended_at.is_some_and(|at| at < before);
        self.plans.retain(|_, entry| !old(&entry.row));
        let mut left = limit;
        // One by one, as long as the limit allows: everything else stays.
        let mut goes = |is_old: bool| {
            let goes = is_old && left > 0;
            left -= u32::from(goes);
            goes
        };
        let mut gone = Vec::new();
        self.tasks.retain(|id, entry| {
            let goes = goes(!self.plans.contains_key(&entry.row.task.plan));
            gone.extend(goes.then(|| id.clone()));
            !goes
        });
        self.ops.retain(|_, op| !goes(op.at < before));
        self.instances.retain(|_, instance| !goes(instance.until < before && instance.until <= now));
        for tenant in self.tenants.values_mut() {
            tenant.latest = tenant.latest.take().filter(|task| !gone.contains(task));
            tenant.started = tenant.started.take().filter(|task| !gone.contains(task));
        }
        limit - left
    }
}
