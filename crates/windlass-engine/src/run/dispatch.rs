//! Hands tasks to attempts: what is ready is taken in batches, its tenants are locked in batches, and
//! whoever is not granted its tenant gives the task back. Woken by changes, never by a clock alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::event::Fact;
use windlass_core::fence::Fence;
use windlass_core::id::{TaskId, TenantId};
use windlass_core::lock::{Acquire, Held, Holder};
use windlass_core::plan::PlanStatus;
use windlass_core::plan::spec::OnConflict;
use windlass_core::port::state::{CheckpointPut, Filter, Key, Row, Step, Take, TaskPut, TaskRow, Which, Writer};
use windlass_core::port::{Mark, PAGE_MAX, PortError, Refusal};
use windlass_core::projection::apply;
use windlass_core::task::status::Statuses;
use windlass_core::task::{Cause, Task};
use windlass_core::time::Ms;

use super::attempt::Attempt;
use super::work::Job;
use crate::command::ROUNDS_MAX;
use crate::query::pulse::Part;
use crate::shared::{Counts, Shared, locked};

/// What the dispatcher is told.
#[derive(Default)]
pub(crate) struct Queue {
    /// Tasks that a person asked for in a plan that hands out nothing.
    named: Mutex<VecDeque<TaskId>>,
    /// Tasks that wait for their tenant, and whether they were named: when it is free they are ready
    /// again at once.
    waiting: Mutex<BTreeMap<(TenantId, TaskId), bool>>,
    /// One more waits: its tenant may have become free before it was known to wait.
    waits: Notify,
    /// A take had no answer: what it took is this instance's, and nobody knows.
    unheard: AtomicBool,
    wake: Notify,
}

impl Queue {
    /// Room was made, or something is to be taken.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// This task is to be taken, whatever its plan's state.
    pub(crate) fn name(&self, task: TaskId) {
        locked(&self.named).push_back(task);
        self.wake();
    }
}

/// Tasks taken in one call.
const TAKE_MAX: usize = 500;
/// A look that took less needs no rest after it …
const REST_MIN: Duration = Duration::from_millis(1);
/// … and no rest is longer.
const REST_MAX: Duration = Duration::from_millis(20);
/// A task whose tenant is locked looks again after this long, should no wake-up reach it.
const LOCKED_MS: u64 = 15_000;

/// Takes and starts tasks until the engine stops.
pub(crate) async fn dispatch(engine: Arc<Shared>) {
    let mut mark = Mark::default();
    while !engine.is_stopping() {
        engine.rounds.came(Part::Dispatch);
        let room = (engine.options.tasks_max as usize).saturating_sub(locked(&engine.running).len());
        let room = room.min(engine.writing.room());
        if room == 0 {
            engine.queue.wake.notified().await;
            continue;
        }
        let asked = Instant::now();
        match take(&engine, room.min(TAKE_MAX), &mut mark).await {
            Ok(taken) if taken.rows.is_empty() => {
                let looked = asked.elapsed();
                wait(&engine, mark).await;
                rest(looked).await;
            }
            Ok(taken) => engine.begin(taken).await,
            Err(error @ PortError::Unavailable(_)) => {
                engine.queue.unheard.store(true, Ordering::Relaxed);
                engine.outlast(&error).await;
            }
            Err(error) => {
                tracing::error!(%error, "tasks cannot be taken");
                wait(&engine, mark).await;
            }
        }
    }
}

/// Tasks that are this instance's now.
struct Taken {
    rows: Vec<TaskRow>,
    /// A person named them: their plan need not hand out anything.
    named: bool,
}

/// What a person named first, then what is ready.
async fn take(engine: &Shared, room: usize, mark: &mut Mark) -> Result<Taken, PortError> {
    // Before looking: a change that comes while we look is not missed.
    *mark = engine.state.changed(*mark, 0).await?;
    if engine.queue.unheard.load(Ordering::Relaxed) {
        engine.find_unheard().await?;
        engine.queue.unheard.store(false, Ordering::Relaxed);
    }
    let named: Vec<_> = {
        let mut named = locked(&engine.queue.named);
        let n = named.len().min(room);
        named.drain(..n).collect()
    };
    if !named.is_empty() {
        let rows = take_named(engine, named).await?;
        return Ok(Taken { rows, named: true });
    }
    for which in engine.whose(u32::try_from(room).unwrap_or(u32::MAX)).await? {
        Counts::add(&engine.counts.calls);
        let rows = engine.state.take(&Take { instance: engine.instance.clone(), which }).await?;
        // Without a lease nothing is taken; the next beat begins one.
        let rows: Vec<_> = rows.into_iter().flatten().collect();
        if !rows.is_empty() {
            return Ok(Taken { rows, named: false });
        }
    }
    Ok(Taken { rows: Vec::new(), named: false })
}

