//! What runs by itself: attempts, and the loops that hand them out, keep their leases, and see plans
//! to their end.

pub(crate) mod attempt;
pub(crate) mod dispatch;
pub(crate) mod janitor;
pub(crate) mod lease;
mod ledger;
pub(crate) mod plan;
mod stages;
pub(crate) mod standing;
mod stranger;
pub(crate) mod work;
pub(crate) mod writing;

pub(crate) use dispatch::pause;
