//! The port for tenant locks.

use async_trait::async_trait;

use super::{Cursor, Each, Mark, Page, PortError};
use crate::by::{By, Reason};
use crate::id::TenantId;
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// Which.
    pub tenant: TenantId,
    /// Who holds it now; an expired lock is nobody's.
    pub holder: Option<Holder>,
    /// Whether it is frozen.
    pub freeze: Option<Freeze>,
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

    /// What a person does; answers what it was before. Repeating it changes nothing.
    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
    ) -> Result<Tenant, PortError>;

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
