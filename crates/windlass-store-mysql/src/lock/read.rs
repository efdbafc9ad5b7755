//! Locks and freezes as they stand.

use std::collections::HashMap;

use mysql_async::Row;
use windlass_core::fence::Fence;
use windlass_core::id::TenantId;
use windlass_core::lock::{Freeze, Holder, holder};
use windlass_core::port::PortError;
use windlass_core::port::lock::Tenant;
use windlass_core::time::Ms;

use crate::Inner;
use crate::cell::Cells;
use crate::text::{Script, list as listed, literal};

/// What [`Standing::read`] reads.
pub(super) fn ask(script: &mut Script, tenants: &str) {
    script.ask(&format!(
        "SELECT tenant_id, plan_id, task_id, fence, acquired_at, expires_at FROM tenant_lock WHERE fence > 0 AND tenant_id {tenants}"
    ));
    script.ask(&format!("SELECT tenant_id, `by`, reason, frozen_at FROM tenant_freeze WHERE tenant_id {tenants}"));
}

/// Who holds what, expired or not, and what is frozen.
#[derive(Default)]
pub(super) struct Standing {
    pub(super) holders: HashMap<TenantId, Holder>,
    pub(super) freezes: HashMap<TenantId, Freeze>,
}

impl Standing {
    pub(super) fn read(locks: &[Row], freezes: &[Row]) -> Result<Standing, PortError> {
        let mut standing = Standing::default();
        for row in locks {
            let cells = &mut Cells::of(row);
            let tenant: TenantId = cells.parse()?;
            let holder = Holder {
                tenant: tenant.clone(),
                plan: cells.parse()?,
                task: cells.parse()?,
                fence: Fence(cells.parse()?),
                since: cells.at()?,
                until: cells.at()?,
            };
            standing.holders.insert(tenant, holder);
        }
        for row in freezes {
            let cells = &mut Cells::of(row);
            let tenant: TenantId = cells.parse()?;
            let (by, reason, at) = (cells.parse()?, cells.parse_or_none()?, cells.at()?);
            standing.freezes.insert(tenant.clone(), Freeze { tenant, by, reason, at });
        }
        Ok(standing)
    }

    /// A tenant at a moment.
    pub(super) fn tenant(&self, tenant: &TenantId, now: Ms) -> Tenant {
        let (held, freeze) = (self.holders.get(tenant), self.freezes.get(tenant).cloned());
        Tenant { tenant: tenant.clone(), holder: holder(held, now).cloned(), freeze }
    }
}

pub(super) async fn load(inner: &Inner, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
    let mut script = Script::default();
    ask(&mut script, &format!("IN ({})", listed(tenants.iter().map(TenantId::as_str))));
    inner.clock.ask(&mut script);
    let mut answers = inner.pool.run(&script).await?;
    let standing = Standing::read(&answers.next()?, &answers.next()?)?;
    let now = answers.now()?;
    Ok(tenants.iter().map(|tenant| standing.tenant(tenant, now)).collect())
}

/// Locks that run and freezes, merged by tenant.
pub(super) async fn list(inner: &Inner, after: &str, limit: u64) -> Result<Vec<Tenant>, PortError> {
    let (now, after) = (inner.clock.now(), literal(after));
    let sql = format!(
        "(SELECT tenant_id FROM tenant_lock WHERE expires_at > {now} AND tenant_id > {after} ORDER BY tenant_id LIMIT {limit}) \
         UNION (SELECT tenant_id FROM tenant_freeze WHERE tenant_id > {after} ORDER BY tenant_id LIMIT {limit}) \
         ORDER BY tenant_id LIMIT {limit}"
    );
    let busy =
        inner.pool.ask(&sql).await?.iter().map(|row| Cells::of(row).parse()).collect::<Result<Vec<TenantId>, _>>()?;
    // One that was let go since is shown as it is by now.
    load(inner, &busy).await
}
