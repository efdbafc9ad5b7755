//! Tenant locks on PostgreSQL. The rules are core's; acquire and force apply them in one statement each,
//! as functions of the migrations.

use std::collections::HashSet;

use async_trait::async_trait;
use windlass_core::by::{By, Reason};
use windlass_core::fence::Fence;
use windlass_core::id::{OpId, TenantId};
use windlass_core::lock::{Acquire, Freeze, Held, Holder};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::page::{bad, check_batch, check_limit, page, parts};
use windlass_core::port::state::Op;
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use crate::cell::{Cells, Stamp, params, signed};
use crate::pool::{Call, Pool, Tx};
use crate::state::list::with_one_more;
use crate::state::{one, row, write};
use crate::wake::Port;
use crate::{Postgres, sql};

#[async_trait]
impl Locks for Postgres {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        check_batch(want.len())?;
        let want = want.to_vec();
        self.run(async move |inner| {
            let mut answers = Vec::with_capacity(want.len());
            for run in runs(&want, |want| &want.tenant) {
                answers.extend(acquire(&inner.pool, run, inner.ahead_ms).await?);
            }
            Ok(answers)
        })
        .await
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        check_batch(held.len())?;
        let held = held.to_vec();
        self.run(async move |inner| {
            let mut answers = Vec::with_capacity(held.len());
            for run in runs(&held, |held| &held.tenant) {
                let [tenants, tasks, fences] = columns(run);
                let ttl_ms = signed(ttl_ms.min(Ms::MAX.get()));
                let call = Call::new(sql::RENEW, params![tenants, tasks, fences, ttl_ms, inner.ahead_ms]);
                let mut renewed = not_held(run);
                for row in &inner.pool.query(&call).await? {
                    let cells = &mut Cells::of(row);
                    answer(&mut renewed, cells.count()?, cells.at()?);
                }
                answers.extend(renewed);
            }
            Ok(answers)
        })
        .await
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        check_batch(held.len())?;
        let held = held.to_vec();
        self.run(async move |inner| {
            let mut answers = Vec::with_capacity(held.len());
            for run in runs(&held, |held| &held.tenant) {
                let [tenants, tasks, fences] = columns(run);
                let call = Call::new(sql::RELEASE, params![tenants, tasks, fences, inner.ahead_ms]);
                let mut released = not_held(run);
                for row in &inner.pool.query(&call).await? {
                    answer(&mut released, Cells::of(row).count()?, ());
                }
                answers.extend(released);
            }
            inner.wake.tell(Port::Locks);
            Ok(answers)
        })
        .await
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
            Force::Release => "RELEASE",
            Force::Freeze => "FREEZE",
            Force::Unfreeze => "UNFREEZE",
        };
        let (tenant, by, reason) = (tenant.clone(), by.to_string(), reason.map(ToString::to_string));
        let op = op.cloned();
        self.run(async move |inner| {
            let call = || {
                let params = params![tenant.to_string(), word, by.clone(), reason.clone(), inner.ahead_ms];
                Call::new(sql::FORCE, params)
            };
            let before = match &op {
                Some(op) => force_once(&inner.pool, op, &tenant, call, inner.ahead_ms).await?,
                None => Ok(tenant_in(tenant.clone(), &mut one(&inner.pool.query(&call()).await?)?)?),
            };
            inner.wake.tell(Port::Locks);
            Ok(before)
        })
        .await
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        check_batch(tenants.len())?;
        let ids: Vec<String> = tenants.iter().map(ToString::to_string).collect();
        self.run(async move |inner| {
            let rows = inner.pool.query(&Call::new(sql::LOAD_LOCKS, params![ids, inner.ahead_ms])).await?;
            rows.iter().map(Cells::of).map(|mut cells| tenant_in(cells.parse()?, &mut cells)).collect()
        })
        .await
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
            let call = Call::new(sql::LIST_LOCKS, params![after, with_one_more(limit), inner.ahead_ms]);
            let rows = inner.pool.query(&call).await?;
            let tenants = rows.iter().map(Cells::of).map(|mut cells| tenant_in(cells.parse()?, &mut cells));
            Ok(page(tenants.collect::<Result<_, _>>()?, limit, |last: &Tenant| Cursor(format!("lock.{}", last.tenant))))
        })
        .await
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.inner.wake.changed(&self.inner.pool, Port::Locks, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        self.run(async move |inner| {
            let call = Call::new(sql::PURGE_LOCKS, params![Stamp(before), i64::from(limit), inner.ahead_ms]);
            inner.pool.query(&call).await.map(|gone| gone.len() as u32)
        })
        .await
    }
}

/// A statement judges every tenant once; a tenant that comes again begins the next one.
fn runs<T>(mut items: &[T], tenant: impl Fn(&T) -> &TenantId) -> Vec<&[T]> {
    let mut runs = Vec::new();
    while !items.is_empty() {
        let mut seen = HashSet::new();
        let run = items.iter().take_while(|item| seen.insert(tenant(item))).count();
        let (first, rest) = items.split_at(run);
        runs.push(first);
        items = rest;
    }
    runs
}

