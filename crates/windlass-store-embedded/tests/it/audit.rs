//! Whether a folder that a writer died on holds everything it acknowledged and nothing by halves.

mod trigger;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use windlass_core::id::InstanceId;
use windlass_core::lock::Acquire;
use windlass_core::plan::PlanStatus;
use windlass_core::port::PAGE_MAX;
use windlass_core::port::lock::Locks;
use windlass_core::port::state::{Filter, Key, PlanRow, Row, State, Take, TaskRow, Which};
use windlass_core::task::status::{Statuses, TaskStatus};
use windlass_store_embedded::kv::Kv;
use windlass_store_embedded::kv::disk::Disk;
use windlass_store_embedded::{Clock, Embedded, Options};

use crate::crash::Acknowledged;
use crate::probe::dump;
use crate::work::{self, id};

pub(crate) async fn check(folder: &Path, acknowledged: &Acknowledged) {
    let disk = Arc::new(Disk::open(folder, &Options::default()).unwrap_or_else(|error| panic!("{error}")));
    let mut tables: BTreeMap<char, usize> = BTreeMap::new();
    for (key, _) in dump(&*disk) {
        *tables.entry(char::from(key[0])).or_default() += 1;
    }
    let store = Embedded::over(Arc::<Disk>::clone(&disk) as Arc<dyn Kv>, Clock::system()).unwrap();
    drop(disk);
    let stored = Stored::read(&store).await;
    stored.has(&store, acknowledged).await;
    stored.is_whole(&store, &tables).await;
    trigger::check(&store, acknowledged, &tables).await;
    fences_grow(&store, &stored, acknowledged).await;
    work_goes_on(&store, &stored).await;
    store.close();
}

struct Stored {
    tasks: BTreeMap<String, TaskRow>,
    plans: BTreeMap<String, PlanRow>,
}

async fn list(store: &Embedded, filter: Filter) -> Vec<Row> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = State::list(store, &filter, after.as_ref(), PAGE_MAX).await.unwrap();
        rows.extend(page.items);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

async fn tasks(store: &Embedded, filter: Filter) -> BTreeMap<String, TaskRow> {
    let rows = list(store, filter).await;
    let count = rows.len();
    let found: BTreeMap<_, _> = rows
        .into_iter()
        .map(|row| match row {
            Row::Task(row) => (row.task.id.to_string(), *row),
            other => panic!("{other:?} among tasks"),
        })
        .collect();
    assert_eq!(found.len(), count, "a task is listed twice");
    found
}

fn filter(statuses: Statuses) -> Filter {
    Filter::Tasks { plan: None, tenant: None, statuses, interrupted: false }
}

async fn load(store: &Embedded, key: Key) -> Option<Row> {
    State::load(store, &[key]).await.unwrap().remove(0)
}

impl Stored {
    async fn read(store: &Embedded) -> Stored {
        let plans = list(store, Filter::Plans { statuses: Vec::new() }).await.into_iter().map(|row| match row {
            Row::Plan(row) => (row.plan.id.to_string(), row),
            other => panic!("{other:?} among plans"),
        });
        Stored { plans: plans.collect(), tasks: tasks(store, filter(Statuses::NONE)).await }
    }

