//! Tenants, as the locks know them.

use windlass_core::id::TenantId;
use windlass_core::port::lock::Tenant;
use windlass_core::port::{Cursor, PAGE_MAX, Page, PortError};

use crate::Engine;
use crate::error::Error;

impl Engine {
    /// Who holds a tenant, and whether it is frozen.
    pub async fn view_tenant(&self, tenant: &TenantId) -> Result<Tenant, Error> {
        let found = self.0.locks.load(std::slice::from_ref(tenant)).await?.pop();
        found.ok_or_else(|| PortError::Corrupt("the store answered nothing".to_owned()).into())
    }

    /// A page of the tenants that are held or frozen now.
    pub async fn tenants(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, Error> {
        Ok(self.0.locks.list(after, limit.clamp(1, PAGE_MAX)).await?)
    }
}
