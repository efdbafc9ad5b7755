//! Plans, tasks and steps like those of real work, for benches.

use anyhow::Context as _;
use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::{At, Event, Fact};
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, PlanId, StageName, TaskId, TenantId};
use windlass_core::json::Json;
use windlass_core::lock::{Acquire, LOCK_MS};
use windlass_core::plan::spec::{OnConflict, OnFailure, PlanSpec, Recovery, TaskSpec};
use windlass_core::port::state::{CheckpointPut, Op, PlanPut, Step, Take, TaskPut, TaskRow, Which, Writer};
use windlass_core::projection;
use windlass_core::retry::Retry;
use windlass_core::stage::{Action, Sleep, Stage, TIMEOUT_MS};
use windlass_core::task::advance;
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

use crate::open::Stores;

/// Stages of every task.
pub(crate) const STAGES: u32 = 10;

fn id<T: std::str::FromStr>(text: String) -> anyhow::Result<T>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse().with_context(|| format!("{text:?} is not an id"))
}

pub(crate) fn stage_names() -> anyhow::Result<Vec<StageName>> {
    (0..STAGES).map(|n| id(format!("stage-{n}"))).collect()
}

pub(crate) fn plan_id(n: u32) -> anyhow::Result<PlanId> {
    id(format!("plan-{n}"))
}

pub(crate) fn tenant_id(plan: u32, n: u32) -> anyhow::Result<TenantId> {
    id(format!("tenant-{plan}-{n}"))
}

pub(crate) fn task_id(plan: u32, n: u32) -> anyhow::Result<TaskId> {
    id(format!("task-{plan}-{n}"))
}

fn spec(max_concurrency: u32) -> anyhow::Result<PlanSpec> {
    let stages = stage_names()?.into_iter().map(|name| Stage {
        name,
        action: Action::Sleep(Sleep { for_ms: 1 }),
        when: None,
        timeout_ms: TIMEOUT_MS,
        retry: Retry::NONE,
        undo: None,
    });
    Ok(PlanSpec {
        max_concurrency,
        on_conflict: OnConflict::Skip,
        on_failure: OnFailure::Continue,
        recovery: Recovery::Manual,
        retry_limit: None,
        stages: stages.collect(),
    })
}

fn event(plan: &PlanId, task: Option<(&TaskId, &TenantId)>, fact: Fact) -> Event {
    let (task, tenant) = task.map(|(task, tenant)| (task.clone(), tenant.clone())).unzip();
    Event { seq: 0, at: Ms::new(1_800_000_000_000), plan: plan.clone(), task, tenant, by: None, reason: None, fact }
}

fn step(op: String, by: Writer) -> anyhow::Result<Step> {
    Ok(Step {
        op: Op { id: id(op)?, digest: 0 },
        by,
        plan: None,
        tasks: Vec::new(),
        checkpoint: CheckpointPut::Keep,
        ask: None,
        events: Vec::new(),
        answer: None,
    })
}

