//! Commits: what concurrent callers want is locked and read in one trip, judged here by the core's rules, and written with its
//! COMMIT in a second one. What goes on from where this process left it is not read first (`onward`), and so has a line of its own.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mysql_async::Row;
use windlass_core::id::{InstanceId, OpId, PlanId, TenantId};
use windlass_core::port::state::{Step, Stepped};
use windlass_core::port::{PortError, Refusal};
use windlass_core::step::{Needs, OpEntry, PlanEntry, TaskEntry, TenantEntry, World};
use windlass_core::task::Task;
use windlass_core::time::Ms;

use super::known::{self, Left, Rows};
use super::onward::Expected;
use super::write::Stand;
use super::{onward, row, write};
use crate::Inner;
use crate::cell::{Answers, Cells};
use crate::error::Failure;
use crate::line::{self, Line, Work};
use crate::pool::Lent;
use crate::text::{Script, list};

/// Steps in one transaction, at most. More are no faster, and everybody who shares it waits longer.
const STEPS_MAX: usize = 128;
/// Transactions under way at a time: one is judged while another is being made durable.
const UNDER_WAY_MAX: usize = 2;

/// Steps under way at a time.
pub(super) const STEPS_AT_ONCE: usize = STEPS_MAX * UNDER_WAY_MAX;

type Answer = Result<Stepped, Refusal>;

/// The steps of one caller, in order.
pub(crate) struct Steps(Vec<Step>);

/// The step of a caller whose attempt goes on.
pub(crate) struct Onward(Step);

/// Takes the steps of one caller, together with those of others.
pub(super) async fn commit(inner: &Arc<Inner>, steps: &[Step]) -> Result<Vec<Answer>, PortError> {
    match steps {
        [one] if onward::goes_on(one) => Ok(vec![line::carry(inner, Onward(one.clone())).await?]),
        steps => line::carry(inner, Steps(steps.to_vec())).await,
    }
}

impl Work for Steps {
    type Answer = Vec<Answer>;
    type Batch = usize;
    const UNDER_WAY_MAX: usize = UNDER_WAY_MAX;
    // Of several instances on one server many small ones are slower than few that are full.
    const BESIDE_MIN: usize = STEPS_MAX;

    fn line(inner: &Inner) -> &Line<Steps> {
        &inner.steps
    }

    fn is_urgent(&self) -> bool {
        matches!(&self.0[..], [one] if gives_up(one))
    }

    fn join(&self, batch: &mut usize) -> bool {
        *batch += self.0.len();
        *batch <= STEPS_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &[Steps]) -> Result<Vec<Self::Answer>, PortError> {
        let steps: Vec<&Step> = batch.iter().flat_map(|steps| &steps.0).collect();
        let mut answers = run(inner, &steps, false).await?.into_iter();
        Ok(batch.iter().map(|steps| answers.by_ref().take(steps.0.len()).collect()).collect())
    }
}

impl Work for Onward {
    type Answer = Answer;
    type Batch = usize;
    const UNDER_WAY_MAX: usize = UNDER_WAY_MAX;
    const BESIDE_MIN: usize = STEPS_MAX;

    fn line(inner: &Inner) -> &Line<Onward> {
        &inner.onward
    }

    fn is_urgent(&self) -> bool {
        gives_up(&self.0)
    }

    fn join(&self, batch: &mut usize) -> bool {
        *batch += 1;
        *batch <= STEPS_MAX
    }

    async fn run(inner: &Arc<Inner>, batch: &[Onward]) -> Result<Vec<Answer>, PortError> {
        run(inner, &batch.iter().map(|step| &step.0).collect::<Vec<_>>(), true).await
    }
}

/// Whoever gives its task up has waited before, when it learned that it is to; and others wait for its slot.
fn gives_up(step: &Step) -> bool {
    step.tasks.iter().any(|put| put.task.owner.is_none())
}

