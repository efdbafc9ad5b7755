//! What people do to a tenant: freeze, unfreeze, take its lock away.

use std::sync::Arc;

use windlass_core::event::Fact;
use windlass_core::id::TenantId;
use windlass_core::lock::{Freeze, Holder};
use windlass_core::port::lock::{Force, Tenant};
use windlass_core::port::state::{Ask, CheckpointPut, Key, Row, Step, TaskRow, TenantRow, Writer};
use windlass_core::port::{PortError, Refusal};
use windlass_core::task::command::Command;
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::task::{Cause, Hold, Request};

use super::Caller;
use super::task::{Order, Which};
use crate::error::Error;
use crate::shared::{Counts, Shared};

impl Shared {
    /// Does it, writes it into the history of the tenant's latest task, and answers what it was before.
    pub(crate) async fn command_tenant(
        self: &Arc<Self>,
        tenant: &TenantId,
        what: Force,
        caller: &Caller,
    ) -> Result<Tenant, Error> {
        if caller.dry_run {
            let none = || Refusal::NotFound(format!("tenant {tenant}"));
            return Ok(self.locks.load(std::slice::from_ref(tenant)).await?.pop().ok_or_else(none)?);
        }
        let op = self.op_for(caller, &format!("{what:?} {tenant}"));
        if let Some(before) = self.answered(caller, &op).await? {
            return Ok(before);
        }
        // Locks and state may be two stores. The answer is kept with the locks, in the same write; a crash before the
        // rest is done leaves a history without the fact, and a freeze that the next beats make known.
        Counts::add(&self.counts.calls);
        let kept = caller.key.is_some().then_some(&op);
        let before = self.locks.force(tenant, what, &caller.by, caller.reason.as_ref(), kept).await??;
        let fact = match (what, &before) {
            (Force::Freeze, Tenant { freeze: None, .. }) => Some(Fact::TenantFrozen),
            (Force::Unfreeze, Tenant { freeze: Some(_), .. }) => Some(Fact::TenantUnfrozen),
            (Force::Release, Tenant { holder: Some(holder), .. }) => {
                Some(Fact::LockForceReleased { fence: holder.fence })
            }
            _ => None,
        };
        let latest = self.latest(tenant).await?;
        if let (Some(fact), Some(row)) = (fact, &latest) {
            self.note(row, fact, caller).await?;
        }
        if let (Force::Release, Some(holder)) = (what, &before.holder) {
            self.revoke(holder, caller).await?;
        }
        if what == Force::Freeze
            && let Some(row) = latest.filter(|row| row.task.status == TaskStatus::Running)
        {
            let command = Command::Pause(Cause::Freeze);
            let order = Order { which: Which::Task(row.task.id.clone()), command, config: None };
            let caller = Caller { key: None, ..caller.clone() };
            // One that is pausing or has ended by now needs no pause.
            match self.command_task(&order, &caller).await {
                Ok(_) | Err(Error::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(before)
    }

    async fn latest(&self, tenant: &TenantId) -> Result<Option<Box<TaskRow>>, Error> {
        Counts::add(&self.counts.calls);
        let latest = match self.state.load(&[Key::Tenant(tenant.clone())]).await?.pop().flatten() {
            Some(Row::Tenant(TenantRow { latest: Some(task), .. })) => task,
            _ => return Ok(None),
        };
        Counts::add(&self.counts.calls);
        Ok(match self.state.load(&[Key::Task(latest)]).await?.pop().flatten() {
            Some(Row::Task(row)) => Some(row),
            _ => None,
        })
    }

    async fn note(&self, row: &TaskRow, fact: Fact, caller: &Caller) -> Result<(), Error> {
        let mut event = self.about(&row.task, fact, self.clock.now());
        (event.by, event.reason) = (Some(caller.by.clone()), caller.reason.clone());
        let step = Step {
            op: self.op_beside(caller),
            by: Writer::Person(caller.by.clone()),
            plan: None,
            tasks: Vec::new(),
            checkpoint: CheckpointPut::Keep,
            ask: None,
            events: vec![event.clone()],
            answer: None,
        };
        if let Ok(stepped) = self.commit_one(&step).await? {
            self.tell(vec![event], stepped.seq, true);
        }
        Ok(())
    }

    /// Whoever runs the task that held the lock is told, wherever that is. One that does not run has nothing to stop.
    async fn revoke(&self, holder: &Holder, caller: &Caller) -> Result<(), Error> {
        let from = Statuses::of(&[TaskStatus::Running, TaskStatus::RollingBack]);
        let ask = Ask { task: holder.task.clone(), from, request: Request::Revoke(holder.fence) };
        let step = Step {
            op: self.op(),
            by: Writer::Person(caller.by.clone()),
            plan: None,
            tasks: Vec::new(),
            checkpoint: CheckpointPut::Keep,
            ask: Some(ask),
            events: Vec::new(),
            answer: None,
        };
        // Refused: it has ended, or was never there.
        drop(self.commit_one(&step).await?);
        self.asked.notify_one();
        Ok(())
    }

    /// A tenant was frozen and its running task has not been told: a crash came between.
    pub(crate) async fn pause_frozen(&self, row: &TaskRow, freeze: &Freeze) -> Result<(), PortError> {
        if row.task.status != TaskStatus::Running || row.control.pause.is_some() || row.control.cancel.is_some() {
            return Ok(());
        }
        let mut event = self.about(&row.task, Fact::TaskPauseRequested, self.clock.now());
        (event.by, event.reason) = (Some(freeze.by.clone()), freeze.reason.clone());
        let hold = Hold { cause: Cause::Freeze, by: Some(freeze.by.clone()), reason: freeze.reason.clone() };
        let from = Statuses::of(&[TaskStatus::Running]);
        let step = Step {
            op: self.op(),
            by: Writer::Person(freeze.by.clone()),
            plan: None,
            tasks: Vec::new(),
            checkpoint: CheckpointPut::Keep,
            ask: Some(Ask { task: row.task.id.clone(), from, request: Request::Pause(hold) }),
            events: vec![event],
            answer: None,
        };
        Counts::add(&self.counts.calls);
        drop(self.state.commit(&[step]).await?);
        self.asked.notify_one();
        Ok(())
    }
}
