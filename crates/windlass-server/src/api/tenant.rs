//! Tenants: freeze, unfreeze, take the lock away, and who holds what.

use windlass_core::id::TenantId;
use windlass_core::port::lock::Force;
use windlass_core::port::state::{Filter, Row};

use crate::call::{Answer, Call, List, ok};
use crate::problem::Problem;
use crate::view::lock::{Instance, Tenant};

impl Call {
    pub(crate) fn tenant(&self) -> Result<TenantId, Problem> {
        let tenant = self.part("tenant")?;
        self.own_tenant(&tenant)?;
        Ok(tenant)
    }
}

pub(crate) async fn get(call: Call) -> Answer {
    ok(&Tenant::from(&call.engine().view_tenant(&call.tenant()?).await?))
}

pub(crate) async fn freeze(call: Call) -> Answer {
    force(call, Force::Freeze).await
}

pub(crate) async fn unfreeze(call: Call) -> Answer {
    force(call, Force::Unfreeze).await
}

pub(crate) async fn release(call: Call) -> Answer {
    force(call, Force::Release).await
}

async fn force(call: Call, what: Force) -> Answer {
    let tenant = call.tenant()?;
    let caller = call.operation()?;
    ok(&Tenant::from(&call.engine().tenant(&tenant, what, &caller).await?))
}

pub(crate) async fn locks(call: Call) -> Answer {
    let (after, limit) = call.page()?;
    let page = call.engine().tenants(after.as_ref(), limit).await?;
    let items = page.items.iter().filter(|tenant| call.who.sees(&tenant.tenant)).map(Tenant::from);
    ok(&List::new(items.collect(), page.next))
}

pub(crate) async fn instances(call: Call) -> Answer {
    call.who.for_everybody("the list of instances")?;
    let (after, limit) = call.page()?;
    let page = call.engine().list(&Filter::Instances, after.as_ref(), limit).await?;
    let items = page.items.iter().filter_map(|row| match row {
        Row::Instance(row) => Some(Instance::from(row)),
        _ => None,
    });
    ok(&List::new(items.collect(), page.next))
}
