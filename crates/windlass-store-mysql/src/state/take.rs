//! Taking tasks, and the lease that goes with it.

use std::collections::{BTreeSet, HashMap};

use mysql_async::Row;
use windlass_core::id::{InstanceId, PlanId, TaskId};
use windlass_core::plan::{Plan, PlanStatus};
use windlass_core::port::state::{Beat, TaskRow};
use windlass_core::port::{Each, PortError, Refusal};
use windlass_core::step::may_take;
use windlass_core::time::Ms;

use super::commit::{ask_leases, leases_in, lock_tasks};
use super::known::Left;
use super::row;
use crate::Inner;
use crate::cell::{Cells, one};
use crate::clock::lease;
use crate::error::Failure;
use crate::pool::Lent;
use crate::text::{Script, keys, list, literal, row as values};
use crate::wake::{self, Port};

/// Plans that are handed out from in one transaction, at most.
const PLANS_MAX: usize = 16;
/// Plans that are looked at in one call, at most: whoever is given something asks again.
const LOOKED_AT_MAX: usize = 8 * PLANS_MAX;

type Taken = Vec<Result<TaskRow, Refusal>>;

/// What is ready: in the plan that is named, or in those that have something, the oldest first.
pub(super) async fn ready(inner: &Inner, instance: &InstanceId, plan: Option<&PlanId>, limit: u32) -> Each<TaskRow> {
    let limit = u64::from(limit);
    if let Some(plan) = plan {
        let plan = [Waiting { plan: plan.to_string(), asked: true, rest: true }];
        let taken = hand_out(inner, instance, &plan, limit, Locked::WaitedFor).await?;
        return Ok(or_no_lease(instance, taken.map(|taken| taken.tasks)));
    }
    let Some(mut plans) = waiting(inner, instance).await? else { return Ok(or_no_lease(instance, None)) };
    // Where somebody else hands out there is little left. What is passed over is waited for only if there is nothing else.
    for locked in [Locked::PassedOver, Locked::WaitedFor] {
        let (mut tasks, mut passed, mut some) = (Vec::new(), Vec::new(), &plans[..]);
        while !some.is_empty() && (tasks.len() as u64) < limit {
            let Some(taken) = hand_out(inner, instance, some, limit - tasks.len() as u64, locked).await? else {
                return Ok(or_no_lease(instance, None));
            };
            tasks.extend(taken.tasks);
            passed.extend(taken.passed);
            some = &some[taken.seen..];
        }
        if !tasks.is_empty() || passed.is_empty() {
            return Ok(or_no_lease(instance, Some(tasks)));
        }
        // Whoever had them locked may have left nothing.
        let Some(left) = waiting(inner, instance).await? else { return Ok(or_no_lease(instance, None)) };
        plans = left.into_iter().filter(|left| passed.contains(&left.plan)).collect();
    }
    Ok(Vec::new())
}

fn or_no_lease(instance: &InstanceId, tasks: Option<Vec<TaskRow>>) -> Taken {
    match tasks {
        Some(tasks) => tasks.into_iter().map(Ok).collect(),
        None => vec![Err(Refusal::NoLease(instance.clone()))],
    }
}

/// A plan that may have something for somebody.
struct Waiting {
    plan: String,
    /// Something was asked for.
    asked: bool,
    /// Something else is ready.
    rest: bool,
}

impl Waiting {
    fn of(row: &Row) -> Result<Waiting, PortError> {
        let cells = &mut Cells::of(row);
        Ok(Waiting { plan: cells.text()?.to_owned(), asked: cells.flag()?, rest: cells.flag()? })
    }

    /// What there is, in the order in which it is handed out. What was asked for may or may not have a slot already; what was claimed has one,
    /// and the rest has none.
    fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.asked.then_some("= 1").into_iter().chain(self.rest.then_some("IN (2, 3)"))
    }

    fn ask_ready(&self, script: &mut Script, limit: u64, now: Ms) {
        let (plan, now) = (literal(&self.plan), literal(now));
        for kind in self.kinds() {
            script.ask(&format!(
                "SELECT {} FROM task_state_projection t FORCE INDEX (task_ready) WHERE t.plan_id = {plan} \
                 AND t.readiness {kind} AND t.ready_at <= {now} AND (t.owner IS NULL OR NOT EXISTS (SELECT 1 FROM instance i \
                   WHERE i.instance_id = t.owner AND i.lease_until > {now})) \
                 ORDER BY t.readiness, t.ready_at, t.position LIMIT {limit} FOR UPDATE SKIP LOCKED",
                row::TASK
            ));
        }
    }
}

