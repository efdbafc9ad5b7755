//! Tasks that instances of this process run, as they were left here. Every write of a row raises its version, and a task that is made
//! anew under an old name is created later: a row that has the same of both is as it is known, and need not be read again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::id::TaskId;
use windlass_core::port::state::TaskRow;
use windlass_core::time::Ms;

/// When so many are remembered, all are forgotten: some are of tasks that went elsewhere.
const ROWS_MAX: usize = 65_536;

/// Rows by their task.
pub(super) type Rows = HashMap<TaskId, Arc<Left>>;

/// A row as it was left here.
pub(super) struct Left {
    pub(super) row: TaskRow,
    /// It was its tenant's last to start then, and its fence the highest that had written. Whoever has written under a higher one since
    /// has marked the row.
    pub(super) leads: bool,
}

#[derive(Default)]
pub(crate) struct Known(Mutex<Rows>);

/// What tells one state of a row from any other.
pub(super) fn mark(row: &TaskRow) -> (u64, Ms) {
    (row.version, row.task.created_at)
}

impl Known {
    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of them that are known.
    pub(super) fn of<'t>(&self, tasks: impl IntoIterator<Item = &'t str>) -> Rows {
        let rows = self.rows();
        tasks
            .into_iter()
            .filter_map(|task| rows.get_key_value(task))
            .map(|(id, row)| (id.clone(), Arc::clone(row)))
            .collect()
    }

    /// What was written or taken. Rows without an owner are nobody's to write again soon.
    pub(super) fn note(&self, written: impl IntoIterator<Item = Left>) {
        let mut rows = self.rows();
        if rows.len() >= ROWS_MAX {
            rows.clear();
        }
        for left in written {
            let task = &left.row.task;
            match &task.owner {
                Some(_) => drop(rows.insert(task.id.clone(), Arc::new(left))),
                None => drop(rows.remove(&task.id)),
            }
        }
    }
}

/// Whether the task stands where it stood: what a plain boundary leaves alone.
pub(super) fn stays(before: &TaskRow, now: &TaskRow) -> bool {
    let (old, new) = (&before.task, &now.task);
    (old.status, old.fence, old.ready_at) == (new.status, new.fence, new.ready_at)
        && (old.started_at, old.ended_at) == (new.started_at, new.ended_at)
        && old.owner == new.owner
        && before.control == now.control
}
