//! Tenants: who holds them, and whether they are frozen.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_core::lock;
use windlass_core::port::lock as port;
use windlass_core::port::state::InstanceRow;

use crate::schema::Time;

/// Who holds a tenant.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Holder {
    tenant_id: String,
    plan_id: String,
    task_id: String,
    fence: u64,
    since: Time,
    until: Time,
}

impl From<&lock::Holder> for Holder {
    fn from(holder: &lock::Holder) -> Holder {
        Holder {
            tenant_id: holder.tenant.to_string(),
            plan_id: holder.plan.to_string(),
            task_id: holder.task.to_string(),
            fence: holder.fence.0,
            since: Time(holder.since),
            until: Time(holder.until),
        }
    }
}

/// Nothing of the tenant starts.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Freeze {
    tenant_id: String,
    by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    at: Time,
}

impl From<&lock::Freeze> for Freeze {
    fn from(freeze: &lock::Freeze) -> Freeze {
        Freeze {
            tenant_id: freeze.tenant.to_string(),
            by: freeze.by.to_string(),
            reason: freeze.reason.as_ref().map(ToString::to_string),
            at: Time(freeze.at),
        }
    }
}

/// A tenant, held or not, frozen or not.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tenant {
    tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<Holder>,
    #[serde(skip_serializing_if = "Option::is_none")]
    freeze: Option<Freeze>,
}

impl From<&port::Tenant> for Tenant {
    fn from(tenant: &port::Tenant) -> Tenant {
        Tenant {
            tenant_id: tenant.tenant.to_string(),
            holder: tenant.holder.as_ref().map(Holder::from),
            freeze: tenant.freeze.as_ref().map(Freeze::from),
        }
    }
}

/// A running server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Instance {
    id: String,
    /// Up since.
    since: Time,
    /// Until when its lease runs; past, if it is gone.
    until: Time,
}

impl From<&InstanceRow> for Instance {
    fn from(row: &InstanceRow) -> Instance {
        Instance { id: row.id.to_string(), since: Time(row.since), until: Time(row.until) }
    }
}