/// The oldest plans that have a ready task and a slot for it, or one whose owner is gone: they have waited longest. `None` without
/// a lease.
async fn waiting(inner: &Inner, instance: &InstanceId) -> Result<Option<Vec<Waiting>>, PortError> {
    let now = inner.clock.now();
    let mut script = Script::default();
    script.ask(&format!(
        "SELECT EXISTS (SELECT 1 FROM instance WHERE instance_id = {} AND lease_until > {now})",
        literal(instance.as_str())
    ));
    let (asked, rest, gone) = (is_free(1, now), is_free(3, now), some_are_gone(now));
    let (asked_left, rest_left) = (is_left(1, now), is_left(2, now));
    script.ask(&format!(
        "SELECT p.plan_id, {asked} OR ({gone} AND {asked_left}), {rest} OR ({gone} AND {rest_left}) \
         FROM plan_state_projection p FORCE INDEX (plan_by_status) \
         STRAIGHT_JOIN instance i ON i.instance_id = p.conductor AND i.lease_until > {now} \
         WHERE p.status = 'RUNNING' AND ((({rest} OR {asked}) AND {USED} < p.max_concurrency) OR ({gone} AND ({rest_left} OR {asked_left}))) \
         ORDER BY p.created_at, p.plan_id DESC LIMIT {LOOKED_AT_MAX}",
    ));
    let mut answers = inner.pool.run(&script).await?;
    if !one(&answers.next()?)?.flag()? {
        return Ok(None);
    }
    Ok(Some(answers.next()?.iter().map(Waiting::of).collect::<Result<_, _>>()?))
}

/// The slots of plan `p` that are used.
const USED: &str = "(SELECT COUNT(*) FROM task_state_projection s FORCE INDEX (task_slot) \
     WHERE s.plan_id = p.plan_id AND s.owner IS NOT NULL)";

/// Whether something in plan `p` is ready and nobody's. Not EXISTS: the server would read all tasks that there are, once, instead of some
/// for each plan.
fn is_free(readiness: u8, now: &str) -> String {
    format!(
        "COALESCE((SELECT 1 FROM task_state_projection t FORCE INDEX (task_ready) WHERE t.plan_id = p.plan_id \
         AND t.readiness = {readiness} AND t.ready_at <= {now} AND t.owner IS NULL LIMIT 1), 0)"
    )
}

/// Whether anything has an owner that is gone: there are few owners, and seldom one of these.
fn some_are_gone(now: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM (SELECT DISTINCT owner FROM task_state_projection FORCE INDEX (task_asked) WHERE owner IS NOT NULL) o \
         LEFT JOIN instance l ON l.instance_id = o.owner AND l.lease_until > {now} WHERE l.instance_id IS NULL)"
    )
}

/// Whether something in plan `p` is ready whose owner is gone.
fn is_left(readiness: u8, now: &str) -> String {
    format!(
        "COALESCE((SELECT 1 FROM task_state_projection t FORCE INDEX (task_ready) \
         LEFT JOIN instance o ON o.instance_id = t.owner AND o.lease_until > {now} WHERE t.plan_id = p.plan_id \
         AND t.readiness = {readiness} AND t.ready_at <= {now} AND t.owner IS NOT NULL AND o.instance_id IS NULL LIMIT 1), 0)"
    )
}

/// What becomes of plans that somebody else has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Locked {
    WaitedFor,
    PassedOver,
}

/// What was handed out.
struct HandedOut {
    tasks: Vec<TaskRow>,
    /// How many of the plans were come to.
    seen: usize,
    /// Of those, the ones that somebody else has locked.
    passed: Vec<String>,
}

/// `None` without a lease.
async fn hand_out(
    inner: &Inner,
    instance: &InstanceId,
    plans: &[Waiting],
    limit: u64,
    locked: Locked,
) -> Result<Option<HandedOut>, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_ready(&mut tx, inner, instance, plans, limit, locked).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

