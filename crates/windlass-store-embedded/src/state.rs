//! State on the embedded store: the port's methods, each one piece of work for the writer or one
//! look at what is committed.

mod change;
mod commit;
mod history;
pub(crate) mod list;
mod load;
mod prepared;
mod purge;
mod take;

use async_trait::async_trait;
use windlass_core::id::InstanceId;
use windlass_core::port::state::{Beat, Filter, InstanceRow, Key, Row, State, Step, Stepped, Take, TaskRow};
use windlass_core::port::{Cursor, Each, Mark, Page, PortError, Refusal};
use windlass_core::time::Ms;

use crate::kv::{KvError, Read};
use crate::tx::{Records, Tx};
use crate::{Embedded, key, record};

/// An answer or a refusal, unless the store itself fails.
type Judged<T> = Result<Result<T, Refusal>, PortError>;

#[async_trait]
impl State for Embedded {
    fn at_once(&self) -> Option<usize> {
        None
    }

    fn enough(&self) -> Option<usize> {
        None
    }

    async fn commit(&self, steps: &[Step]) -> Each<Stepped> {
        list::check_batch(steps.len())?;
        let steps: Vec<_> = steps.iter().cloned().map(prepared::Prepared::new).collect();
        let ahead = self.ahead_ms;
        self.writer
            .write(move |tx| {
                let now = tx.now(ahead);
                steps.into_iter().map(|step| commit::step(tx, step, now)).collect()
            })
            .await
    }

    async fn take(&self, take: &Take) -> Each<TaskRow> {
        let (take, ahead) = (take.clone(), self.ahead_ms);
        if let windlass_core::port::state::Which::Named(ids) = &take.which {
            list::check_batch(ids.len())?;
        }
        self.writer.write(move |tx| take::take(tx, &take, tx.now(ahead))).await
    }

    async fn beat(&self, instance: &InstanceId, lease_ms: u64) -> Result<Beat, PortError> {
        let (instance, ahead) = (instance.clone(), self.ahead_ms);
        self.writer.write(move |tx| Ok(beat(tx, &instance, lease_ms, tx.now(ahead))?)).await
    }

    async fn load(&self, keys: &[Key]) -> Result<Vec<Option<Row>>, PortError> {
        list::check_batch(keys.len())?;
        self.writer.read(|read| keys.iter().map(|key| Ok(load::row(read, key)?)).collect())
    }

    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<Page<Row>, PortError> {
        list::check_limit(limit)?;
        let now = self.writer.clock.now(self.ahead_ms);
        self.writer.read(|read| list::list(read, filter, after, limit, now))
    }

    async fn changed(&self, since: Mark, wait_ms: u64) -> Result<Mark, PortError> {
        self.writer.changed(&self.writer.state_mark, since, wait_ms).await
    }

    async fn purge(&self, before: Ms, limit: u32) -> Result<u32, PortError> {
        let ahead = self.ahead_ms;
        self.writer.write(move |tx| Ok(purge::purge(tx, before, limit, tx.now(ahead))?)).await
    }
}

/// Until when the instance's lease runs; an unknown one's has never begun.
fn lease_until(read: &(impl Read + ?Sized), instance: &InstanceId) -> Result<Ms, KvError> {
    Ok(read.record::<InstanceRow>(&key::instance(instance))?.map_or(Ms::ZERO, |row| row.until))
}

fn beat(tx: &mut Tx<'_>, instance: &InstanceId, lease_ms: u64, now: Ms) -> Result<Beat, KvError> {
    let key = key::instance(instance);
    let since = tx.record::<InstanceRow>(&key)?.map_or(now, |row| row.since);
    let until = now.plus(lease_ms);
    tx.put_record(key, &InstanceRow { id: instance.clone(), since, until })?;
    // The end of a lease is something that others may be waiting for.
    tx.state_changed |= lease_ms == 0;
    let (from, to) = key::asked_of(instance);
    let mut ids = Vec::new();
    tx.scan(&from, &to, &mut |_, id| {
        ids.push(id.clone());
        Ok(true)
    })?;
    let mut asked = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(row) = tx.task(&record::decode(&id)?)? {
            asked.push((row.task.id, row.control));
        }
    }
    Ok(Beat { until, asked })
}
