//! Reading back what is stored.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::Event;
use windlass_core::id::{PlanId, TaskId, TenantId};
use windlass_core::port::lock::Tenant;
use windlass_core::port::state::{Filter, Key, PlanRow, Row, TaskRow, TenantRow};
use windlass_core::port::{Mark, PAGE_MAX};
use windlass_core::task::status::Statuses;

use super::Rival;
use crate::Ports;

impl Rival {
    /// What is stored under one key.
    pub async fn load(&self, key: Key) -> Option<Row> {
        let mut rows = self.ports.state.load(&[key]).await.expect("load");
        assert_eq!(rows.len(), 1, "load answers every key");
        rows.remove(0)
    }

    /// A plan that must be there.
    pub async fn plan(&self, id: &PlanId) -> PlanRow {
        match self.load(Key::Plan(id.clone())).await {
            Some(Row::Plan(row)) => row,
            other => panic!("plan {id} is {other:?}"),
        }
    }

    /// A task that must be there.
    pub async fn task(&self, id: &TaskId) -> TaskRow {
        match self.load(Key::Task(id.clone())).await {
            Some(Row::Task(row)) => *row,
            other => panic!("task {id} is {other:?}"),
        }
    }

    /// A task's checkpoint.
    pub async fn checkpoint(&self, id: &TaskId) -> Option<Checkpoint> {
        match self.load(Key::Checkpoint(id.clone())).await {
            Some(Row::Checkpoint(checkpoint)) => Some(checkpoint),
            None => None,
            other => panic!("the checkpoint of {id} is {other:?}"),
        }
    }

    /// The history of something that must be there.
    pub async fn history(&self, key: Key) -> Vec<Event> {
        match self.load(key).await {
            Some(Row::History(events)) => events,
            other => panic!("a history is {other:?}"),
        }
    }

    /// A tenant as state sees it; as if new if it was never seen.
    pub async fn tenant(&self, id: &TenantId) -> TenantRow {
        match self.load(Key::Tenant(id.clone())).await {
            Some(Row::Tenant(row)) => row,
            None => TenantRow::default(),
            other => panic!("tenant {id} is {other:?}"),
        }
    }

    /// A tenant as locks see it.
    pub async fn lock(&self, tenant: &TenantId) -> Tenant {
        let mut tenants = self.ports.locks.load(std::slice::from_ref(tenant)).await.expect("load");
        assert_eq!(tenants.len(), 1, "load answers every tenant");
        tenants.remove(0)
    }

    /// How far state has changed.
    pub async fn mark(&self) -> Mark {
        self.ports.state.changed(Mark::default(), 0).await.expect("changed")
    }

    /// How far locks have changed.
    pub async fn locks_mark(&self) -> Mark {
        self.ports.locks.changed(Mark::default(), 0).await.expect("changed")
    }

    /// A whole list.
    pub async fn list(&self, filter: &Filter) -> Vec<Row> {
        list(&self.ports, filter, PAGE_MAX).await
    }

    /// Everything that lists lead to, as text: equal before and after what must change nothing.
    pub async fn everything(&self) -> Vec<String> {
        everything(&self.ports).await
    }
}

/// Every task there is.
#[must_use]
pub fn all_tasks() -> Filter {
    Filter::Tasks { plan: None, tenant: None, statuses: Statuses::NONE, interrupted: false }
}

/// A whole list, in pages of `limit`.
pub async fn list(ports: &Ports, filter: &Filter, limit: u32) -> Vec<Row> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let page = ports.state.list(filter, after.as_ref(), limit).await.expect("list");
        assert!(page.items.len() <= limit as usize, "a page has at most {limit} items, not {}", page.items.len());
        rows.extend(page.items);
        assert!(page.next.is_none() || page.next != after, "a cursor moves on, or a list has no end");
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

/// The whole list of tenants that are held or frozen, in pages of `limit`.
pub async fn list_locks(ports: &Ports, limit: u32) -> Vec<Tenant> {
    let (mut tenants, mut after) = (Vec::new(), None);
    loop {
        let page = ports.locks.list(after.as_ref(), limit).await.expect("list");
        assert!(page.items.len() <= limit as usize, "a page has at most {limit} items, not {}", page.items.len());
        tenants.extend(page.items);
        assert!(page.next.is_none() || page.next != after, "a cursor moves on, or a list has no end");
        after = page.next;
        if after.is_none() {
            return tenants;
        }
    }
}

/// See [`Rival::everything`].
pub async fn everything(ports: &Ports) -> Vec<String> {
    let mut keys = Vec::new();
    let mut all = Vec::new();
    for filter in [Filter::Plans { statuses: Vec::new() }, all_tasks(), Filter::Instances] {
        for row in list(ports, &filter, PAGE_MAX).await {
            match &row {
                Row::Plan(row) => {
                    let id = || row.plan.id.clone();
                    keys.extend([Key::Plan(id()), Key::PlanSpec(id()), Key::Tally(id()), Key::PlanHistory(id())]);
                }
                Row::Task(row) => {
                    let id = || row.task.id.clone();
                    keys.extend([Key::Task(id()), Key::TaskSpec(id()), Key::TaskHistory(id()), Key::Checkpoint(id())]);
                    keys.push(Key::Tenant(row.task.tenant.clone()));
                }
                Row::Instance(row) => keys.push(Key::Instance(row.id.clone())),
                other => panic!("{other:?} is in no list"),
            }
            all.push(format!("listed {row:?}"));
        }
    }
    for (key, row) in keys.iter().zip(ports.state.load(&keys).await.expect("load")) {
        all.push(format!("{key:?} {row:?}"));
    }
    all.extend(list_locks(ports, PAGE_MAX).await.iter().map(|tenant| format!("locks {tenant:?}")));
    all
}