/// Locks plans, so that their slots are counted by one at a time, and hands out in their order. `None` without a lease.
async fn attempt_ready(
    tx: &mut Lent<'_>,
    inner: &Inner,
    instance: &InstanceId,
    plans: &[Waiting],
    limit: u64,
    locked: Locked,
) -> Result<Option<HandedOut>, Failure> {
    let mut script = Script::begin();
    let waited_for = &plans[..plans.len().min(PLANS_MAX)];
    script.ask(&match locked {
        // Who does not wait may lock in any order.
        Locked::PassedOver => format!(
            "SELECT {} FROM {} STRAIGHT_JOIN plan_state_projection p FORCE INDEX (PRIMARY) ON p.plan_id = k.id \
             LIMIT {PLANS_MAX} FOR UPDATE SKIP LOCKED",
            row::PLAN,
            keys(plans.iter().map(|waiting| waiting.plan.as_str()))
        ),
        Locked::WaitedFor => format!(
            "SELECT {} FROM plan_state_projection p FORCE INDEX (PRIMARY) WHERE p.plan_id IN ({}) ORDER BY p.plan_id FOR UPDATE",
            row::PLAN,
            list(waited_for.iter().map(|waiting| &waiting.plan).collect::<BTreeSet<_>>())
        ),
    });
    inner.clock.ask(&mut script);
    script.ask(&format!("SELECT instance_id, lease_until FROM instance WHERE lease_until > {}", inner.clock.now()));
    let mut answers = tx.run(&script).await?;
    let known = answers.next()?.iter().map(|plan| row::plan(&mut Cells::of(plan))).collect::<Result<Vec<_>, _>>()?;
    let now = answers.now()?;
    let leases = leases_in(&answers.next()?)?;
    let live = |instance: &InstanceId| leases.get(instance).is_some_and(|until| *until > now);
    if !live(instance) {
        tx.commit(Script::default()).await?;
        return Ok(None);
    }
    known.iter().for_each(|row| inner.roomy.note(&row.plan));
    let known: HashMap<String, _> = known.into_iter().map(|row| (row.plan.id.to_string(), row.plan)).collect();
    let is_known = |waiting: &Waiting| known.contains_key(&waiting.plan);
    let seen = match locked {
        // Beyond the last there may be more.
        Locked::PassedOver if known.len() == PLANS_MAX => plans.iter().rposition(is_known).map_or(0, |last| last + 1),
        Locked::PassedOver => plans.len(),
        Locked::WaitedFor => waited_for.len(),
    };
    let seen = &plans[..seen];
    let passed = match locked {
        Locked::PassedOver => seen.iter().filter(|plan| !is_known(plan)).map(|waiting| waiting.plan.clone()).collect(),
        Locked::WaitedFor => Vec::new(),
    };
    let conducted = |plan: &&Plan| plan.status == PlanStatus::Running && plan.conductor.as_ref().is_some_and(live);
    let plans = seen.iter().filter_map(|waiting| Some((waiting, known.get(&waiting.plan).filter(conducted)?)));
    let plans: Vec<_> = plans.collect();
    // Only of plans that are locked by now: whoever hands out counts what others have handed out, and whoever locks tasks hides
    // them from whoever hands out.
    let mut script = Script::default();
    script.ask(&format!(
        "SELECT s.plan_id, COUNT(*) FROM task_state_projection s FORCE INDEX (task_slot) \
         WHERE s.plan_id IN ({}) AND s.owner IS NOT NULL GROUP BY s.plan_id",
        list(plans.iter().map(|(waiting, _)| &waiting.plan))
    ));
    plans.iter().for_each(|(waiting, _)| waiting.ask_ready(&mut script, limit, now));
    let mut answers = tx.run(&script).await?;
    let mut used: HashMap<String, u64> = HashMap::new();
    for row in &answers.next()? {
        let cells = &mut Cells::of(row);
        used.insert(cells.text()?.to_owned(), cells.parse()?);
    }
    let mut taken: Vec<TaskRow> = Vec::new();
    for (waiting, plan) in plans {
        let used = used.entry(waiting.plan.clone()).or_default();
        let ready = waiting.kinds().map(|_| answers.next()).collect::<Result<Vec<_>, _>>()?;
        for task in ready.iter().flatten() {
            let task = row::task(&mut Cells::of(task))?;
            if taken.len() as u64 >= limit {
                break;
            }
            // One whose owner is gone has its slot already.
            let has_slot = task.task.owner.is_some();
            if used.saturating_sub(u64::from(has_slot)) >= u64::from(plan.max_concurrency) {
                continue;
            }
            *used += u64::from(!has_slot);
            taken.push(task);
        }
    }
    tx.commit(own(instance, &mut taken)).await?;
    inner.known.note(taken.iter().map(|row| Left { row: row.clone(), leads: false }));
    Ok(Some(HandedOut { tasks: taken, seen: seen.len(), passed }))
}

