//! The plain in-memory model of both ports: maps behind one mutex. It is what the contract is
//! checked on before a store exists, and what [`crate::random`] compares a store with. It is meant to
//! be believed at a glance: no index, no cache, every question answered by walking everything.
//!
//! Its clock stands still. Time passes only where a rival is opened with a clock ahead of it.

mod commit;
mod lock;
mod read;
mod take;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::by::{By, Reason};
use windlass_core::checkpoint::Checkpoint;
use windlass_core::event::Event;
use windlass_core::fence::Fence;
use windlass_core::id::{InstanceId, OpId, PlanId, TaskId, TenantId};
use windlass_core::lock::{Acquire, Freeze, Held, Holder};
use windlass_core::plan::spec::{PlanSpec, TaskSpec};
use windlass_core::port::lock::{Force, Locks, Tenant};
use windlass_core::port::state::{
    Beat, Filter, InstanceRow, Key, Op, OpRow, PlanRow, Row, State, Step, Stepped, Take, TaskRow, TenantRow,
};
use windlass_core::port::{BATCH_MAX, Cursor, Each, Mark, PAGE_MAX, Page, PortError, Refusal};
use windlass_core::time::Ms;

/// When the model's clock stands: in 2023.
pub(crate) const NOW: Ms = Ms::new(1_700_000_000_000);

/// A model with nothing in it. Its clones are rivals on the same data.
#[derive(Clone)]
pub struct Model {
    shared: Arc<Shared>,
    ahead_ms: u64,
}

struct Shared {
    data: Mutex<Data>,
    state_mark: watch::Sender<u64>,
    locks_mark: watch::Sender<u64>,
}

/// Everything there is.
#[derive(Default)]
struct Data {
    plans: BTreeMap<PlanId, PlanEntry>,
    tasks: BTreeMap<TaskId, TaskEntry>,
    tenants: BTreeMap<TenantId, TenantRow>,
    ops: BTreeMap<OpId, OpRow>,
    instances: BTreeMap<InstanceId, InstanceRow>,
    locks: BTreeMap<TenantId, Holder>,
    freezes: BTreeMap<TenantId, Freeze>,
    fence: Fence,
}

struct PlanEntry {
    row: PlanRow,
    spec: PlanSpec,
    history: Vec<Event>,
}

struct TaskEntry {
    row: TaskRow,
    spec: TaskSpec,
    checkpoint: Option<Checkpoint>,
    history: Vec<Event>,
}

impl Default for Model {
    fn default() -> Self {
        let shared =
            Shared { data: Mutex::default(), state_mark: watch::Sender::new(0), locks_mark: watch::Sender::new(0) };
        Model { shared: Arc::new(shared), ahead_ms: 0 }
    }
}

impl Model {
    fn data(&self) -> MutexGuard<'_, Data> {
        self.shared.data.lock().expect("nobody panics inside the model")
    }

    fn now(&self) -> Ms {
        NOW.plus(self.ahead_ms)
    }

    fn state_moved(&self) {
        self.shared.state_mark.send_modify(|mark| *mark += 1);
    }

    fn locks_moved(&self) {
        self.shared.locks_mark.send_modify(|mark| *mark += 1);
    }
}

#[async_trait]
impl crate::Harness for Model {
    async fn open(&self, ahead_ms: u64) -> crate::Ports {
        let rival = Arc::new(Model { shared: self.shared.clone(), ahead_ms });
        crate::Ports { state: rival.clone(), locks: rival }
    }

    /// What is in memory is all there is, and it stays.
    async fn restart(&self) {}
}

#[async_trait]
impl State for Model {
    fn at_once(&self) -> Option<usize> {
        None
    }