async fn take_named(engine: &Shared, named: Vec<TaskId>) -> Result<Vec<TaskRow>, PortError> {
    Counts::add(&engine.counts.calls);
    let take = Take { instance: engine.instance.clone(), which: Which::Named(named.clone()) };
    let answers = match engine.state.take(&take).await {
        Ok(answers) => answers,
        Err(error) => {
            locked(&engine.queue.named).extend(named);
            return Err(error);
        }
    };
    let mut rows = Vec::new();
    for (id, answer) in named.into_iter().zip(answers) {
        match answer {
            // It was taken before, and runs or is about to.
            Ok(row) if locked(&engine.running).get(&id).is_some_and(|here| here.fence >= row.task.fence) => {}
            Ok(row) if row.task.readiness(&row.control).is_some() => rows.push(row),
            // What was asked for has begun elsewhere, and ended there: it is not ours to begin.
            Ok(row) => engine.let_go(&id, row.task.fence).await,
            // The next beat begins a lease.
            Err(Refusal::NoLease(_)) => locked(&engine.queue.named).push_back(id),
            Err(refusal) => tracing::info!(task = %id, %refusal, "it is not taken"),
        }
    }
    Ok(rows)
}

/// Under load every boundary of every instance wakes, and mostly for nothing: where looks are slow, what has woken
/// gathers before the next one.
async fn rest(looked: Duration) {
    if looked >= REST_MIN {
        tokio::time::sleep(looked.min(REST_MAX)).await;
    }
}

async fn wait(engine: &Shared, mark: Mark) {
    tokio::select! {
        biased;
        () = engine.stopped() => {}
        () = engine.queue.wake.notified() => {}
        changed = engine.state.changed(mark, engine.options.scan_ms) => {
            if let Err(error) = changed {
                engine.store_is_down(&error);
                engine.health.up().await;
            }
        }
    }
}

/// Whether a lock is of nobody who runs, given its task: a crash, or a moment, lies between the end of the task and that of the
/// lock. A lock younger than the task's last attempt belongs to one that is about to begin, as long as somebody has claimed the task;
/// if nobody has, it was granted too late, to an instance that had lost its claim.
pub(super) fn is_of_nobody(holder: &Holder, row: Option<&Row>) -> bool {
    let Some(Row::Task(row)) = row else { return true };
    !row.task.status.is_active() && (holder.fence <= row.task.fence || row.task.owner.is_none())
}

