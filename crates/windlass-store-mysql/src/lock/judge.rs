//! Who gets a lock, keeps it, gives it back: by the core's rules, on rows that were locked first.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass_core::by::{By, Reason};
use windlass_core::fence::Fence;
use windlass_core::id::{OpId, TenantId};
use windlass_core::lock::{Acquire, Freeze, Held, Holder, acquire, still};
use windlass_core::port::lock::{Force, Tenant};
use windlass_core::port::state::Op;
use windlass_core::port::{PortError, Refusal};
use windlass_core::time::Ms;

use super::read::{self, Standing};
use crate::cell::Cells;
use crate::clock::lease;
use crate::error::Failure;
use crate::line::{Line, Work};
use crate::pool::Lent;
use crate::state::{row as state_row, write};
use crate::text::{Script, list, literal, row};
use crate::wake::{self, Port};
use crate::{Inner, fence};

/// Tenants that one transaction speaks of, at most.
const TENANTS_MAX: usize = 256;

/// What one caller wants.
pub(crate) enum Wish {
    Acquire(Vec<Acquire>),
    Renew(Vec<Held>, u64),
    Release(Vec<Held>),
}

pub(crate) enum Answer {
    Acquired(Vec<Result<Holder, Refusal>>),
    Renewed(Vec<Result<Ms, Refusal>>),
    Released(Vec<Result<(), Refusal>>),
}

impl Wish {
    fn tenants(&self) -> Vec<&TenantId> {
        match self {
            Wish::Acquire(want) => want.iter().map(|want| &want.tenant).collect(),
            Wish::Renew(held, _) | Wish::Release(held) => held.iter().map(|held| &held.tenant).collect(),
        }
    }

    /// Fences that may be needed.
    fn fences(&self) -> usize {
        if let Wish::Acquire(want) = self { want.len() } else { 0 }
    }
}

impl Work for Wish {
    type Answer = Answer;
    type Batch = usize;
    const UNDER_WAY_MAX: usize = 2;

    fn line(inner: &Inner) -> &Line<Wish> {
        &inner.locks
    }

    fn join(&self, batch: &mut usize) -> bool {
        *batch += self.tenants().len();
        *batch <= TENANTS_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &[Wish]) -> Result<Vec<Answer>, PortError> {
        let mut races = 0;
        loop {
            let mut tx = inner.pool.lend().await?;
            let done = attempt(&mut tx, inner, batch).await;
            if let Some(done) = tx.settle(done, &mut races).await {
                return done;
            }
        }
    }
}

/// Tenants in one transaction's hands.
struct World {
    standing: Standing,
    now: Ms,
    /// The next fence that was drawn.
    fence: Fence,
    /// Whose locks are to be written.
    changed: BTreeSet<TenantId>,
    /// Somebody let go.
    freed: bool,
}

async fn attempt(tx: &mut Lent<'_>, inner: &Inner, batch: &[Wish]) -> Result<Vec<Answer>, Failure> {
    let tenants: BTreeSet<&TenantId> = batch.iter().flat_map(Wish::tenants).collect();
    let fences: usize = batch.iter().map(Wish::fences).sum();
    let mut script = Script::begin();
    hold(&mut script, &tenants);
    read::ask(&mut script, &within(&tenants));
    inner.clock.ask(&mut script);
    if fences > 0 {
        fence::draw(&mut script, fences);
    }
    let mut answers = tx.run(&script).await?;
    let standing = Standing::read(&answers.next()?, &answers.next()?)?;
    let now = answers.now()?;
    let mut script = Script::default();
    let fence = if fences > 0 { fence::drawn(&mut answers)? } else { Fence::NONE };
    let mut world = World { standing, now, fence, changed: BTreeSet::new(), freed: false };
    let done = batch.iter().map(|wish| world.grant(wish)).collect();
    world.write(&mut script, &tenants);
    if world.freed {
        wake::count(&mut script, Port::Locks);
    }
    tx.commit(script).await?;
    if world.freed {
        inner.wake.tell();
    }
    Ok(done)
}

fn within(tenants: &BTreeSet<&TenantId>) -> String {
    format!("IN ({})", list(tenants.iter().map(|tenant| tenant.as_str())))
}

/// Locks the rows of tenants, in order; one that is not there is made, without a fence.
fn hold(script: &mut Script, tenants: &BTreeSet<&TenantId>) {
    let rows = tenants.iter().map(|tenant| row![tenant.as_str(), "", "", 0_u8, Ms::ZERO, Ms::ZERO]);
    let head = "INSERT INTO tenant_lock (tenant_id, plan_id, task_id, fence, acquired_at, expires_at) VALUES ";
    script.rows(head, rows, "ON DUPLICATE KEY UPDATE tenant_id = VALUES(tenant_id)");
}

/// Takes a tenant's row away if it was made only to be locked.
fn let_go(script: &mut Script, tenant: &TenantId) {
    script.say(&format!("DELETE FROM tenant_lock WHERE fence = 0 AND tenant_id = {}", literal(tenant.as_str())));
}

impl World {
    fn grant(&mut self, wish: &Wish) -> Answer {
        match wish {
            Wish::Acquire(want) => Answer::Acquired(want.iter().map(|want| self.acquire(want)).collect()),
            Wish::Renew(held, ttl_ms) => Answer::Renewed(held.iter().map(|held| self.renew(held, *ttl_ms)).collect()),
            Wish::Release(held) => Answer::Released(held.iter().map(|held| self.release(held)).collect()),
        }
    }

