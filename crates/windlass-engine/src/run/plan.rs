//! The conductor: sees plans to their end. Every instance does it for what it touched and, at intervals,
//! for the plans it conducts; an instance that was already up takes over from one that died.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;
use windlass_core::event::{At, Event, Fact};
use windlass_core::id::{PlanId, StageName, TaskId};
use windlass_core::plan::command::settle;
use windlass_core::plan::spec::{OnFailure, Recovery};
use windlass_core::plan::{PlanStatus, may_conduct};
use windlass_core::port::state::{CheckpointPut, Filter, InstanceRow, Key, PlanPut, PlanRow, Row, Step, Writer};
use windlass_core::port::{PAGE_MAX, PortError};
use windlass_core::projection::apply_plan;
use windlass_core::task::Task;
use windlass_core::task::status::{Statuses, TaskStatus};

use super::dispatch::pause;
use crate::command::plan::Sweep;
use crate::error::Error;
use crate::query::pulse::Part;
use crate::shared::{Counts, Shared, locked};

/// The stage a task is in, or would be in next.
pub(super) fn current(task: &Task, names: &[StageName]) -> Option<At> {
    let index = task.stage.unwrap_or(task.completed);
    names.get(index as usize).map(|stage| At { index, stage: stage.clone() })
}

/// Looks at plans until the engine stops.
pub(crate) async fn conduct(engine: Arc<Shared>) {
    let scan = Duration::from_millis(engine.options.scan_ms);
    let mut due = Instant::now();
    while !engine.is_stopping() {
        engine.rounds.came(Part::Conduct);
        let touched = std::mem::take(&mut *locked(&engine.touched));
        let mut done = engine.settle(touched.iter().cloned().collect()).await;
        if done.is_err() {
            locked(&engine.touched).extend(touched);
        }
        if Instant::now() >= due && done.is_ok() {
            done = engine.look_at_plans().await;
            due = Instant::now() + scan;
        }
        match done {
            Err(Error::Port(error @ PortError::Unavailable(_))) => engine.outlast(&error).await,
            Err(error) => tracing::error!(%error, "plans cannot be looked at"),
            Ok(()) => {}
        }
        tokio::select! {
            biased;
            () = engine.stopped() => {}
            () = engine.conducting.notified() => {}
            () = tokio::time::sleep_until(due) => {}
        }
    }
}

impl Shared {
    /// Ends those of these plans of which nothing is active any more. One that cannot be read keeps no other from its end.
    pub(crate) async fn settle(&self, plans: Vec<PlanId>) -> Result<(), Error> {
        let is_away = |error: &Error| matches!(error, Error::Port(PortError::Unavailable(_)));
        for some in plans.chunks(SETTLED_MAX) {
            match self.settle_some(some).await {
                Err(error) if !is_away(&error) => {}
                done => {
                    done?;
                    continue;
                }
            }
            for plan in some {
                match self.settle_some(std::slice::from_ref(plan)).await {
                    Err(error) if !is_away(&error) => tracing::error!(%plan, %error, "whether it is over is not known"),
                    done => done?,
                }
            }
        }
        Ok(())
    }

    /// Plans that end together are looked at together, where the store can do that in one call.
    async fn settle_some(&self, plans: &[PlanId]) -> Result<(), Error> {
        let keys: Vec<_> = plans.iter().cloned().map(Key::Plan).collect();
        Counts::add(&self.counts.calls);
        let rows = self.state.load(&keys).await?.into_iter().flatten();
        // Counting a plan's tasks costs as much as it has tasks: of many, first whether one of them is active.
        let quiet = rows.map(|row| async move {
            let Row::Plan(PlanRow { plan, .. }) = row else { return Ok(None) };
            let has_one = plan.tasks > FEW && self.has_task(&plan.id, ACTIVE).await?;
            Ok((!has_one).then_some(plan.id))
        });
        let seen = self.over(&those(quiet).await?).await?;
        // Of one that is as it was started nobody has asked for anything; whoever does so now writes it, and it does not end.
        let (mut over, seen): (Vec<_>, Vec<_>) = seen.into_iter().partition(|(row, _)| row.is_as_started());
        let seen: BTreeMap<_, _> = seen.into_iter().map(|(row, _)| (row.plan.id, row.version)).collect();
        let free = seen.keys().cloned().map(|plan| async move {
            let asked = self.asked_of(&plan).await?;
            Ok(asked.is_empty().then_some(plan))
        });
        // What was asked for and had begun before that look is active now; what was asked for since has written the plan.
        let mut again = self.over(&those(free).await?).await?;
        again.retain(|(row, _)| seen.get(&row.plan.id) == Some(&row.version));
        over.append(&mut again);
        let put = over.into_iter().map(|(row, fact)| async move {
            let written = self.put_plan(row, fact).await?;
            Ok(written.then_some(()))
        });
        those(put).await.map(drop)
    }

