//! Steps of state as pure functions, for stores that lock and read rows, judge them here and write what changed: what some
//! steps are about (`needs`), the rows of it (`world`), whether a step may be written (`judge`), and what it writes
//! (`apply`); and whether a task may be taken (`take`).

mod apply;
mod judge;
mod needs;
mod take;
mod world;

pub use needs::Needs;
pub use take::may_take;
pub use world::{OpEntry, PlanEntry, Saved, TaskEntry, TenantEntry, World};