    /// Everything that was acknowledged. A thing has one writer, which may have gone one write
    /// further without living to hear of it.
    async fn has(&self, store: &Embedded, acknowledged: &Acknowledged) {
        for (name, wanted) in &acknowledged.tasks {
            let row = self.tasks.get(name).unwrap_or_else(|| panic!("task {name} was acknowledged and is gone"));
            let version: u64 = wanted[0].parse().unwrap();
            assert!(row.version >= version, "task {name} is at {}, {version} was acknowledged", row.version);
            if row.version == version {
                let found = [row.version.to_string(), row.seq.to_string(), row.checkpoint.to_string()];
                assert_eq!(wanted[..3], found, "task {name}: version, history, checkpoint");
                assert_eq!(wanted[3..], [row.task.status.to_string(), row.task.fence.to_string()], "task {name}");
            }
        }
        for (name, wanted) in &acknowledged.plans {
            let row = self.plans.get(name).unwrap_or_else(|| panic!("plan {name} was acknowledged and is gone"));
            let version: u64 = wanted[0].parse().unwrap();
            assert!(row.version >= version, "plan {name} is at {}, {version} was acknowledged", row.version);
            if row.version == version {
                assert_eq!(wanted[1..], [row.seq.to_string(), row.plan.status.to_string()], "plan {name}");
            }
        }
        for op in &acknowledged.ops {
            assert!(load(store, Key::Op(id(op))).await.is_some(), "operation {op} is gone");
        }
        for (name, until) in &acknowledged.beats {
            let Some(Row::Instance(row)) = load(store, Key::Instance(id(name))).await else { panic!("{name} is gone") };
            assert!(row.until.get() >= *until, "the lease of {name} was shortened");
        }
        for (name, lock) in &acknowledged.locks {
            let tenant = Locks::load(store, &[id(name)]).await.unwrap().remove(0);
            match tenant.holder {
                Some(holder) if lock.held => assert_eq!(holder.fence.0, lock.fence, "the lock of {name}"),
                // Taken again, and nobody lived to hear of it.
                Some(holder) => assert!(holder.fence.0 > lock.fence, "the lock of {name} came back"),
                // Given back, which comes after the task's last write only.
                None if lock.held => {
                    let status = acknowledged.tasks[&lock.task][3].as_str();
                    assert!(["COMPLETED", "PAUSED"].contains(&status), "the lock of {name} is gone, its task {status}");
                }
                None => {}
            }
        }
    }

    /// Every step whole: rows, checkpoints, histories and indexes tell the same.
    async fn is_whole(&self, store: &Embedded, tables: &BTreeMap<char, usize>) {
        let count = |table: char| tables.get(&table).copied().unwrap_or(0);
        let owned = self.tasks.values().filter(|row| row.task.owner.is_some()).count();
        let ready = self.tasks.values().filter(|row| row.task.readiness(&row.control).is_some()).count();
        let asked = self.tasks.values().filter(|row| row.task.owner.is_some() && row.control.wants_owner()).count();
        let expected = [('t', self.tasks.len()), ('i', self.tasks.len()), ('u', self.tasks.len())];
        let more = [('s', self.tasks.len()), ('a', owned), ('r', ready), ('w', asked), ('c', 0)];
        let plans = [('P', self.plans.len()), ('I', self.plans.len()), ('S', self.plans.len())];
        for (table, rows) in expected.into_iter().chain(more).chain(plans).chain([('o', count('O'))]) {
            assert_eq!(count(table), rows, "rows of table {table}");
        }
        for (name, row) in &self.tasks {
            self.task_is_whole(store, name, row).await;
        }
        for status in TaskStatus::ALL {
            let listed = tasks(store, filter(Statuses::of(&[status]))).await;
            assert_eq!(listed, self.some(|row| row.task.status == status), "tasks that are {status}");
        }
        for row in self.plans.values() {
            self.plan_is_whole(store, row).await;
        }
    }

    fn some(&self, fits: impl Fn(&TaskRow) -> bool) -> BTreeMap<String, TaskRow> {
        self.tasks.iter().filter(|(_, row)| fits(row)).map(|(name, row)| (name.clone(), row.clone())).collect()
    }