    /// Those of these plans of which everything has ended, and how that ends each.
    async fn over(&self, plans: &[PlanId]) -> Result<Vec<(PlanRow, Fact)>, Error> {
        if plans.is_empty() {
            return Ok(Vec::new());
        }
        let keys = plans.iter().flat_map(|plan| [Key::Plan(plan.clone()), Key::Tally(plan.clone())]);
        Counts::add(&self.counts.calls);
        let rows = self.state.load(&keys.collect::<Vec<_>>()).await?;
        let over = rows.chunks(2).filter_map(|rows| match rows {
            [Some(Row::Plan(row)), Some(Row::Tally(tally))] => {
                settle(&row.plan, *tally).map(|fact| (row.clone(), fact))
            }
            _ => None,
        });
        Ok(over.collect())
    }

    /// Whether a task of the plan stands in one of these: cheap, however many tasks it has.
    pub(crate) async fn has_task(&self, plan: &PlanId, statuses: Statuses) -> Result<bool, Error> {
        let filter = Filter::Tasks { plan: Some(plan.clone()), tenant: None, statuses, interrupted: false };
        Counts::add(&self.counts.calls);
        Ok(!self.state.list(&filter, None, 1).await?.items.is_empty())
    }

    /// Tasks of this plan that somebody asked for, ended or not: they are about to begin.
    pub(crate) async fn asked_of(&self, plan: &PlanId) -> Result<Vec<TaskId>, Error> {
        let (mut after, mut asked) = (None, Vec::new());
        loop {
            let (plan, statuses) = (Some(plan.clone()), Statuses::ALL);
            let filter = Filter::Tasks { plan, tenant: None, statuses, interrupted: false };
            Counts::add(&self.counts.calls);
            let page = self.state.list(&filter, after.as_ref(), PAGE_MAX).await?;
            asked.extend(page.items.into_iter().filter_map(|row| match row {
                Row::Task(row) if row.control.start.is_some() => Some(row.task.id),
                _ => None,
            }));
            after = page.next;
            if after.is_none() {
                return Ok(asked);
            }
        }
    }