/// Makes them this instance's.
fn own(instance: &InstanceId, taken: &mut [TaskRow]) -> Script {
    let mut script = Script::default();
    for row in taken.iter_mut() {
        row.task.owner = Some(instance.clone());
        row.version += 1;
    }
    if !taken.is_empty() {
        script.say(&format!(
            "UPDATE task_state_projection FORCE INDEX (PRIMARY) SET owner = {}, version = version + 1, \
             readiness = IF(readiness = 3, 2, readiness) WHERE task_id IN ({})",
            literal(instance.as_str()),
            list(taken.iter().map(|row| row.task.id.as_str()).collect::<BTreeSet<_>>())
        ));
    }
    script
}

/// Exactly these: locked and read, judged, then owned.
pub(super) async fn named(inner: &Inner, instance: &InstanceId, ids: &[TaskId]) -> Each<TaskRow> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_named(&mut tx, inner, instance, ids).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_named(
    tx: &mut Lent<'_>,
    inner: &Inner,
    instance: &InstanceId,
    ids: &[TaskId],
) -> Result<Taken, Failure> {
    let mut script = Script::begin();
    let sorted: BTreeSet<&str> = ids.iter().map(TaskId::as_str).collect();
    let sorted = format!("IN ({})", list(sorted));
    lock_tasks(&mut script, row::TASK, &sorted);
    ask_leases(&mut script, &sorted);
    script.ask(&format!(
        "SELECT instance_id, lease_until FROM instance WHERE instance_id = {}",
        literal(instance.as_str())
    ));
    inner.clock.ask(&mut script);
    let mut answers = tx.run(&script).await?;
    let mut rows = HashMap::with_capacity(ids.len());
    for task in &answers.next()? {
        let task = row::task(&mut Cells::of(task))?;
        rows.insert(task.task.id.clone(), task);
    }
    let mut leases = leases_in(&answers.next()?)?;
    leases.extend(leases_in(&answers.next()?)?);
    let now = answers.now()?;
    if leases.get(instance).is_none_or(|until| *until <= now) {
        tx.commit(Script::default()).await?;
        return Ok(ids.iter().map(|_| Err(Refusal::NoLease(instance.clone()))).collect());
    }
    let mut taken = Vec::new();
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let answer = match rows.get_mut(id) {
            None => Err(Refusal::NotFound(format!("task {id}"))),
            Some(row) => may_take(row, instance, &leases, now).map(|is_new| {
                if is_new {
                    taken.push(row.clone());
                    row.task.owner = Some(instance.clone());
                    row.version += 1;
                }
                row.clone()
            }),
        };
        answers.push(answer);
    }
    tx.commit(own(instance, &mut taken)).await?;
    Ok(answers)
}

/// The end of a lease is something that others may be waiting for.
pub(super) async fn beat(inner: &Inner, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
    let mut races = 0;
    loop {
        let mut tx = inner.pool.lend().await?;
        let done = attempt_beat(&mut tx, inner, instance, lease(lease_ms)).await;
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

async fn attempt_beat(tx: &mut Lent<'_>, inner: &Inner, instance: &InstanceId, ms: u64) -> Result<Beat, Failure> {
    let id = literal(instance.as_str());
    let mut script = Script::begin();
    inner.clock.ask(&mut script);
    let now = tx.run(&script).await?.now()?;
    let until = now.plus(ms);
    let mut script = Script::default();
    script.rows(
        "INSERT INTO instance (instance_id, up_since, lease_until) VALUES ",
        [values![instance.as_str(), now, until]],
        "ON DUPLICATE KEY UPDATE lease_until = VALUES(lease_until)",
    );
    script.ask(&format!(
        "SELECT task_id, control FROM task_state_projection WHERE owner = {id} AND owner_asked = 1 ORDER BY task_id"
    ));
    if ms == 0 {
        wake::count(&mut script, Port::State);
    }
    let rows: Vec<Row> = tx.commit(script).await?.next()?;
    let asked = rows.iter().map(Cells::of).map(|mut cells| Ok((cells.parse()?, cells.json()?)));
    Ok(Beat { until, asked: asked.collect::<Result<_, PortError>>()? })
}