async fn run(inner: &Arc<Inner>, steps: &[&Step], go_on: bool) -> Result<Vec<Answer>, PortError> {
    let (mut needs, mut races) = (None, 0);
    loop {
        let mut tx = inner.pool.lend().await?;
        // Whoever met somebody looks what has become of it.
        let expected = if go_on && races == 0 { Expected::of(&inner.known, steps) } else { None };
        let done = match expected {
            Some(expected) => expected.write(&mut tx, inner).await,
            None => attempt(&mut tx, inner, steps, needs.get_or_insert_with(|| needs_of(steps))).await,
        };
        if let Some(done) = tx.settle(done, &mut races).await {
            return done;
        }
    }
}

fn needs_of(steps: &[&Step]) -> Needs {
    let mut needs = Needs::of(steps.iter().copied());
    needs.guess(steps);
    needs
}

async fn attempt(tx: &mut Lent<'_>, inner: &Inner, steps: &[&Step], needs: &mut Needs) -> Result<Vec<Answer>, Failure> {
    let mut known = inner.known.of(needs.tasks.iter().map(String::as_str));
    let mut world = read(tx, inner, needs, &mut known).await?;
    if needs.widen(&world) {
        return Err(Failure::Again("a task is of another plan or tenant than was said".to_owned()));
    }
    let answers: Vec<_> = steps.iter().map(|step| world.commit(step)).collect();
    if !needs.leases && answers.iter().any(|answer| matches!(answer, Err(Refusal::Owned { .. }))) {
        needs.leases = true;
        return Err(Failure::Again("until when an owner lives was not asked for".to_owned()));
    }
    world.wakes |= inner.roomy.lacks_one_of(&world.freed);
    let mut script = Script::default();
    write::script(&mut script, &world, &known, Stand::Locked)?;
    tx.commit(script).await?;
    note(inner, world);
    Ok(answers)
}

/// What was written is known from here on.
pub(super) fn note(inner: &Inner, world: World) {
    let World { tasks, tenants, wakes, .. } = world;
    if wakes {
        inner.wake.tell();
    }
    let leads = |task: &Task| {
        let tenant = tenants.get(&task.tenant).map(|tenant| &tenant.row);
        tenant.is_some_and(|tenant| tenant.fence == task.fence && tenant.started.as_ref() == Some(&task.id))
    };
    let written = tasks.into_values().filter(|entry| entry.changed).map(|entry| entry.row);
    inner.known.note(written.map(|row| Left { leads: leads(&row.task), row }));
}

/// `IN (…)`, in the order in which everybody locks.
fn within(ids: &BTreeSet<String>) -> String {
    format!("IN ({})", list(ids))
}

/// Locks and reads what the steps are about: plans, tenants, tasks, each by its id. What is known of tasks is what still holds then.
async fn read(tx: &mut Lent<'_>, inner: &Inner, needs: &Needs, known: &mut Rows) -> Result<World, Failure> {
    let Needs { plans, tasks, tenants, ops, writes_plans, leases, .. } = needs;
    let mut script = Script::begin();
    if !plans.is_empty() {
        let how = if *writes_plans { "FOR UPDATE" } else { "LOCK IN SHARE MODE" };
        let (columns, ids) = (row::PLAN, within(plans));
        script.ask(&format!(
            "SELECT {columns} FROM plan_state_projection p FORCE INDEX (PRIMARY) WHERE p.plan_id {ids} ORDER BY p.plan_id {how}"
        ));
    }
    if !tenants.is_empty() {
        let ids = within(tenants);
        script.ask(&format!(
            "SELECT tenant_id, fence, latest_task_id, started_task_id FROM tenant_state FORCE INDEX (PRIMARY) \
             WHERE tenant_id {ids} ORDER BY tenant_id FOR UPDATE"
        ));
    }
    let unknown: BTreeSet<_> = tasks.iter().filter(|task| !known.contains_key(task.as_str())).cloned().collect();
    if !known.is_empty() {
        lock_tasks(&mut script, row::TASK_MARK, &within(tasks));
    }
    if !unknown.is_empty() {
        lock_tasks(&mut script, row::TASK, &within(&unknown));
    }
    if *leases {
        ask_leases(&mut script, &within(tasks));
    }
    if !ops.is_empty() {
        script.ask(&format!("SELECT {} FROM operation WHERE op_id {}", row::OP, within(ops)));
    }
    if *writes_plans {
        script.ask(&format!("SELECT plan_id FROM plan_gone WHERE plan_id {}", within(plans)));
    }
    inner.clock.ask(&mut script);
    let mut answers = tx.run(&script).await?;
    let mut world = World::default();
    let others = fill(&mut world, needs, (known, !unknown.is_empty()), &mut answers)?;
    if !others.is_empty() {
        let mut script = Script::default();
        lock_tasks(&mut script, row::TASK, &within(&others));
        add_tasks(&mut world, &tx.run(&script).await?.next()?)?;
    }
    Ok(world)
}

