//! Whether an instance may take a task by its name.

use std::collections::HashMap;

use crate::id::InstanceId;
use crate::port::Refusal;
use crate::port::state::TaskRow;
use crate::task::status::TaskStatus;
use crate::time::Ms;

/// Whether the task may be taken by name; false if it is this instance's already. `leases` says until when owners live.
pub fn may_take(row: &TaskRow, me: &InstanceId, leases: &HashMap<InstanceId, Ms>, now: Ms) -> Result<bool, Refusal> {
    if let Some(owner) = &row.task.owner {
        let until = leases.get(owner).copied().unwrap_or(Ms::ZERO);
        match () {
            () if owner == me => return Ok(false),
            () if until > now => return Err(Refusal::Owned { owner: Some(owner.clone()), until }),
            () => {}
        }
    }
    let status = row.task.status;
    match row.control.start.is_some() || status == TaskStatus::Pending || status.is_running() {
        true => Ok(true),
        false => Err(Refusal::State { status: status.name(), expected: "something to run".to_owned() }),
    }
}