    async fn task_is_whole(&self, store: &Embedded, name: &str, row: &TaskRow) {
        let task = &row.task;
        let checkpoint = match load(store, Key::Checkpoint(task.id.clone())).await {
            Some(Row::Checkpoint(checkpoint)) => {
                assert_eq!(checkpoint.completed(), task.completed, "{name}: stages done");
                assert_eq!(checkpoint.fence, task.fence, "{name}");
                checkpoint.version
            }
            _ => 0,
        };
        assert_eq!(row.checkpoint, checkpoint, "{name}: the checkpoint's version");
        let Some(Row::History(events)) = load(store, Key::TaskHistory(task.id.clone())).await else { panic!("{name}") };
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=row.seq).collect::<Vec<_>>(), "{name}: the history");
        let Some(Row::Tenant(tenant)) = load(store, Key::Tenant(task.tenant.clone())).await else {
            panic!("{name}: its tenant is gone")
        };
        assert!(tenant.fence >= task.fence, "{name}: a fence that its tenant has not seen");
        let by = Filter::Tasks {
            plan: Some(task.plan.clone()),
            tenant: Some(task.tenant.clone()),
            statuses: Statuses::NONE,
            interrupted: false,
        };
        assert_eq!(tasks(store, by).await, self.some(|row| row.task.id == task.id), "{name} by tenant and plan");
    }

    async fn plan_is_whole(&self, store: &Embedded, row: &PlanRow) {
        let plan = &row.plan;
        let of = self.some(|row| row.task.plan == plan.id);
        assert_eq!(of.len(), plan.tasks as usize, "{}: its tasks came with it", plan.id);
        let by =
            Filter::Tasks { plan: Some(plan.id.clone()), tenant: None, statuses: Statuses::NONE, interrupted: false };
        assert_eq!(tasks(store, by).await, of, "{}: its tasks by plan", plan.id);
        let Some(Row::Tally(tally)) = load(store, Key::Tally(plan.id.clone())).await else { panic!("no tally") };
        for status in TaskStatus::ALL {
            let n = of.values().filter(|row| row.task.status == status).count();
            assert_eq!(tally.of(status) as usize, n, "{}: {status}", plan.id);
        }
        let Some(Row::History(events)) = load(store, Key::PlanHistory(plan.id.clone())).await else {
            panic!("no history")
        };
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=row.seq).collect::<Vec<_>>(), "{}: the history", plan.id);
    }
}

async fn fences_grow(store: &Embedded, stored: &Stored, acknowledged: &Acknowledged) {
    let want = Acquire { tenant: id("checker"), plan: id("checker"), task: id("checker"), ttl_ms: 1 };
    // The lock of an earlier check is the same task's, so it is granted again.
    let fence = store.acquire(&[want]).await.unwrap().remove(0).unwrap().fence.0;
    let drawn = stored.tasks.values().map(|row| row.task.fence.0);
    let highest = drawn.chain(acknowledged.locks.values().map(|lock| lock.fence)).max().unwrap_or(0);
    assert!(fence > highest, "fence {fence} after {highest}");
}

/// What is ready can be taken, within the plan's slots, by somebody who conducts the plan now.
async fn work_goes_on(store: &Embedded, stored: &Stored) {
    let me: InstanceId = id("checker");
    let until = store.beat(&me, 600_000).await.unwrap().until;
    let live = stored.plans.values().filter(|row| row.plan.status == PlanStatus::Running);
    // Those that an earlier check took up are done with.
    for row in live.filter(|row| row.plan.conductor.as_ref() != Some(&me)) {
        let mut plan = row.plan.clone();
        let at = until.minus(600_000);
        let op = format!("check-{}", plan.id);
        store.commit(&[work::start(&op, &mut plan, row.version, &me, at)]).await.unwrap().remove(0).unwrap();
        let of = stored.some(|row| row.task.plan == plan.id);
        let used = of.values().filter(|row| row.task.owner.is_some()).count();
        // The leases of the dead still run, so what they claimed is theirs.
        let mut ready: Vec<&TaskRow> =
            of.values().filter(|row| row.task.owner.is_none() && row.task.readiness(&row.control).is_some()).collect();
        ready.sort_by_key(|row| row.task.position);
        let free = (plan.max_concurrency as usize).saturating_sub(used);
        let expected: Vec<String> = ready.iter().take(free).map(|row| row.task.id.to_string()).collect();
        let take = Take { instance: me.clone(), which: Which::Ready { plan: Some(plan.id.clone()), limit: 100 } };
        let taken = store.take(&take).await.unwrap();
        let taken: Vec<String> = taken.into_iter().map(|row| row.unwrap().task.id.to_string()).collect();
        assert_eq!(taken, expected, "{}: what is ready, with {used} slots taken", plan.id);
    }
}
