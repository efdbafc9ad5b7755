//! Tenant locks on Redis. Each call is one script; the rules are core's, written out in `script/locks.lua`.

use async_trait::async_trait;
use redis::Value;
use windlass_core::by::{By, Reason};
use windlass_core::fence::Fence;
use windlass_core::id::TenantId;
use windlass_core::json::Json;
use windlass_core::lock::{Acquire, Freeze, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::Op;
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use crate::Redis;
use crate::error::corrupt;
use crate::page::{check_batch, check_limit, cursor, place};
use crate::reply::{array, number, parts, text};
use crate::script;
use crate::state::step::json;
use crate::wake::Port;

#[async_trait]
impl Locks for Redis {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        check_batch(want.len())?;
        let mut call = self.inner.script(&script::ACQUIRE).arg(want.len());
        for Acquire { tenant, plan, task, ttl_ms } in want {
            call.push((tenant.as_str(), plan.as_str(), task.as_str(), (*ttl_ms).min(Ms::MAX.get())));
        }
        let answers = array(self.inner.call(&call).await?)?;
        want.iter().zip(answers).map(|(want, answer)| granted(want, answer)).collect()
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        check_batch(held.len())?;
        let mut call = self.inner.script(&script::RENEW).arg((ttl_ms.min(Ms::MAX.get()), held.len()));
        for Held { tenant, task, fence } in held {
            call.push((tenant.as_str(), task.as_str(), fence.0));
        }
        let answers = array(self.inner.call(&call).await?)?;
        let each = held.iter().zip(answers).map(|(held, answer)| match text(answer)? {
            none if none.is_empty() => Ok(Err(Refusal::NotHeld { fence: held.fence })),
            until => until.parse().map(|until| Ok(Ms::new(until))).map_err(|error| corrupt("a time", error)),
        });
        each.collect()
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        check_batch(held.len())?;
        let mut call = self.inner.script(&script::RELEASE).arg(held.len());
        for Held { tenant, task, fence } in held {
            call.push((tenant.as_str(), task.as_str(), fence.0));
        }
        let answers = array(self.inner.call(&call).await?)?;
        let each = held.iter().zip(answers).map(|(held, answer)| match answer {
            Value::Int(1) => Ok(Ok(())),
            _ => Ok(Err(Refusal::NotHeld { fence: held.fence })),
        });
        each.collect()
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        let word = match what {
            Force::Release => "release",
            Force::Freeze => "freeze",
            Force::Unfreeze => "unfreeze",
        };
        // The store's clock says when: the text around it is made here.
        let freeze = Freeze { tenant: tenant.clone(), by: by.clone(), reason: reason.cloned(), at: Ms::ZERO };
        let freeze = json(&freeze)?;
        let (head, tail) = freeze.rsplit_once('0').ok_or_else(|| corrupt("a freeze", "it has no time"))?;
        let (id, digest) = op.map_or(("", 0), |op| (op.id.as_str(), op.digest));
        let call = self.inner.script(&script::FORCE).arg((tenant.as_str(), word, head, tail, id, digest));
        let answer = &mut parts(self.inner.call(&call).await?)?;
        match (answer.text()?.as_str(), op) {
            ("ok", _) => Ok(Ok(tenant_of(tenant, answer.value()?)?)),
            ("kept", Some(_)) => {
                let kept = Json::parse(&answer.text()?).ok().and_then(|kept| kept.to().ok());
                Ok(kept.ok_or(Refusal::OpReused))
            }
            _ => Ok(Err(Refusal::OpReused)),
        }
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        check_batch(tenants.len())?;
        let mut call = self.inner.script(&script::LOAD_LOCKS).arg(tenants.len());
        tenants.iter().for_each(|tenant| call.push(tenant.as_str()));
        let answers = array(self.inner.call(&call).await?)?;
        tenants.iter().zip(answers).map(|(tenant, answer)| tenant_of(tenant, answer)).collect()
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        check_limit(limit)?;
        let after = place("lock", after)?;
        let call = self.inner.script(&script::LIST_LOCKS).arg((after, limit + 1));
        let mut items = Vec::new();
        for answer in array(self.inner.call(&call).await?)? {
            let answer = &mut parts(answer)?;
            items.push(tenant_of(&answer.parse()?, answer.value()?)?);
        }
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(|last| cursor("lock", last.tenant.as_str()));
        Ok(Page { items, next })
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.changed(Port::Locks, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let call = self.inner.script(&script::PURGE_LOCKS).arg((before.get(), limit));
        number(self.inner.call(&call).await?)
    }
}

fn granted(want: &Acquire, answer: Value) -> Result<Result<Holder, Refusal>, PortError> {
    let answer = &mut parts(answer)?;
    let granted: u8 = answer.number()?;
    let Tenant { holder, freeze, .. } = tenant_of(&want.tenant, answer.value()?)?;
    match (granted, holder, freeze) {
        (1, Some(holder), _) => Ok(Ok(holder)),
        (_, _, Some(freeze)) => Ok(Err(Refusal::Frozen(freeze))),
        (_, Some(holder), None) => Ok(Err(Refusal::Held(holder))),
        (_, None, None) => Err(corrupt("a lock", "neither granted nor held")),
    }
}

/// A holder and a freeze, each of which may not be there.
fn tenant_of(tenant: &TenantId, value: Value) -> Result<Tenant, PortError> {
    let parts = &mut parts(value)?;
    let holder = match parts.value()? {
        Value::Nil => None,
        held => {
            let held = &mut crate::reply::parts(held)?;
            Some(Holder {
                tenant: tenant.clone(),
                plan: held.parse()?,
                task: held.parse()?,
                fence: Fence(held.parse()?),
                since: held.at()?,
                until: held.at()?,
            })
        }
    };
    let freeze = parts.some()?.map(|freeze| serde_json::from_str(&freeze)).transpose();
    let freeze = freeze.map_err(|error| corrupt("a freeze", error))?;
    Ok(Tenant { tenant: tenant.clone(), holder, freeze })
}
