//! Tenant locks: core's rules over two maps and one counter.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::by::{By, Reason};
use windlass_core::fence::Fence;
use windlass_core::id::TenantId;
use windlass_core::lock::{Acquire, Freeze, Held, Holder, acquire, holder, still};
use windlass_core::port::Refusal;
use windlass_core::port::lock::{Force, Tenant};
use windlass_core::time::Ms;

use super::Data;

impl Data {
    pub(super) fn acquire(&mut self, want: &Acquire, now: Ms) -> Result<Holder, Refusal> {
        let fence = Fence::next(self.fence, now.get() * 1_000);
        let granted = acquire(self.locks.get(&want.tenant), self.freezes.get(&want.tenant), want, fence, now)?;
        self.fence = fence;
        self.locks.insert(want.tenant.clone(), granted.clone());
        Ok(granted)
    }

    pub(super) fn renew(&mut self, held: &Held, ttl_ms: u64, now: Ms) -> Result<Ms, Refusal> {
        self.still(held, now)?;
        let lock = self.locks.get_mut(&held.tenant).expect("it is still held");
        lock.until = now.plus(ttl_ms);
        Ok(lock.until)
    }

    pub(super) fn release(&mut self, held: &Held, now: Ms) -> Result<(), Refusal> {
        self.still(held, now)?;
        self.locks.remove(&held.tenant);
        Ok(())
    }

    fn still(&self, held: &Held, now: Ms) -> Result<(), Refusal> {
        match still(self.locks.get(&held.tenant), held, now) {
            Some(_) => Ok(()),
            None => Err(Refusal::NotHeld { fence: held.fence }),
        }
    }

    pub(super) fn force(
        &mut self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        now: Ms,
    ) -> Tenant {
        let before = self.tenant(tenant, now);
        match what {
            Force::Release => drop(self.locks.remove(tenant)),
            Force::Unfreeze => drop(self.freezes.remove(tenant)),
            Force::Freeze => {
                let freeze = Freeze { tenant: tenant.clone(), by: by.clone(), reason: reason.cloned(), at: now };
                self.freezes.entry(tenant.clone()).or_insert(freeze);
            }
        }
        before
    }

    pub(super) fn tenant(&self, tenant: &TenantId, now: Ms) -> Tenant {
        Tenant {
            tenant: tenant.clone(),
            holder: holder(self.locks.get(tenant), now).cloned(),
            freeze: self.freezes.get(tenant).cloned(),
        }
    }

    pub(super) fn busy_tenants(&self, now: Ms) -> BTreeMap<String, Tenant> {
        let known: BTreeSet<&TenantId> = self.locks.keys().chain(self.freezes.keys()).collect();
        let tenants = known.into_iter().map(|tenant| self.tenant(tenant, now));
        let busy = tenants.filter(|tenant| tenant.holder.is_some() || tenant.freeze.is_some());
        busy.map(|tenant| (tenant.tenant.to_string(), tenant)).collect()
    }

    pub(super) fn purge_locks(&mut self, before: Ms, limit: u32, now: Ms) -> u32 {
        let old =
            self.locks.values().filter(|lock| lock.until < before && lock.until <= now).map(|lock| lock.tenant.clone());
        let old: Vec<TenantId> = old.take(limit as usize).collect();
        old.iter().for_each(|tenant| drop(self.locks.remove(tenant)));
        old.len() as u32
    }
}
