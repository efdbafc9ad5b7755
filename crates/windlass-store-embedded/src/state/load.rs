//! Reading by key.

use windlass_core::checkpoint::Checkpoint;
use windlass_core::id::TaskId;
use windlass_core::plan::Tally;
use windlass_core::port::state::{Key, PlanRow, Row, TaskRow};
use windlass_core::task::status::TaskStatus;

use super::history::{self, About};
use crate::key;
use crate::kv::{KvError, Read};
use crate::tx::{Kept, Records};

pub(super) fn row(read: &dyn Read, wanted: &Key) -> Result<Option<Row>, KvError> {
    Ok(match wanted {
        Key::Plan(id) => read.record(&key::plan(id))?.map(Row::Plan),
        Key::PlanSpec(id) => read.record(&key::plan_spec(id))?.map(Row::PlanSpec),
        Key::Task(id) => read.record::<Kept>(&key::task(id))?.map(|kept| Row::Task(Box::new(kept.row))),
        Key::TaskSpec(id) => read.record(&key::task_spec(id))?.map(Row::TaskSpec),
        Key::Checkpoint(id) => checkpoint(read, id)?.map(Row::Checkpoint),
        Key::Tenant(id) => read.record(&key::tenant(id))?.map(Row::Tenant),
        Key::Op(id) => read.record(&key::op(id))?.map(Row::Op),
        Key::Instance(id) => read.record(&key::instance(id))?.map(Row::Instance),
        Key::Tally(id) => match read.record::<PlanRow>(&key::plan(id))? {
            Some(row) => Some(Row::Tally(tally(read, &row)?)),
            None => None,
        },
        Key::PlanHistory(id) => match read.record::<PlanRow>(&key::plan(id))? {
            Some(row) => {
                let about = About { plan: id, task: None };
                Some(Row::History(history::newest(read, &about, row.seq)?))
            }
            None => None,
        },
        Key::TaskHistory(id) => match read.record::<Kept>(&key::task(id))? {
            Some(Kept { row: TaskRow { task, seq, .. }, .. }) => {
                let about = About { plan: &task.plan, task: Some((id, &task.tenant)) };
                Some(Row::History(history::newest(read, &about, seq)?))
            }
            None => None,
        },
    })
}

/// Beside its task, or apart.
fn checkpoint(read: &dyn Read, id: &TaskId) -> Result<Option<Checkpoint>, KvError> {
    let Some(kept) = read.record::<Kept>(&key::task(id))? else { return Ok(None) };
    match kept.saved {
        Some(json) => json.to().map(Some).map_err(|error| KvError::Corrupt(error.to_string())),
        None if kept.row.checkpoint > 0 => read.record(&key::checkpoint(id)),
        None => Ok(None),
    }
}

fn tally(read: &dyn Read, row: &PlanRow) -> Result<Tally, KvError> {
    let mut tally = Tally::default();
    for status in TaskStatus::ALL {
        let mut prefix = key::tasks_with(status);
        prefix.extend(key::plan_part(row.plan.created_at, &row.plan.id));
        let (from, to) = key::within(prefix);
        let mut n = 0;
        read.scan(&from, &to, &mut |_, _| {
            n += 1;
            Ok(true)
        })?;
        tally.add(status, n);
    }
    Ok(tally)
}
