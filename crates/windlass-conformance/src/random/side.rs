//! One of the two that are compared: a store or the model, and what its callers remember.

use std::collections::BTreeMap;
use std::fmt::Debug;

use windlass_core::id::{InstanceId, TaskId, TenantId};
use windlass_core::lock::{Acquire, Held};
use windlass_core::plan::PlanStatus;
use windlass_core::port::lock::Force;
use windlass_core::port::state::{Filter, Key, Op, Row, Step, Take, TenantRow, Which};
use windlass_core::port::{Each, PAGE_MAX, PortError};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_core::time::Ms;

use super::call::{Call, Does, INSTANCES, Lease, PLANS, RIVALS, TASKS, TENANTS, What, Wrong};
use super::text::{GRAIN_MS, Scale, answer, failed};
use crate::world::read::{all_tasks, everything, list, list_locks};
use crate::world::{BORN, Rival, id};
use crate::{Harness, Ports};

/// How far a clock jumps: leases and locks end a grain after they were taken, or outlast one jump,
/// so that the real milliseconds of a store never decide anything.
const JUMP_MS: u64 = 10 * GRAIN_MS;

pub(super) struct Side<'h> {
    h: &'h dyn Harness,
    pub(super) rivals: Vec<(Rival, u64)>,
    pub(super) scale: Scale,
    /// Locks by task, as their holders know them, the newest last.
    pub(super) held: BTreeMap<TaskId, Vec<Held>>,
    pub(super) steps: Vec<Step>,
}

pub(super) fn instance(i: u32) -> InstanceId {
    id(&format!("instance-{i}"))
}

pub(super) fn tenant(i: u32) -> TenantId {
    id(&format!("tenant-{}", i % TENANTS))
}

pub(super) fn task(i: u32) -> TaskId {
    id(&format!("plan-{}-{}", i / TASKS, i % TASKS))
}

/// An answer per item, one line each.
fn each<T: Debug>(answers: Each<T>) -> String {
    match answers {
        Ok(answers) => answers.iter().map(answer).collect::<Vec<_>>().join("\n"),
        Err(why) => failed(&why),
    }
}

fn whole<T: Debug>(answer: Result<T, PortError>) -> String {
    answer.map_or_else(|why| failed(&why), |answer| format!("{answer:?}"))
}