impl Shared {
    /// Names what this instance has taken and does not run. Looks at open plans only, and only after a take
    /// without an answer.
    async fn find_unheard(&self) -> Result<(), PortError> {
        for plan in self.open_plans(&[PlanStatus::Running, PlanStatus::Paused]).await? {
            let mut after = None;
            loop {
                let (plan, statuses) = (Some(plan.plan.id.clone()), Statuses::ALL);
                let filter = Filter::Tasks { plan, tenant: None, statuses, interrupted: false };
                Counts::add(&self.counts.calls);
                let page = self.state.list(&filter, after.as_ref(), PAGE_MAX).await?;
                let mine = page.items.into_iter().filter_map(|row| match row {
                    Row::Task(row) if row.task.owner.as_ref() == Some(&self.instance) => Some(row.task.id),
                    _ => None,
                });
                let mut named = locked(&self.queue.named);
                for id in mine.filter(|id| !locked(&self.running).contains_key(id)) {
                    if !named.contains(&id) {
                        named.push_back(id);
                    }
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Locks the tenants of claimed tasks and starts an attempt for each that is granted its own.
    async fn begin(self: &Arc<Self>, taken: Taken) {
        let Taken { rows, named } = taken;
        let tasks: Vec<_> = rows.iter().map(|row| (row.task.id.clone(), row.task.plan.clone())).collect();
        let asked = Instant::now();
        let granted = self.acquire(rows.iter().map(|row| &row.task)).await;
        let jobs = loop {
            Counts::add(&self.counts.calls);
            match self.jobs(&tasks).await {
                Ok(jobs) => break jobs,
                Err(error) => self.outlast(&error).await,
            }
        };
        for ((row, granted), job) in rows.into_iter().zip(granted).zip(jobs) {
            let Some(job) = job else {
                tracing::error!(task = %row.task.id, "the task's plan is gone");
                self.let_go(&row.task.id, row.task.fence).await;
                continue;
            };
            match granted {
                Ok(holder) => self.start(Attempt::new(self, row, job, &holder, asked, named)),
                Err(refusal) => self.not_granted(row, job, refusal, named).await,
            }
        }
    }

    fn start(&self, attempt: Box<Attempt>) {
        // The lease ends with the engine, and the claim with the lease.
        if !self.is_stopping() {
            attempt.enter();
            self.spawn(attempt.run());
        }
    }

    /// Asks for tenants until the store answers: locks never degrade, so nothing new starts before.
    async fn acquire<'a>(&self, tasks: impl Iterator<Item = &'a Task>) -> Vec<Result<Holder, Refusal>> {
        let want: Vec<_> = tasks
            .map(|task| Acquire {
                tenant: task.tenant.clone(),
                plan: task.plan.clone(),
                task: task.id.clone(),
                ttl_ms: self.options.lock_ms,
            })
            .collect();
        loop {
            Counts::add(&self.counts.calls);
            match self.locks.acquire(&want).await {
                Ok(granted) => return granted,
                Err(error) => self.outlast(&error).await,
            }
        }
    }

    /// The store did not answer: waits until it does.
    pub(crate) async fn outlast(&self, error: &PortError) {
        self.store_is_down(error);
        self.health.up().await;
    }

    /// The tenant is locked or frozen: what the plan says happens, or the task waits for it.
    async fn not_granted(self: &Arc<Self>, row: TaskRow, job: Job, refusal: Refusal, named: bool) {
        let skips = job.plan.spec.on_conflict != OnConflict::Wait && row.control.start.is_none();
        match refusal {
            Refusal::Held(holder) => {
                let left_behind = loop {
                    match self.is_left_behind(&holder).await {
                        Ok(left_behind) => break left_behind,
                        Err(error) => self.outlast(&error).await,
                    }
                };
                if left_behind {
                    let asked = Instant::now();
                    self.give_lock_back(&[held(&holder)]).await;
                    match self.acquire(std::iter::once(&row.task)).await.pop() {
                        Some(Ok(holder)) => {
                            return self.start(Attempt::new(self, row, job, &holder, asked, named));
                        }
                        _ => return self.wait_for_tenant(row, named).await,
                    }
                }
                match skips {
                    true => self.skip(row, &holder).await,
                    false => self.wait_for_tenant(row, named).await,
                }
            }
            _ => self.wait_for_tenant(row, named).await,
        }
    }

    /// Whether the lock belongs to a task that has ended.
    pub(crate) async fn is_left_behind(&self, holder: &Holder) -> Result<bool, PortError> {
        Counts::add(&self.counts.calls);
        let row = self.state.load(&[Key::Task(holder.task.clone())]).await?.pop().flatten();
        Ok(is_of_nobody(holder, row.as_ref()))
    }

    async fn skip(&self, row: TaskRow, holder: &Holder) {
        let fact = Fact::TaskCancelled { cause: Cause::Conflict };
        let mut event = self.about(&row.task, fact, self.clock.now());
        let why = format!("the tenant is locked by task {} of plan {}", holder.task, holder.plan);
        (event.by, event.reason) = (Some(self.me.clone()), why.parse().ok());
        let plan = row.task.plan.clone();
        match apply(Some(row.task.clone()), &event) {
            Ok(task) => self.put_claimed(&row, task, vec![event]).await,
            Err(misfit) => tracing::error!(task = %row.task.id, %misfit, "a conflict cannot be written down"),
        }
        self.touch(&plan);
    }

    /// The task waits for its tenant without a slot.
    async fn wait_for_tenant(&self, row: TaskRow, named: bool) {
        let mut task = row.task.clone();
        (task.owner, task.ready_at) = (None, self.clock.now().plus(LOCKED_MS));
        let (tenant, id) = (task.tenant.clone(), task.id.clone());
        self.put_claimed(&row, task, Vec::new()).await;
        locked(&self.queue.waiting).insert((tenant, id), named);
        self.queue.waits.notify_one();
    }

    /// What a claimer writes: the task given back, or ended.
    async fn put_claimed(&self, row: &TaskRow, task: Task, events: Vec<windlass_core::event::Event>) {
        let step = Step {
            op: self.op(),
            by: Writer::Claimer(self.instance.clone()),
            plan: None,
            tasks: vec![TaskPut { task, from: Statuses::of(&[row.task.status]), version: row.version, spec: None }],
            checkpoint: CheckpointPut::Keep,
            ask: None,
            events: events.clone(),
            answer: None,
        };
        loop {
            Counts::add(&self.counts.calls);
            match self.state.commit(std::slice::from_ref(&step)).await {
                Ok(answers) => {
                    match answers.into_iter().next() {
                        Some(Ok(stepped)) => self.tell(events, stepped.seq, true),
                        Some(Err(refusal)) => tracing::info!(task = %row.task.id, %refusal, "it is not ours any more"),
                        None => {}
                    }
                    return;
                }
                Err(error @ PortError::Unavailable(_)) => self.outlast(&error).await,
                Err(error) => return tracing::error!(task = %row.task.id, %error, "it cannot be given back"),
            }
        }
    }

    /// The attempt under this fence is over and its task is not: if it still is this instance's, it is
    /// nobody's now. This instance's lease goes on, so the claim would too: it is given back when the
    /// store answers, however long that takes.
    pub(crate) async fn let_go(&self, id: &TaskId, fence: Fence) {
        let row = loop {
            Counts::add(&self.counts.calls);
            match self.state.load(&[Key::Task(id.clone())]).await {
                Ok(mut rows) => break rows.pop().flatten(),
                Err(error @ PortError::Unavailable(_)) => self.outlast(&error).await,
                Err(error) => return tracing::error!(task = %id, %error, "it cannot be given back"),
            }
        };
        if let Some(Row::Task(row)) = row
            && row.task.owner.as_ref() == Some(&self.instance)
            && row.task.fence <= fence
        {
            let mut task = row.task.clone();
            task.owner = None;
            self.put_claimed(&row, task, Vec::new()).await;
        }
    }
}

fn held(holder: &Holder) -> Held {
    Held { tenant: holder.tenant.clone(), task: holder.task.clone(), fence: holder.fence }
}

/// Wakes tasks whose tenant has become free.
pub(crate) async fn watch_locks(engine: Arc<Shared>) {
    let mut mark = Mark::default();
    while !engine.is_stopping() {
        let changed = tokio::select! {
            biased;
            () = engine.queue.waits.notified() => Ok(mark),
            changed = engine.locks.changed(mark, engine.options.scan_ms) => changed,
        };
        let woken = match changed {
            Ok(now) => {
                mark = now;
                engine.wake_waiting().await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = woken {
            engine.outlast(&error).await;
        }
    }
}

impl Shared {
    async fn wake_waiting(&self) -> Result<(), PortError> {
        let waiting: Vec<_> = locked(&self.queue.waiting).clone().into_iter().collect();
        if waiting.is_empty() {
            return Ok(());
        }
        let tenants: Vec<_> = waiting.iter().map(|((tenant, _), _)| tenant.clone()).collect();
        Counts::add(&self.counts.calls);
        let tenants = self.locks.load(&tenants).await?;
        for ((place, named), lock) in waiting.into_iter().zip(tenants) {
            if lock.holder.is_none() && lock.freeze.is_none() {
                self.make_ready(&place.1, named).await?;
                locked(&self.queue.waiting).remove(&place);
            }
        }
        Ok(())
    }

    /// It waits no longer, unless somebody else has moved it on already.
    async fn make_ready(&self, id: &TaskId, named: bool) -> Result<(), PortError> {
        for _ in 0..ROUNDS_MAX {
            Counts::add(&self.counts.calls);
            let row = self.state.load(&[Key::Task(id.clone())]).await?.pop().flatten();
            let Some(Row::Task(row)) = row else { return Ok(()) };
            if row.task.readiness(&row.control).is_none() || row.task.owner.is_some() || row.task.ready_at == Ms::ZERO {
                return Ok(());
            }
            let mut task = row.task.clone();
            task.ready_at = Ms::ZERO;
            let step = Step {
                op: self.op(),
                by: Writer::Person(self.me.clone()),
                plan: None,
                tasks: vec![TaskPut { task, from: Statuses::of(&[row.task.status]), version: row.version, spec: None }],
                checkpoint: CheckpointPut::Keep,
                ask: None,
                events: Vec::new(),
                answer: None,
            };
            Counts::add(&self.counts.calls);
            match self.state.commit(&[step]).await?.pop() {
                // Something was written about it, the end of its tenant's freeze for one: look again.
                Some(Err(Refusal::Version { .. })) => {}
                _ => break,
            }
        }
        match named {
            true => self.queue.name(id.clone()),
            false => self.queue.wake(),
        }
        Ok(())
    }
}

/// A moment without work.
pub(crate) async fn pause(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