    fn enough(&self) -> Option<usize> {
        None
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        batch(steps)?;
        let mut data = self.data();
        let answers = steps.iter().map(|step| data.commit(step, self.now())).collect();
        if steps.iter().any(|step| data.is_news(step)) {
            self.state_moved();
        }
        Ok(answers)
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        self.data().take(take, self.now())
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        let beat = self.data().beat(instance, lease_ms, self.now());
        self.state_moved();
        Ok(beat)
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        batch(keys)?;
        let data = self.data();
        Ok(keys.iter().map(|key| data.load(key)).collect())
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        page(self.data().list(filter, self.now()), after, limit)
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        Ok(wait(&self.shared.state_mark, since, wait_ms).await)
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        Ok(self.data().purge(before, limit, self.now()))
    }
}

#[async_trait]
impl Locks for Model {
    async fn acquire(&self, want: &[Acquire]) -> Each<Holder> {
        batch(want)?;
        let mut data = self.data();
        Ok(want.iter().map(|want| data.acquire(want, self.now())).collect())
    }

    async fn renew(&self, held: &[Held], ttl_ms: u64) -> Each<Ms> {
        batch(held)?;
        let mut data = self.data();
        Ok(held.iter().map(|held| data.renew(held, ttl_ms, self.now())).collect())
    }

    async fn release(&self, held: &[Held]) -> Each<()> {
        batch(held)?;
        let mut data = self.data();
        let answers = held.iter().map(|held| data.release(held, self.now())).collect();
        self.locks_moved();
        Ok(answers)
    }

    async fn force(
        &self,
        tenant: &TenantId,
        what: Force,
        by: &By,
        reason: Option<&Reason>,
        op: Option<&Op>,
    ) -> Result<Result<Tenant, Refusal>, PortError> {
        let mut data = self.data();
        let kept = op.and_then(|op| data.ops.get(&op.id).map(|kept| Tenant::answered(op, kept)));
        if let Some(answer) = kept {
            return Ok(answer);
        }
        let before = data.force(tenant, what, by, reason, self.now());
        if let Some(op) = op {
            data.ops.insert(op.id.clone(), before.kept(op, self.now()));
        }
        self.locks_moved();
        Ok(Ok(before))
    }

    async fn load(&self, tenants: &[TenantId]) -> Result<Vec<Tenant>, PortError> {
        batch(tenants)?;
        let data = self.data();
        Ok(tenants.iter().map(|tenant| data.tenant(tenant, self.now())).collect())
    }

    async fn list(&self, after: Option<&Cursor>, limit: u32) -> Result<Page<Tenant>, PortError> {
        page(self.data().busy_tenants(self.now()), after, limit)
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        Ok(wait(&self.shared.locks_mark, since, wait_ms).await)
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        Ok(self.data().purge_locks(before, limit, self.now()))
    }
}

pub(crate) fn batch<T>(items: &[T]) -> Result<(), PortError> {
    match items.len() {
        n if n > BATCH_MAX => Err(PortError::Invalid(format!("{n} items in one call"))),
        _ => Ok(()),
    }
}

/// The part of a sorted list that comes after a cursor, which is the sort key of the last item
/// before it.
pub(crate) fn page<T>(sorted: BTreeMap<String, T>, after: Option<&Cursor>, limit: u32) -> Result<Page<T>, PortError> {
    if limit == 0 || limit > PAGE_MAX {
        return Err(PortError::Invalid(format!("a page of {limit}")));
    }
    let after = match after {
        None => "",
        Some(Cursor(text)) => text.strip_prefix("after ").ok_or_else(|| PortError::Invalid("bad cursor".to_owned()))?,
    };
    let mut rest = sorted.into_iter().filter(|(key, _)| key.as_str() > after).peekable();
    let mut page = Page { items: Vec::new(), next: None };
    while page.items.len() < limit as usize {
        let Some((key, item)) = rest.next() else { break };
        page.items.push(item);
        page.next = rest.peek().map(|_| Cursor(format!("after {key}")));
    }
    Ok(page)
}

pub(crate) async fn wait(mark: &watch::Sender<u64>, since: Mark, wait_ms: u64) -> Mark {
    let mut seen = mark.subscribe();
    let limit = Duration::from_millis(wait_ms);
    let _woken_or_not = tokio::time::timeout(limit, seen.wait_for(|mark| *mark > since.0)).await.is_ok();
    Mark(*mark.borrow())
}
