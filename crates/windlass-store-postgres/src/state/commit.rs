//! Commits. A plain boundary goes through one statement ([`super::boundary`]); everything else is locked
//! and read in one trip, judged here, and written with its commit in a second one.

use std::collections::HashMap;

use tokio_postgres::Row;
use windlass_core::id::{InstanceId, OpId, PlanId, TenantId};
use windlass_core::port::state::{Step, Stepped};
use windlass_core::port::{PortError, Refusal};
use windlass_core::step::{Needs, OpEntry, PlanEntry, TaskEntry, TenantEntry, World};

use super::{ask, boundary, row, write};
use crate::cell::{Cells, params};
use crate::error::Failure;
use crate::pool::{Call, Pool, Tx};
use crate::sql;

/// An answer per step, and whether somebody may be waiting for what was written.
pub(super) struct Committed {
    pub(super) answers: Vec<Result<Stepped, Refusal>>,
    pub(super) wakes: bool,
}

/// Steps of one call, in order: runs of boundaries and of requests in one trip each, the rest between them.
pub(super) async fn in_order(pool: &Pool, steps: &[Step], ahead_ms: i64) -> Result<Committed, PortError> {
    let mut all = Committed { answers: Vec::with_capacity(steps.len()), wakes: false };
    let mut rest = steps;
    while !rest.is_empty() {
        let (run, asked) = (boundary::run_of(rest), ask::run_of(rest));
        let odd = || {
            let fits = |n: &usize| boundary::run_of(&rest[*n..]) > 0 || ask::run_of(&rest[*n..]) > 0;
            (1..rest.len()).find(fits).unwrap_or(rest.len())
        };
        let (part, length) = match (run, asked) {
            (0, 0) => {
                let odd = odd();
                (judged(pool, &rest[..odd].iter().collect::<Vec<_>>(), ahead_ms).await?, odd)
            }
            (0, _) => {
                let steps: Vec<_> = rest[..asked].iter().collect();
                let written = ask::commit(pool, &steps, ahead_ms).await?;
                let wakes = !written.is_empty();
                (completed(pool, &steps, written, wakes, ahead_ms).await?, asked)
            }
            (_, _) => (boundaries(pool, &rest[..run].iter().collect::<Vec<_>>(), ahead_ms).await?, run),
        };
        rest = &rest[length..];
        all.answers.extend(part.answers);
        all.wakes |= part.wakes;
    }
    Ok(all)
}

/// Boundaries, each task and tenant once.
pub(super) async fn boundaries(pool: &Pool, steps: &[&Step], ahead_ms: i64) -> Result<Committed, PortError> {
    let (written, wakes) = boundary::commit(pool, steps, ahead_ms).await?;
    completed(pool, steps, written, wakes, ahead_ms).await
}

/// What a statement has written of these steps, and the rest: what it left alone is judged in full.
async fn completed(
    pool: &Pool,
    steps: &[&Step],
    mut written: HashMap<usize, Stepped>,
    mut wakes: bool,
    ahead_ms: i64,
) -> Result<Committed, PortError> {
    let left: Vec<&Step> = (0..steps.len()).filter(|n| !written.contains_key(n)).map(|n| steps[n]).collect();
    let mut judged = match left.is_empty() {
        true => Vec::new().into_iter(),
        false => {
            let part = judged(pool, &left, ahead_ms).await?;
            wakes |= part.wakes;
            part.answers.into_iter()
        }
    };
    let unanswered = || Err(Refusal::Invalid("the step was not answered".to_owned()));
    let answers = (0..steps.len())
        .map(|n| written.remove(&n).map(Ok).or_else(|| judged.next()).unwrap_or_else(unanswered))
        .collect();
    Ok(Committed { answers, wakes })
}

/// Any steps: locked, read, judged, written.
pub(super) async fn judged(pool: &Pool, steps: &[&Step], ahead_ms: i64) -> Result<Committed, PortError> {
    let mut races = 0;
    loop {
        let tx = pool.begin().await?;
        let done = attempt(&tx, steps, ahead_ms).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt(tx: &Tx<'_>, steps: &[&Step], ahead_ms: i64) -> Result<Committed, Failure> {
    let mut world = read(tx, steps, ahead_ms).await?;
    let answers = steps.iter().map(|step| world.commit(step)).collect();
    // Such steps are rare: whether anything waits for the slot is for those to see who are woken.
    world.wakes |= !world.freed.is_empty();
    tx.commit(write::calls(&world)?).await?;
    Ok(Committed { answers, wakes: world.wakes })
}

/// Locks and reads what the steps are about, in the order in which everybody locks.
async fn read(tx: &Tx<'_>, steps: &[&Step], ahead_ms: i64) -> Result<World, Failure> {
    let Needs { plans, tasks, put, tenants, ops, plan_tasks, writes_plans, .. } = Needs::of(steps.iter().copied());
    let [plans, tasks, put, tenants, ops, plan_tasks] =
        [plans, tasks, put, tenants, ops, plan_tasks].map(|ids| ids.into_iter().collect::<Vec<_>>());
    let lock_plans = if writes_plans { sql::LOCK_PLANS } else { sql::SHARE_PLANS };
    let calls = vec![
        Call::new(lock_plans, params![plans.clone(), plan_tasks]),
        Call::new(sql::LOCK_TENANTS, params![tenants, put]),
        Call::new(sql::LOCK_TASKS, params![tasks.clone()]),
        Call::new(sql::LEASES_OF_TASKS, params![tasks, None::<String>]),
        Call::new(sql::OPS, params![ops]),
        Call::new(sql::GONE, params![plans]),
        Call::new(sql::NOW, params![ahead_ms]),
    ];
    let answers = tx.open(sql::BEGIN, calls).await?;
    let [plans, tenants, tasks, leases, ops, gone, now] = &answers[..] else {
        return Err(PortError::Corrupt("seven answers were expected".to_owned()).into());
    };
    let mut world = World { now: super::one(now)?.at()?, leases: leases_in(leases)?, ..World::default() };
    for plan in plans {
        let plan = row::plan(plan)?;
        world.plans.insert(plan.plan.id.clone(), PlanEntry::stored(plan));
    }
    for tenant in tenants {
        let cells = &mut Cells::of(tenant);
        let id: TenantId = cells.parse()?;
        world.tenants.insert(id, TenantEntry { row: row::tenant(cells)?, changed: false });
    }
    for task in tasks {
        let task = row::task(&mut Cells::of(task))?;
        world.tasks.insert(task.task.id.clone(), TaskEntry::stored(task));
    }
    for op in ops {
        let cells = &mut Cells::of(op);
        let id: OpId = cells.parse()?;
        world.ops.insert(id, OpEntry { row: row::op(cells)?, is_new: false });
    }
    for plan in gone {
        world.gone.insert(Cells::of(plan).parse::<PlanId>()?);
    }
    Ok(world)
}

pub(super) fn leases_in(rows: &[Row]) -> Result<HashMap<InstanceId, windlass_core::time::Ms>, PortError> {
    rows.iter().map(Cells::of).map(|mut cells| Ok((cells.parse()?, cells.at()?))).collect()
}
