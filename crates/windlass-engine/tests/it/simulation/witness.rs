//! The store as [`Truth`] sees it: every call is carried out in one go, and what it came to is noted.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::unconstrained;
use tokio::time::Instant;
use windlass_core::by::{By, Reason};
use windlass_core::id::{InstanceId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::job::Jobs;
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{Beat, Filter, Key, Op, Row, State, Step, Stepped, Take, TaskRow, Which};
use windlass_core::port::trigger::Triggers;
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use super::truth::Truth;

/// One instance's way to the store.
#[derive(Clone)]
pub(super) struct Witness {
    pub(super) state: Arc<dyn State>,
    pub(super) locks: Arc<dyn Locks>,
    pub(super) jobs: Arc<dyn Jobs>,
    pub(super) triggers: Arc<dyn Triggers>,
    pub(super) truth: Arc<Truth>,
    pub(super) instance: InstanceId,
}

#[async_trait]
impl State for Witness {
    fn at_once(&self) -> Option<usize> {
        self.state.at_once()
    }

    fn enough(&self) -> Option<usize> {
        self.state.enough()
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        let answers = self.ring(unconstrained(self.state.commit(steps)).await)?;
        let mut facts = self.truth.facts();
        for (step, answer) in steps.iter().zip(&answers) {
            match answer {
                Ok(stepped) => facts.taken(&self.instance, step, stepped),
                Err(refusal) => {
                    facts.count(refused(refusal));
                    facts.note(format_args!("{} refused {}: {refusal}", self.instance, step.op.id));
                }
            }
        }
        Ok(answers)
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        let rows = self.ring(unconstrained(self.state.take(take)).await)?;
        let taken: Vec<_> = rows.iter().flatten().cloned().collect();
        self.truth.facts().claimed(&self.instance, &taken, matches!(take.which, Which::Ready { .. }));
        Ok(rows)
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        self.ring(unconstrained(self.state.beat(instance, lease_ms)).await)
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        unconstrained(self.state.load(keys)).await
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        unconstrained(self.state.list(filter, after, limit)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(since, wait_ms, Port::State).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        unconstrained(self.state.purge(before, limit)).await
    }
}

#[async_trait]
impl Locks for Witness {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        let answers = unconstrained(self.locks.acquire(want)).await?;
        for (want, answer) in want.iter().zip(&answers) {
            match answer {
                Ok(holder) => self.note(format_args!("locks {} for {} under {}", want.tenant, want.task, holder.fence)),
                Err(refusal) => self.note(format_args!("does not lock {} for {}: {refusal}", want.tenant, want.task)),
            }
        }
        Ok(answers)
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        unconstrained(self.locks.renew(held, ttl_ms)).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        let answers = self.ring(unconstrained(self.locks.release(held)).await)?;
        for (held, answer) in held.iter().zip(&answers) {
            let Held { tenant, task, fence } = held;
            self.note(format_args!("gives {tenant} back for {task} under {fence}: {}", answer.is_ok()));
        }
        Ok(answers)
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        self.note(format_args!("{what:?} of {tenant}"));
        self.ring(unconstrained(self.locks.force(tenant, what, by, reason, op)).await)
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        unconstrained(self.locks.load(tenants)).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        unconstrained(self.locks.list(after, limit)).await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.wait(since, wait_ms, Port::Locks).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        unconstrained(self.locks.purge(before, limit)).await
    }
}

/// What a refusal is counted as.
fn refused(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Stale { .. } => "a stale fence was refused",
        Refusal::Owned { .. } => "a stranger was refused",
        Refusal::Version { .. } => "a late write was refused",
        _ => "something else was refused",
    }
}

/// Of what a change is waited for.
#[derive(Clone, Copy)]
pub(super) enum Port {
    State,
    Locks,
    Jobs,
    Triggers,
}

impl Witness {
    /// Waits for a change. The store's own way wakes those who wait in a random order; the bell is rung after
    /// every write, and wakes them in the order in which they came.
    pub(super) async fn wait(&self, since: Mark, wait_ms: u64, port: Port) -> Result<Mark, PortError> {
        let end = Instant::now() + Duration::from_millis(wait_ms);
        loop {
            let rung = self.truth.bell.notified();
            let now = match port {
                Port::State => unconstrained(self.state.changed(since, 0)).await?,
                Port::Locks => unconstrained(self.locks.changed(since, 0)).await?,
                Port::Jobs => unconstrained(self.jobs.changed(since, 0)).await?,
                Port::Triggers => unconstrained(self.triggers.changed(since, 0)).await?,
            };
            if now != since || tokio::time::timeout_at(end, rung).await.is_err() {
                return Ok(now);
            }
        }
    }

    /// Something may have changed.
    pub(super) fn ring<T>(&self, answer: T) -> T {
        self.truth.bell.notify_waiters();
        answer
    }

    pub(super) fn note(&self, what: std::fmt::Arguments<'_>) {
        self.truth.note(format_args!("{} {what}", self.instance));
    }
}
