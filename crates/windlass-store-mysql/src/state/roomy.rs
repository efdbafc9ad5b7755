//! Plans that have a slot for each of their tasks: nothing of theirs ever waits for one that becomes free. How many tasks and slots a
//! plan has does not change while it lives, and whoever ends a task of it has taken it first.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use windlass_core::id::PlanId;
use windlass_core::plan::Plan;

/// When so many are remembered, all are forgotten: most have ended.
const PLANS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Roomy(Mutex<HashSet<PlanId>>);

impl Roomy {
    /// Something of the plan was taken here.
    pub(super) fn note(&self, plan: &Plan) {
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if plan.is_short_of_slots() {
            // Its id may have been another's before.
            plans.remove(&plan.id);
        } else if !plans.contains(&plan.id) {
            if plans.len() >= PLANS_MAX {
                plans.clear();
            }
            plans.insert(plan.id.clone());
        }
    }

    /// Whether one of these is not known to have room for all of its tasks.
    pub(super) fn lacks_one_of(&self, plans: &BTreeSet<PlanId>) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        plans.iter().any(|plan| !known.contains(plan))
    }
}
