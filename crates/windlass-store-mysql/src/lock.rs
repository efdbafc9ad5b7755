//! Tenant locks on MySQL. What concurrent callers want is locked and read in one trip, judged here by the core's rules, and
//! written with its COMMIT in a second one. A tenant that has no row gets one for as long as that takes, so that whoever judges it
//! does so alone.

mod judge;
mod read;

use async_trait::async_trait;
use windlass_core::by::{By, Reason};
use windlass_core::id::TenantId;
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::page::{bad, check_batch, check_limit, page, parts};
use windlass_core::port::state::Op;
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use crate::cell::one;
use crate::state::list::with_one_more;
use crate::text::{Script, literal};
use crate::wake::Port;
use crate::{MySql, line};

pub(crate) use judge::Wish;

#[async_trait]
impl Locks for MySql {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        check_batch(want.len())?;
        match line::carry(&self.inner, Wish::Acquire(want.to_vec())).await? {
            judge::Answer::Acquired(answers) => Ok(answers),
            _ => Err(crossed()),
        }
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        check_batch(held.len())?;
        match line::carry(&self.inner, Wish::Renew(held.to_vec(), ttl_ms)).await? {
            judge::Answer::Renewed(answers) => Ok(answers),
            _ => Err(crossed()),
        }
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        check_batch(held.len())?;
        match line::carry(&self.inner, Wish::Release(held.to_vec())).await? {
            judge::Answer::Released(answers) => Ok(answers),
            _ => Err(crossed()),
        }
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        let (tenant, by, reason, op) = (tenant.clone(), by.clone(), reason.cloned(), op.cloned());
        self.run(async move |inner| {
            let before = judge::force(&inner, &tenant, what, &by, reason.as_ref(), op.as_ref()).await?;
            inner.wake.tell();
            Ok(before)
        })
        .await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        check_batch(tenants.len())?;
        let tenants = tenants.to_vec();
        self.run(async move |inner| read::load(&inner, &tenants).await).await
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        check_limit(limit)?;
        let after = match after {
            None => String::new(),
            Some(cursor) => {
                let [id] = parts::<1>(cursor, "lock")?;
                id.parse::<TenantId>().map_err(|_| bad())?.to_string()
            }
        };
        self.run(async move |inner| {
            let tenants = read::list(&inner, &after, with_one_more(limit)).await?;
            Ok(page(tenants, limit, |last: &Tenant| Cursor(format!("lock.{}", last.tenant))))
        })
        .await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner, Port::Locks, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| {
            let mut script = Script::default();
            script.say(&format!(
                "DELETE FROM tenant_lock WHERE expires_at < {} AND expires_at <= {} ORDER BY expires_at LIMIT {limit}",
                literal(before),
                inner.clock.now()
            ));
            script.ask("SELECT ROW_COUNT()");
            let rows = inner.pool.run(&script).await?.next()?;
            one(&rows)?.parse()
        })
        .await
    }
}

fn crossed() -> PortError {
    PortError::Corrupt("an answer to something else".to_owned())
}