/// Locks tasks and asks for these columns of them.
pub(super) fn lock_tasks(script: &mut Script, columns: &str, ids: &str) {
    script.ask(&format!(
        "SELECT {columns} FROM task_state_projection t FORCE INDEX (PRIMARY) WHERE t.task_id {ids} ORDER BY t.task_id FOR UPDATE"
    ));
}

/// Asks for the leases of these tasks' owners.
pub(super) fn ask_leases(script: &mut Script, ids: &str) {
    script.ask(&format!(
        "SELECT DISTINCT i.instance_id, i.lease_until FROM task_state_projection t FORCE INDEX (PRIMARY) \
         STRAIGHT_JOIN instance i ON i.instance_id = t.owner WHERE t.task_id {ids}"
    ));
}

/// Answers which tasks are not as they are known.
fn fill(
    world: &mut World,
    needs: &Needs,
    (known, has_unknown): (&mut Rows, bool),
    answers: &mut Answers,
) -> Result<BTreeSet<String>, PortError> {
    if !needs.plans.is_empty() {
        for plan in &answers.next()? {
            let plan = row::plan(&mut Cells::of(plan))?;
            world.plans.insert(plan.plan.id.clone(), PlanEntry::stored(plan));
        }
    }
    if !needs.tenants.is_empty() {
        for tenant in &answers.next()? {
            let cells = &mut Cells::of(tenant);
            let id: TenantId = cells.parse()?;
            world.tenants.insert(id, TenantEntry { row: row::tenant(cells)?, changed: false });
        }
    }
    let mut others = BTreeSet::new();
    if !known.is_empty() {
        for task in &answers.next()? {
            let cells = &mut Cells::of(task);
            let (id, mark) = (cells.text()?, (cells.parse()?, cells.at()?));
            match known.get_key_value(id) {
                Some((id, left)) if known::mark(&left.row) == mark => {
                    world.tasks.insert(id.clone(), TaskEntry::stored(left.row.clone()));
                }
                Some(_) => drop(others.insert(id.to_owned())),
                None => {}
            }
        }
        known.retain(|task, _| world.tasks.contains_key(task));
    }
    if has_unknown {
        add_tasks(world, &answers.next()?)?;
    }
    if needs.leases {
        world.leases = leases_in(&answers.next()?)?;
    }
    if !needs.ops.is_empty() {
        for op in &answers.next()? {
            let cells = &mut Cells::of(op);
            let id: OpId = cells.parse()?;
            world.ops.insert(id, OpEntry { row: row::op(cells)?, is_new: false });
        }
    }
    if needs.writes_plans {
        for plan in &answers.next()? {
            world.gone.insert(Cells::of(plan).parse::<PlanId>()?);
        }
    }
    world.now = answers.now()?;
    Ok(others)
}

fn add_tasks(world: &mut World, rows: &[Row]) -> Result<(), PortError> {
    for task in rows {
        let task = row::task(&mut Cells::of(task))?;
        world.tasks.insert(task.task.id.clone(), TaskEntry::stored(task));
    }
    Ok(())
}

pub(super) fn leases_in(rows: &[Row]) -> Result<HashMap<InstanceId, Ms>, PortError> {
    rows.iter().map(Cells::of).map(|mut cells| Ok((cells.parse()?, cells.at()?))).collect()
}