    /// Writes what has become of a plan; `false` if somebody else wrote first.
    async fn put_plan(&self, row: PlanRow, fact: Fact) -> Result<bool, Error> {
        let Some(known) = self.known(std::slice::from_ref(&row.plan.id)).await?.pop().flatten() else {
            return Ok(false);
        };
        let event = self.about_plan(&row.plan.id, fact);
        let plan = apply_plan(Some(row.plan), &known.spec, &event)?;
        let step = Step {
            op: self.op(),
            by: Writer::Person(self.me.clone()),
            plan: Some(PlanPut { plan, version: row.version, spec: None }),
            tasks: Vec::new(),
            checkpoint: CheckpointPut::Keep,
            ask: None,
            events: vec![event.clone()],
            answer: None,
        };
        Counts::add(&self.counts.calls);
        match self.state.commit(&[step]).await?.pop() {
            Some(Ok(stepped)) => {
                self.tell(vec![event], stepped.seq, true);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// An event about a plan, by the engine itself.
    pub(crate) fn about_plan(&self, plan: &PlanId, fact: Fact) -> Event {
        Event {
            seq: 0,
            at: self.clock.now(),
            plan: plan.clone(),
            task: None,
            tenant: None,
            by: Some(self.me.clone()),
            reason: None,
            fact,
        }
    }

    /// Every plan that is open: those conducted here are seen on, those whose conductor died are taken over.
    async fn look_at_plans(self: &Arc<Self>) -> Result<(), Error> {
        let mut after = None;
        loop {
            let statuses = vec![PlanStatus::Ready, PlanStatus::Running, PlanStatus::Paused];
            Counts::add(&self.counts.calls);
            let page = self.state.list(&Filter::Plans { statuses }, after.as_ref(), PAGE_MAX).await?;
            let rows = page.items.into_iter().filter_map(|row| match row {
                // One that was not started ends only if somebody cancelled it.
                Row::Plan(row) if row.plan.status != PlanStatus::Ready || row.plan.cancelled => Some(row),
                _ => None,
            });
            self.look_at_page(rows.collect()).await?;
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn look_at_page(self: &Arc<Self>, rows: Vec<PlanRow>) -> Result<(), Error> {
        self.settle(rows.iter().map(|row| row.plan.id.clone()).collect()).await?;
        self.look_for_strangers().await?;
        let mut keys = vec![Key::Instance(self.instance.clone())];
        keys.extend(rows.iter().filter_map(|row| row.plan.conductor.clone()).map(Key::Instance));
        Counts::add(&self.counts.calls);
        let instances: Vec<InstanceRow> = self
            .state
            .load(&keys)
            .await?
            .into_iter()
            .filter_map(|row| match row {
                Some(Row::Instance(row)) => Some(row),
                _ => None,
            })
            .collect();
        let Some(me) = instances.first().filter(|row| row.id == self.instance).cloned() else { return Ok(()) };
        for row in rows.into_iter().filter(|row| row.plan.status == PlanStatus::Running) {
            let Some(conductor) = &row.plan.conductor else { continue };
            let lease = instances.iter().find(|instance| instance.id == *conductor);
            let until = lease.map_or(windlass_core::time::Ms::ZERO, |row| row.until);
            let mine = *conductor == self.instance;
            let may = may_conduct(row.plan.recovery, until, me.since, self.store_now()) && !self.is_strangers(&row);
            if mine || may {
                self.conduct_plan(row, mine).await?;
            }
        }
        Ok(())
    }

    /// Takes the plan over if it is not this instance's, and sees to what nobody else does.
    async fn conduct_plan(self: &Arc<Self>, row: PlanRow, mine: bool) -> Result<(), Error> {
        let (plan, cancelled, recovery) = (row.plan.id.clone(), row.plan.cancelled, row.plan.recovery);
        if !mine {
            let fact = Fact::PlanResumed { conductor: self.instance.clone() };
            if !self.put_plan(row, fact).await? {
                return Ok(());
            }
            tracing::info!(%plan, "its conductor is gone; this instance conducts it now");
        }
        if cancelled {
            self.sweep(&plan, Sweep::Cancel, &self.me.clone(), None).await?;
        }
        if recovery == Recovery::Auto {
            self.take_up(&plan).await?;
        }
        self.queue.wake();
        Ok(())
    }

    /// The plan runs, and some of its tasks paused with it all the same.
    pub(crate) async fn resume_with_plan(&self, plan: &PlanId) {
        let reason = "its plan was resumed".parse().ok();
        if let Err(error) = self.sweep(plan, Sweep::Resume, &self.me.clone(), reason.as_ref()).await {
            tracing::warn!(%plan, %error, "what paused with the plan is not resumed");
        }
    }

    /// A failed task has paused its plan: the rest pauses, or, with `stop`, what has not begun ends.
    pub(crate) fn plan_was_paused(&self, plan: &PlanId, policy: OnFailure) {
        let what = match policy {
            OnFailure::Stop => Sweep::CancelPending,
            _ => Sweep::Pause,
        };
        locked(&self.sweeps).push((plan.clone(), what));
        self.sweeping.notify_one();
    }
}

/// What some calls find, a few of them under way at a time.
async fn those<T>(
    calls: impl Iterator<Item = impl Future<Output = Result<Option<T>, Error>>>,
) -> Result<Vec<T>, Error> {
    let found = stream::iter(calls).buffered(SETTLED_AT_ONCE);
    found.try_filter_map(|found| std::future::ready(Ok(found))).try_collect().await
}

/// Plans that are looked at together.
const SETTLED_MAX: usize = 100;
/// A plan that has no more tasks than this is counted at once.
const FEW: u32 = 100;
/// Of those that have more, how many are looked at at a time.
const SETTLED_AT_ONCE: usize = 16;

/// Before a plan that others keep changing is tried again.
const AGAIN_MS: u64 = 100;

/// Carries out what failures of tasks mean for the rest of their plans.
pub(crate) async fn sweep(engine: Arc<Shared>) {
    loop {
        let next = locked(&engine.sweeps).pop();
        let Some((plan, what)) = next else {
            engine.sweeping.notified().await;
            continue;
        };
        let reason = "a task of the plan failed".parse().ok();
        match engine.sweep(&plan, what, &engine.me.clone(), reason.as_ref()).await {
            Ok(()) => engine.touch(&plan),
            Err(Error::Port(error @ PortError::Unavailable(_))) => {
                locked(&engine.sweeps).push((plan, what));
                engine.outlast(&error).await;
            }
            // Claimed tasks are slow to begin: the policy holds for them too.
            Err(Error::Contended) => {
                locked(&engine.sweeps).push((plan, what));
                pause(AGAIN_MS).await;
            }
            Err(error) => tracing::error!(%plan, %error, "the rest of the plan cannot be reached"),
        }
    }
}

/// Tasks that hold their plan open.
const ACTIVE: Statuses =
    Statuses::of(&[TaskStatus::Pending, TaskStatus::Running, TaskStatus::Paused, TaskStatus::RollingBack]);

/// Tasks that somebody carries out, or would.
pub(crate) const RUNS: Statuses = Statuses::of(&[TaskStatus::Running, TaskStatus::RollingBack]);