fn columns(held: &[Held]) -> [Vec<String>; 3] {
    let column = |text: fn(&Held) -> String| held.iter().map(text).collect();
    [
        column(|held| held.tenant.to_string()),
        column(|held| held.task.to_string()),
        column(|held| held.fence.to_string()),
    ]
}

fn not_held<T>(held: &[Held]) -> Vec<Result<T, Refusal>> {
    held.iter().map(|held| Err(Refusal::NotHeld { fence: held.fence })).collect()
}

fn answer<T>(answers: &mut [Result<T, Refusal>], nth: usize, value: T) {
    if let Some(answer) = answers.get_mut(nth.wrapping_sub(1)) {
        *answer = Ok(value);
    }
}

/// How often a lock that was let go while it was refused is asked for again.
const AGAIN_MAX: usize = 20;

async fn acquire(pool: &Pool, want: &[Acquire], ahead_ms: i64) -> Each<Holder> {
    let mut answers: Vec<Option<Result<Holder, Refusal>>> = want.iter().map(|_| None).collect();
    for _ in 0..AGAIN_MAX {
        let open: Vec<usize> = (0..want.len()).filter(|n| answers[*n].is_none()).collect();
        if open.is_empty() {
            break;
        }
        let column = |text: fn(&Acquire) -> String| open.iter().map(|n| text(&want[*n])).collect::<Vec<_>>();
        let ttls: Vec<i64> = open.iter().map(|n| signed(want[*n].ttl_ms.min(Ms::MAX.get()))).collect();
        let call = Call::new(
            sql::ACQUIRE,
            params![
                column(|want| want.tenant.to_string()),
                column(|want| want.plan.to_string()),
                column(|want| want.task.to_string()),
                ttls,
                ahead_ms
            ],
        );
        for row in &pool.query(&call).await? {
            let cells = &mut Cells::of(row);
            let n = open[cells.count::<usize>()?.wrapping_sub(1)];
            let granted: bool = cells.get()?;
            let Tenant { holder, freeze, .. } = tenant_in(want[n].tenant.clone(), cells)?;
            answers[n] = match (granted, holder, freeze) {
                (true, Some(holder), _) => Some(Ok(holder)),
                // Granted, and run out at once.
                (true, None, _) => None,
                (false, _, Some(freeze)) => Some(Err(Refusal::Frozen(freeze))),
                (false, Some(holder), None) => Some(Err(Refusal::Held(holder))),
                (false, None, None) => None,
            };
        }
    }
    let busy = || PortError::Unavailable("the lock changed hands too often".to_owned());
    answers.into_iter().map(|answer| answer.ok_or_else(busy)).collect()
}

/// What a person does, and the operation with it, in one transaction. Who comes second with the same operation meets
/// the first one's record and is answered from it.
async fn force_once(
    pool: &Pool,
    op: &Op,
    tenant: &TenantId,
    force: impl Fn() -> Call,
    ahead_ms: i64,
) -> Result<Result<Tenant, Refusal>, PortError> {
    let attempt = async |tx: &Tx<'_>| {
        let calls = vec![Call::new(sql::OPS, params![vec![op.id.to_string()]]), Call::new(sql::NOW, params![ahead_ms])];
        let answers = tx.open(sql::BEGIN, calls).await?;
        let [kept, now] = &answers[..] else {
            return Err(PortError::Corrupt("two answers were expected".to_owned()).into());
        };
        if let Some(kept) = kept.first() {
            let cells = &mut Cells::of(kept);
            drop(cells.parse::<OpId>()?);
            let answer = Tenant::answered(op, &row::op(cells)?);
            tx.commit(Vec::new()).await?;
            return Ok(answer);
        }
        let rows = tx.query(vec![force()]).await?;
        let before = tenant_in(tenant.clone(), &mut one(rows.first().map_or(&[], Vec::as_slice))?)?;
        let kept = before.kept(op, one(now)?.at()?);
        tx.commit(vec![write::add_ops(&[(&op.id, &kept)])]).await?;
        Ok(Ok(before))
    };
    let mut races = 0;
    loop {
        let tx = pool.begin().await?;
        let done = attempt(&tx).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

/// Reads a holder and a freeze, each of which may not be there.
fn tenant_in(tenant: TenantId, cells: &mut Cells<'_>) -> Result<Tenant, PortError> {
    let (plan, task, fence) = (cells.parse_or_none()?, cells.parse_or_none()?, cells.parse_or_none()?);
    let (since, until) = (cells.at_or_none()?, cells.at_or_none()?);
    let (by, reason, at) = (cells.parse_or_none()?, cells.parse_or_none()?, cells.at_or_none()?);
    let holder = match (plan, task, fence, since, until) {
        (Some(plan), Some(task), Some(fence), Some(since), Some(until)) => {
            Some(Holder { tenant: tenant.clone(), plan, task, fence: Fence(fence), since, until })
        }
        _ => None,
    };
    let freeze = by.zip(at).map(|(by, at)| Freeze { tenant: tenant.clone(), by, reason, at });
    Ok(Tenant { tenant, holder, freeze })
}