    fn acquire(&mut self, want: &Acquire) -> Result<Holder, Refusal> {
        let (held, freeze) = (self.standing.holders.get(&want.tenant), self.standing.freezes.get(&want.tenant));
        let want = Acquire { ttl_ms: lease(want.ttl_ms), ..want.clone() };
        let holder = acquire(held, freeze, &want, self.fence, self.now)?;
        self.fence = Fence(self.fence.0 + 1);
        self.put(holder.clone());
        Ok(holder)
    }

    fn still(&self, held: &Held) -> Result<&Holder, Refusal> {
        still(self.standing.holders.get(&held.tenant), held, self.now).ok_or(Refusal::NotHeld { fence: held.fence })
    }

    fn renew(&mut self, held: &Held, ttl_ms: u64) -> Result<Ms, Refusal> {
        let until = self.now.plus(lease(ttl_ms));
        let holder = Holder { until, ..self.still(held)?.clone() };
        self.put(holder);
        Ok(until)
    }

    fn release(&mut self, held: &Held) -> Result<(), Refusal> {
        self.still(held)?;
        self.standing.holders.remove(&held.tenant);
        self.changed.insert(held.tenant.clone());
        self.freed = true;
        Ok(())
    }

    fn put(&mut self, holder: Holder) {
        self.changed.insert(holder.tenant.clone());
        self.standing.holders.insert(holder.tenant.clone(), holder);
    }

    /// Writes who holds which of these tenants. The rows of the others go, also those that were made only to be locked.
    fn write(&self, script: &mut Script, tenants: &BTreeSet<&TenantId>) {
        let rows = self.changed.iter().filter_map(|tenant| self.standing.holders.get(tenant)).map(|holder| {
            let Holder { tenant, plan, task, fence, since, until } = holder;
            row![tenant.as_str(), plan.as_str(), task.as_str(), *fence, *since, *until]
        });
        script.rows(
            "INSERT INTO tenant_lock (tenant_id, plan_id, task_id, fence, acquired_at, expires_at) VALUES ",
            rows,
            "ON DUPLICATE KEY UPDATE plan_id = VALUES(plan_id), task_id = VALUES(task_id), fence = VALUES(fence), \
             acquired_at = VALUES(acquired_at), expires_at = VALUES(expires_at)",
        );
        let gone = tenants.iter().filter(|tenant| !self.standing.holders.contains_key(**tenant));
        script.remove("tenant_lock", "tenant_id", gone.map(|tenant| tenant.as_str()));
    }
}

/// What a person does, and the operation with it, in one transaction. Who comes second with the same operation meets the first
/// one's record and is answered from it.
pub(super) async fn force(
    inner: &Inner,
    tenant: &TenantId,
    what: Force,
    by: &By,
    reason: Option<&Reason>,
    op: Option<&Op>,
) -> Result<Result<Tenant, Refusal>, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let freeze = |at: Ms| Freeze { tenant: tenant.clone(), by: by.clone(), reason: reason.cloned(), at };
        let done = attempt_force(&mut tx, inner, what, tenant, freeze, op).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_force(
    tx: &mut Lent<'_>,
    inner: &Inner,
    what: Force,
    tenant: &TenantId,
    freeze: impl Fn(Ms) -> Freeze,
    op: Option<&Op>,
) -> Result<Result<Tenant, Refusal>, Failure> {
    let tenants = BTreeSet::from([tenant]);
    let mut script = Script::begin();
    hold(&mut script, &tenants);
    read::ask(&mut script, &within(&tenants));
    inner.clock.ask(&mut script);
    let ops = list(op.map(|op| op.id.as_str()));
    script.ask(&format!("SELECT {} FROM operation WHERE op_id IN ({ops})", state_row::OP));
    let mut answers = tx.run(&script).await?;
    let standing = Standing::read(&answers.next()?, &answers.next()?)?;
    let (now, kept) = (answers.now()?, answers.next()?);
    let mut script = Script::default();
    if let (Some(op), Some(kept)) = (op, kept.first()) {
        let cells = &mut Cells::of(kept);
        drop(cells.parse::<OpId>()?);
        let answer = Tenant::answered(op, &state_row::op(cells)?);
        let_go(&mut script, tenant);
        tx.commit(script).await?;
        return Ok(answer);
    }
    let before = standing.tenant(tenant, now);
    let id = literal(tenant.as_str());
    match what {
        Force::Release => script.say(&format!("DELETE FROM tenant_lock WHERE tenant_id = {id}")),
        Force::Unfreeze => script.say(&format!("DELETE FROM tenant_freeze WHERE tenant_id = {id}")),
        Force::Freeze => {
            let Freeze { tenant, by, reason, at } = freeze(now);
            // Who froze it first stays on record.
            script.rows(
                "INSERT INTO tenant_freeze (tenant_id, `by`, reason, frozen_at) VALUES ",
                [row![tenant.as_str(), by.to_string(), reason.map(|reason| reason.to_string()), at]],
                "ON DUPLICATE KEY UPDATE tenant_id = VALUES(tenant_id)",
            );
        }
    }
    let_go(&mut script, tenant);
    if let Some(op) = op {
        write::add_ops(&mut script, &[(&op.id, &before.kept(op, now))]);
    }
    wake::count(&mut script, Port::Locks);
    tx.commit(script).await?;
    Ok(Ok(before))
}
