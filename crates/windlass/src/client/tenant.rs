//! Tenants: freeze, unfreeze, take a lock away.

use reqwest::Method;
use windlass_core::id::TenantId;

use super::send::Call;
use super::{Answer, Ask, Client, Error, Page, view};

impl Client {
    /// Nothing of the tenant starts any more. Answers what it was before, as the two below do.
    pub async fn freeze(&self, tenant: &TenantId, ask: &Ask) -> Result<Answer<view::Tenant>, Error> {
        self.operation(Method::PUT, format!("v1/tenants/{tenant}/freeze"), ask, ()).await
    }

    /// It may again.
    pub async fn unfreeze(&self, tenant: &TenantId, ask: &Ask) -> Result<Answer<view::Tenant>, Error> {
        self.operation(Method::DELETE, format!("v1/tenants/{tenant}/freeze"), ask, ()).await
    }

    /// Takes the tenant's lock from whoever holds it.
    pub async fn release_lock(&self, tenant: &TenantId, ask: &Ask) -> Result<Answer<view::Tenant>, Error> {
        self.operation(Method::DELETE, format!("v1/tenants/{tenant}/lock"), ask, ()).await
    }

    /// Who holds the tenant.
    pub async fn lock(&self, tenant: &TenantId) -> Result<Answer<view::Tenant>, Error> {
        self.call(Call::get(format!("v1/tenants/{tenant}/lock"))).await
    }

    /// A page of instances, by id: those that run, and those that are gone and not yet forgotten.
    pub async fn instances(&self, limit: Option<u32>, after: Option<&str>) -> Result<Page<view::Instance>, Error> {
        self.page(Call::get("v1/instances").with("limit", limit).with("after", after)).await
    }

    /// A page of tenants that are held or frozen, by id.
    pub async fn locks(&self, limit: Option<u32>, after: Option<&str>) -> Result<Page<view::Tenant>, Error> {
        self.page(Call::get("v1/locks").with("limit", limit).with("after", after)).await
    }
}