/// A plan of `tasks` tasks, created and started under `conductor`.
pub(crate) fn plan(n: u32, tasks: u32, conductor: &InstanceId) -> anyhow::Result<Step> {
    let (plan, spec) = (plan_id(n)?, spec(tasks)?);
    let mut step = step(format!("create-{n}"), Writer::Person("bench".parse()?))?;
    let created = event(&plan, None, Fact::PlanCreated { name: id(format!("bench-{n}"))?, tasks });
    let started = event(&plan, None, Fact::PlanStarted { conductor: conductor.clone() });
    let mut value = projection::apply_plan(None, &spec, &created)?;
    value = projection::apply_plan(Some(value), &spec, &started)?;
    step.plan = Some(PlanPut { plan: value, version: 0, spec: Some(spec) });
    step.events.extend([created, started]);
    let config = Json::parse(&format!(r#"{{"endpoint":"http://127.0.0.1:9001/{n}","version":42}}"#))?;
    let previous = Json::parse(&format!(r#"{{"endpoint":"http://127.0.0.1:9001/{n}","version":41}}"#))?;
    for position in 0..tasks {
        let (task, tenant) = (task_id(n, position)?, tenant_id(n, position)?);
        let created = event(&plan, Some((&task, &tenant)), Fact::TaskCreated { position, stages: stage_names()? });
        let value = projection::apply(None, &created)?;
        let spec = TaskSpec { config: Some(config.clone()), previous: Some(previous.clone()), ..TaskSpec::default() };
        step.tasks.push(TaskPut { task: value, from: Statuses::NONE, version: 0, spec: Some(spec) });
        step.events.push(created);
    }
    Ok(step)
}

/// A task that runs: claimed, locked, begun.
pub(crate) struct Running {
    pub(crate) row: TaskRow,
    fence: Fence,
    instance: InstanceId,
    stages: Vec<StageName>,
    checkpoint: Checkpoint,
    op: u64,
}

impl Running {
    pub(crate) async fn begin(stores: &Stores, instance: &InstanceId, task: TaskId) -> anyhow::Result<Running> {
        let take = Take { instance: instance.clone(), which: Which::Named(vec![task]) };
        let row = stores.state.take(&take).await?.into_iter().next().context("nothing was taken")??;
        let want = Acquire {
            tenant: row.task.tenant.clone(),
            plan: row.task.plan.clone(),
            task: row.task.id.clone(),
            ttl_ms: LOCK_MS,
        };
        let holder = stores.locks.acquire(&[want]).await?.into_iter().next().context("no lock")??;
        let checkpoint = Checkpoint::new(1, Ms::ZERO);
        let (fence, instance) = (holder.fence, instance.clone());
        let mut running = Running { row, fence, instance, stages: stage_names()?, checkpoint, op: 0 };
        let fact = advance::begin(&running.row.task, None, running.instance.clone(), fence).context("not pending")?;
        let first = running.step(vec![fact], false)?;
        stores.state.commit(&[first]).await?.into_iter().next().context("no answer")??;
        Ok(running)
    }

    /// The commit of the next boundary: one stage is done, the next has started. After the last
    /// stage but one the task begins again in a new pass, so that it never ends.
    pub(crate) fn boundary(&mut self) -> anyhow::Result<Step> {
        let index = self.row.task.completed;
        let at = |index: u32| At { index, stage: self.stages[index as usize].clone() };
        let facts = vec![Fact::StageCompleted { at: at(index), took_ms: 12 }, Fact::StageStarted(at(index + 1))];
        let stage = self.stages[index as usize].clone();
        let output = Json::parse(r#"{"status":200}"#)?;
        self.checkpoint.complete(&stage, Some(&output), 12)?;
        let step = self.step(facts, true)?;
        if self.row.task.completed + 1 == STAGES {
            self.row.task.completed = 0;
            self.row.task.pass += 1;
            self.checkpoint.truncate(0);
        }
        Ok(step)
    }

    fn step(&mut self, facts: Vec<Fact>, with_checkpoint: bool) -> anyhow::Result<Step> {
        self.op += 1;
        let writer = Writer::Owner { instance: self.instance.clone(), fence: self.fence };
        let mut step = step(format!("{}-{}", self.row.task.id, self.op), writer)?;
        let task = &self.row.task;
        step.events = facts.into_iter().map(|fact| event(&task.plan, Some((&task.id, &task.tenant)), fact)).collect();
        let mut value = task.clone();
        for event in &step.events {
            value = projection::apply(Some(value), event)?;
        }
        if with_checkpoint {
            self.checkpoint.version += 1;
            self.checkpoint.fence = self.fence;
            self.checkpoint.executor_instance = Some(self.instance.clone());
            step.checkpoint = CheckpointPut::Put(self.checkpoint.clone());
        }
        self.row.task = value.clone();
        let from = Statuses::of(&[TaskStatus::Pending, TaskStatus::Running]);
        step.tasks.push(TaskPut { task: value, from, version: 0, spec: None });
        Ok(step)
    }
}