impl<'h> Side<'h> {
    pub(super) async fn new(h: &'h dyn Harness) -> Side<'h> {
        let mut rivals = Vec::new();
        for _ in 0..RIVALS {
            rivals.push((Rival::open(h, "clock", 0).await, 0));
        }
        // A lease that ends at once says what time it is.
        let base = rivals[0].0.beat(0).await.until;
        let scale = Scale { base, fences: Vec::new() };
        Side { h, rivals, scale, held: BTreeMap::new(), steps: Vec::new() }
    }

    /// Makes the call; answers what came of it, comparably.
    pub(super) async fn make(&mut self, call: &Call) -> String {
        let text = self.called(call).await;
        self.scale.plain(&text)
    }

    pub(super) fn rival(&self, call: &Call) -> Rival {
        self.rivals[call.rival as usize].0.clone()
    }

    fn ports(&self, call: &Call) -> Ports {
        self.rival(call).ports
    }

    /// The rival's clock, to the grain.
    pub(super) fn now(&self, call: &Call) -> Ms {
        self.scale.base.plus(self.rivals[call.rival as usize].1)
    }

    async fn called(&mut self, call: &Call) -> String {
        let ports = self.ports(call);
        match &call.what {
            What::Later => {
                let ahead_ms = self.rivals[call.rival as usize].1 + JUMP_MS;
                self.rivals[call.rival as usize] = (Rival::open(self.h, "clock", ahead_ms).await, ahead_ms);
                String::new()
            }
            What::Beat { instance: i, lease } => {
                let lease_ms = match lease {
                    Lease::Ends => 0,
                    Lease::Short => GRAIN_MS,
                    Lease::Long => JUMP_MS + GRAIN_MS,
                };
                whole(ports.state.beat(&instance(*i), lease_ms).await)
            }
            What::Ready { instance: i, plan, limit } => {
                // Plans are served in an order of the store's own: of any plan, all or none are taken.
                let limit = if plan.is_none() { limit / 100 * 100 } else { *limit };
                let plan = plan.map(|plan| id(&format!("plan-{plan}")));
                let take = Take { instance: instance(*i), which: Which::Ready { plan, limit } };
                let mut lines: Vec<String> = each(ports.state.take(&take).await).lines().map(str::to_owned).collect();
                lines.sort();
                lines.join("\n")
            }
            What::Named { instance: i, tasks } => {
                let names = tasks.iter().map(|i| task(*i)).collect();
                let take = Take { instance: instance(*i), which: Which::Named(names) };
                let text = each(ports.state.take(&take).await);
                if text.contains("NoLease") { "NoLease".to_owned() } else { text }
            }
            What::List { filter, limit } => {
                let rows = list(&ports, &filter_of(*filter), *limit).await;
                rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>().join("\n")
            }
            What::Run { instance, task } => self.run(call, *instance, *task).await,
            What::Purge { old: true } => whole(ports.state.purge(BORN.plus(1_000_000), 1_000).await),
            What::Purge { old: false } => {
                let before = self.now(call).plus(GRAIN_MS / 2);
                whole(ports.state.purge(before, 1_000).await)
            }
            What::Acquire { .. }
            | What::Renew { .. }
            | What::Release { .. }
            | What::Force { .. }
            | What::Tenants { .. }
            | What::PurgeLocks => self.locks(call).await,
            What::Create { .. }
            | What::Plan { .. }
            | What::Owner { .. }
            | What::Claimer { .. }
            | What::Person { .. }
            | What::PutOff { .. }
            | What::Again { .. } => match self.step(call).await {
                Some(step) => {
                    self.steps.push(step.clone());
                    each(ports.state.commit(&[step]).await)
                }
                None => "nothing to do".to_owned(),
            },
        }
    }

    /// The whole way into an attempt, call by call.
    async fn run(&mut self, call: &Call, instance: u32, task: u32) -> String {
        let mut text = String::new();
        for what in [
            What::Beat { instance, lease: Lease::Long },
            What::Named { instance, tasks: vec![task] },
            What::Acquire { task, long: true },
            What::Owner { task, does: Does::Begin, wrong: Wrong::Nothing },
        ] {
            text += &Box::pin(self.called(&Call { what, ..call.clone() })).await;
            text += "\n";
        }
        text
    }

    async fn locks(&mut self, call: &Call) -> String {
        let ports = self.ports(call);
        match &call.what {
            What::Acquire { task: i, long } => {
                let (task, tenant) = (task(*i), self.tenant_of(call, *i).await);
                let ttl_ms = if *long { JUMP_MS + 5 * GRAIN_MS } else { GRAIN_MS };
                let want = Acquire { tenant, plan: id("some-plan"), task: task.clone(), ttl_ms };
                let answers = ports.locks.acquire(std::slice::from_ref(&want)).await;
                if let Ok([Ok(holder)]) = answers.as_deref() {
                    self.scale.fences.push(holder.fence);
                    let held = Held { tenant: want.tenant, task: task.clone(), fence: holder.fence };
                    self.held.entry(task).or_default().push(held);
                }
                each(answers)
            }
            What::Renew { task, late } => match self.lock_of(*task, *late) {
                Some(held) => each(ports.locks.renew(&[held], JUMP_MS + GRAIN_MS).await),
                None => "never held".to_owned(),
            },
            What::Release { task, late } => match self.lock_of(*task, *late) {
                Some(held) => each(ports.locks.release(&[held]).await),
                None => "never held".to_owned(),
            },
            What::Force { tenant: i, force } => {
                let force = [Force::Release, Force::Freeze, Force::Unfreeze][*force as usize % 3];
                let by = id(&format!("person-{}", call.n));
                // A few ids for many calls: some are repeats, most are another body under an id that was used.
                let op = Op { id: id(&format!("force-{}", call.n % 8)), digest: u64::from(call.n % 2) };
                let op = (!call.n.is_multiple_of(3)).then_some(&op);
                whole(ports.locks.force(&tenant(*i), force, &by, None, op).await)
            }
            What::Tenants { limit } => format!("{:?}", list_locks(&ports, *limit).await),
            _ => {
                let before = self.now(call).plus(GRAIN_MS / 2);
                whole(ports.locks.purge(before, 1_000).await)
            }
        }
    }

    /// The tenant of a task, or any if there is no such task.
    async fn tenant_of(&self, call: &Call, i: u32) -> TenantId {
        match self.rival(call).load(Key::Task(task(i))).await {
            Some(Row::Task(row)) => row.task.tenant,
            _ => tenant(i),
        }
    }

    /// A lock as its holder knows it, or knew it one lock before.
    pub(super) fn lock_of(&self, i: u32, late: bool) -> Option<Held> {
        let all = self.held.get(&task(i))?;
        all.iter().rev().nth(usize::from(late)).cloned()
    }

    /// All that is stored, seen by every rival.
    pub(super) async fn everything(&self) -> Vec<String> {
        let mut all = Vec::new();
        for (i, (rival, _)) in self.rivals.iter().enumerate() {
            all.extend(everything(&rival.ports).await.into_iter().map(|line| format!("rival {i}: {line}")));
            for filter in 0..FILTERS {
                let rows = list(&rival.ports, &filter_of(filter), PAGE_MAX).await;
                all.push(format!("rival {i}: {:?} {rows:?}", filter_of(filter)));
            }
        }
        let mut keys: Vec<Key> = (0..TENANTS).map(|i| Key::Tenant(tenant(i))).collect();
        keys.extend((0..INSTANCES).map(|i| Key::Instance(instance(i))));
        keys.extend((0..PLANS).map(|i| Key::Tally(id(&format!("plan-{i}")))));
        keys.extend(self.steps.iter().map(|step| Key::Op(step.op.id.clone())));
        let rows = self.rivals[0].0.ports.state.load(&keys).await.expect("load");
        for (key, row) in keys.iter().zip(rows) {
            // A tenant of which nothing is left to say may be forgotten or not.
            let row = row.filter(|row| *row != Row::Tenant(TenantRow::default()));
            all.push(format!("{key:?} {row:?}"));
        }
        all.iter().map(|line| self.scale.plain(line)).collect()
    }
}

const FILTERS: u32 = 6;

fn filter_of(i: u32) -> Filter {
    let tasks = |plan, tenant, statuses, interrupted| Filter::Tasks { plan, tenant, statuses, interrupted };
    match i % FILTERS {
        0 => Filter::Plans { statuses: Vec::new() },
        1 => Filter::Plans { statuses: vec![PlanStatus::Running, PlanStatus::Failed] },
        2 => all_tasks(),
        3 => tasks(Some(id("plan-0")), None, Statuses::of(&[TaskStatus::Pending, TaskStatus::Failed]), false),
        4 => tasks(None, Some(tenant(1)), Statuses::NONE, false),
        _ => tasks(None, None, Statuses::NONE, true),
    }
}
