//! Tenant locks on the embedded store. The rules are core's; this is where they meet the records.

use async_trait::async_trait;
use windlass_core::by::{By, Reason};
use windlass_core::id::TenantId;
use windlass_core::lock::{self as rules, Acquire, Freeze, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::Op;
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use crate::kv::{KvError, Read};
use crate::state::list::{check_batch, check_limit, cursor_after, cursor_of};
use crate::tx::{Records, Tx};
use crate::{Embedded, key, record};

#[async_trait]
impl Locks for Embedded {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        check_batch(want.len())?;
        let (want, ahead) = (want.to_vec(), self.ahead_ms);
        self.writer.write(move |tx| want.iter().map(|want| acquire(tx, want, ahead)).collect()).await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        check_batch(held.len())?;
        let (held, ahead) = (held.to_vec(), self.ahead_ms);
        self.writer.write(move |tx| held.iter().map(|held| renew(tx, held, ttl_ms, ahead)).collect()).await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        check_batch(held.len())?;
        let (held, ahead) = (held.to_vec(), self.ahead_ms);
        self.writer.write(move |tx| held.iter().map(|held| release(tx, held, ahead)).collect()).await
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        let (tenant, by, reason, ahead) = (tenant.clone(), by.clone(), reason.cloned(), self.ahead_ms);
        let op = op.cloned();
        self.writer
            .write(move |tx| {
                let kept = match &op {
                    Some(op) => tx.record(&key::op(&op.id))?.map(|kept| Tenant::answered(op, &kept)),
                    None => None,
                };
                if let Some(answer) = kept {
                    return Ok(answer);
                }
                let before = force(tx, tenant, what, by, reason, ahead)?;
                if let Some(op) = op {
                    let row = before.kept(&op, tx.now(ahead));
                    tx.put_record(key::op(&op.id), &row)?;
                    tx.put_record(key::op_age(row.at, &op.id), &op.id)?;
                }
                Ok(Ok(before))
            })
            .await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        check_batch(tenants.len())?;
        let now = self.writer.clock.now(self.ahead_ms);
        self.writer.read(|read| tenants.iter().map(|tenant| Ok(tenant_at(read, tenant, now)?)).collect())
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        check_limit(limit)?;
        let now = self.writer.clock.now(self.ahead_ms);
        self.writer.read(|read| list(read, after, limit, now))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.writer.changed(&self.writer.lock_mark, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let now = self.writer.clock.now(self.ahead_ms);
        let old = self.writer.read(|read| expired(read, before, limit, now))?;
        self.writer
            .write(move |tx| {
                let mut gone = 0;
                for tenant in old {
                    let key = key::lock(&tenant);
                    // It may have been granted anew since it was found.
                    if tx.record::<Holder>(&key)?.is_some_and(|holder| holder.until < before && holder.until <= now) {
                        tx.remove(key);
                        gone += 1;
                    }
                }
                Ok(gone)
            })
            .await
    }
}

type Judged<T> = Result<Result<T, Refusal>, PortError>;

fn acquire(tx: &mut Tx<'_>, want: &Acquire, ahead_ms: u64) -> Judged<Holder> {
    let now = tx.now(ahead_ms);
    let key = key::lock(&want.tenant);
    let (stored, freeze) = (tx.record(&key)?, tx.record(&key::freeze(&want.tenant))?);
    // Drawn only once it is sure to be granted: the rule is asked first with no fence at all.
    let granted = rules::acquire(stored.as_ref(), freeze.as_ref(), want, windlass_core::fence::Fence::NONE, now);
    match granted {
        Ok(mut holder) => {
            holder.fence = tx.draw_fence()?;
            tx.put_record(key, &holder)?;
            Ok(Ok(holder))
        }
        Err(why) => Ok(Err(why.into())),
    }
}

fn renew(tx: &mut Tx<'_>, held: &Held, ttl_ms: u64, ahead_ms: u64) -> Judged<Ms> {
    let now = tx.now(ahead_ms);
    let key = key::lock(&held.tenant);
    let stored = tx.record::<Holder>(&key)?;
    let Some(holder) = rules::still(stored.as_ref(), held, now) else {
        return Ok(Err(Refusal::NotHeld { fence: held.fence }));
    };
    let until = now.plus(ttl_ms);
    tx.put_record(key, &Holder { until, ..holder.clone() })?;
    Ok(Ok(until))
}

fn release(tx: &mut Tx<'_>, held: &Held, ahead_ms: u64) -> Judged<()> {
    let now = tx.now(ahead_ms);
    let key = key::lock(&held.tenant);
    if rules::still(tx.record(&key)?.as_ref(), held, now).is_none() {
        return Ok(Err(Refusal::NotHeld { fence: held.fence }));
    }
    tx.remove(key);
    tx.locks_changed = true;
    Ok(Ok(()))
}

fn force(
    tx: &mut Tx<'_>,
    tenant: TenantId,
    what: Force,
    by: By,
    reason: Option<Reason>,
    ahead_ms: u64,
) -> Result<Tenant, KvError> {
    let at = tx.now(ahead_ms);
    let before = tenant_at(tx, &tenant, at)?;
    match what {
        Force::Release => tx.remove(key::lock(&tenant)),
        Force::Unfreeze => tx.remove(key::freeze(&tenant)),
        // Who froze it first stays on record.
        Force::Freeze if before.freeze.is_some() => {}
        Force::Freeze => tx.put_record(key::freeze(&tenant), &Freeze { tenant: tenant.clone(), by, reason, at })?,
    }
    tx.locks_changed = true;
    Ok(before)
}

fn tenant_at(read: &(impl Read + ?Sized), tenant: &TenantId, now: Ms) -> Result<Tenant, KvError> {
    let stored: Option<Holder> = read.record(&key::lock(tenant))?;
    let freeze = read.record(&key::freeze(tenant))?;
    Ok(Tenant { tenant: tenant.clone(), holder: rules::holder(stored.as_ref(), now).cloned(), freeze })
}

/// Locks and freezes, merged by tenant.
fn list(read: &dyn Read, after: Option<&Cursor>, limit: u32, now: Ms) -> Result<Page<Tenant>, PortError> {
    let mut tenants = std::collections::BTreeSet::new();
    let wanted = limit as usize + 1;
    for (from, to) in [key::locks(), key::freezes()] {
        let table = from.clone();
        let from = cursor_after(after, &table)?.unwrap_or(from);
        let mut found = 0;
        read.scan(&from, &to, &mut |_, value| {
            let tenant = match table[0] == b'l' {
                true => record::decode::<Holder>(value).map(|h| (h.until > now).then_some(h.tenant))?,
                false => Some(record::decode::<Freeze>(value)?.tenant),
            };
            found += usize::from(tenant.is_some());
            tenants.extend(tenant);
            Ok(found < wanted)
        })?;
    }
    let more = tenants.len() >= wanted;
    let ids: Vec<TenantId> = tenants.into_iter().take(limit as usize).collect();
    let next = ids.last().filter(|_| more).map(|last| cursor_of(last.as_str().as_bytes()));
    let items = ids.iter().map(|tenant| tenant_at(read, tenant, now)).collect::<Result<_, _>>()?;
    Ok(Page { items, next })
}

fn expired(read: &dyn Read, before: Ms, limit: u32, now: Ms) -> Result<Vec<TenantId>, PortError> {
    let (from, to) = key::locks();
    let mut old = Vec::new();
    if limit == 0 {
        return Ok(old);
    }
    read.scan(&from, &to, &mut |_, value| {
        let holder: Holder = record::decode(value)?;
        if holder.until < before && holder.until <= now {
            old.push(holder.tenant);
        }
        Ok(old.len() < limit as usize)
    })?;
    Ok(old)
}
