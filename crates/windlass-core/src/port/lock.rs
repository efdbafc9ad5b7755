//! The port for tenant locks.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::state::{Op, OpRow};
use super::{Cursor, Each, Mark, Page, PortError, Refusal};
use crate::by::{By, Reason};
use crate::id::TenantId;
use crate::json::Json;
use crate::lock::{Acquire, Freeze, Held, Holder};
use crate::time::Ms;

/// What a person does to a tenant's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Takes it from whoever holds it.
    Release,
    /// Nothing of the tenant starts any more.
    Freeze,
    /// It may again.
    Unfreeze,
}

/// A tenant as the lock port sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Tenant {
    /// Which.
    #[serde(rename = "tenantId")]
    pub tenant: TenantId,
    /// Who holds it now; an expired lock is nobody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// Whether it is frozen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<Freeze>,
}

impl Tenant {
    /// What is kept of the operation that found this tenant, at `at`.
    #[must_use]
    pub fn kept(&self, op: &Op, at: Ms) -> OpRow {
        OpRow { digest: op.digest, version: 0, seq: 0, at, answer: Json::of(self).ok() }
    }

    /// What a repeat of an operation is answered. An id that another operation had is not to be used again.
    pub fn answered(op: &Op, kept: &OpRow) -> Result<Tenant, Refusal> {
        let same = kept.digest == op.digest;
        let answer = kept.answer.as_ref().filter(|_| same).and_then(|answer| answer.to().ok());
        answer.ok_or(Refusal::OpReused)
    }
}

/// Tenant locks. Judged by the store's clock. Every write is atomic for itself: after a crash in the
/// middle of a call, some items may be done and others not, none half.
#[async_trait]
pub trait Locks: Send + Sync {
    /// Grants locks, each with the next fence of the store. Refused: Held, Frozen. Repeating after a
    /// lost answer is safe: the same task gets the lock again under a higher fence.
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder>;

    /// Prolongs locks to `ttl_ms` from now, if task and fence still hold them. Refused: NotHeld.
    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms>;

    /// Gives locks back, if task and fence still hold them. Refused: NotHeld, which is also what a
    /// repeat after a lost answer gets.
    async fn release(&self, held: &[Held]) -> Each<()>;

    /// What a person does; answers what it was before. Repeating it changes nothing. With an operation, that is kept
    /// in the same write, as those of [`super::state::State::commit`] are and as long: the same again is answered the
    /// same, whatever has become of the tenant. Refused: OpReused.
    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError>;

    /// These tenants, held or not.
    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError>;

    /// Tenants that are held or frozen now, by id.
    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError>;

    /// Waits until somebody released, forced or froze something after `since`, at most `wait_ms`;
    /// answers how far things are now.
    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError>;

    /// Forgets at most `limit` locks that expired before `before` (none that is held now); answers how
    /// many.
    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError>;
}
