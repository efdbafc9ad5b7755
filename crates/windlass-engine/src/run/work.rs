//! What a task's attempt carries out: its stages. Tasks of one plan share theirs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use windlass_core::id::{PlanId, StageName, TaskId};
use windlass_core::plan::spec::{PlanSpec, TaskSpec};
use windlass_core::port::PortError;
use windlass_core::port::state::{Key, Row};
use windlass_core::stage::Stage;

use crate::shared::{Shared, locked};

/// The stages of a task.
pub(crate) struct Work {
    pub(crate) stages: Vec<Stage>,
    pub(crate) names: Vec<StageName>,
    /// A rollback runs `undo` actions, the last stage first.
    pub(crate) reverse: bool,
}

impl Work {
    fn of(stages: &[Stage]) -> Work {
        Work {
            stages: stages.to_vec(),
            names: stages.iter().map(|stage| stage.name.clone()).collect(),
            reverse: stages.iter().any(|stage| stage.undo.is_some()),
        }
    }
}

/// A plan's settings and the stages that its tasks share.
pub(crate) struct Known {
    pub(crate) id: PlanId,
    pub(crate) spec: PlanSpec,
    pub(crate) work: Arc<Work>,
}

/// Plans that were looked at lately. What a plan asks for does not change, so a kept one is never stale.
#[derive(Default)]
pub(crate) struct Works(Mutex<BTreeMap<PlanId, Arc<Known>>>);

/// Plans kept.
const KNOWN_MAX: usize = 1_000;

/// A task's own part and its stages.
pub(crate) struct Job {
    pub(crate) spec: TaskSpec,
    pub(crate) work: Arc<Work>,
    pub(crate) plan: Arc<Known>,
}

impl Shared {
    /// What these plans ask for; `None` for one that is gone.
    pub(crate) async fn known(&self, plans: &[PlanId]) -> Result<Vec<Option<Arc<Known>>>, PortError> {
        let mut found: BTreeMap<PlanId, Arc<Known>> = {
            let known = locked(&self.works.0);
            plans.iter().filter_map(|plan| Some((plan.clone(), Arc::clone(known.get(plan)?)))).collect()
        };
        let mut missing: Vec<_> = plans.iter().filter(|plan| !found.contains_key(*plan)).cloned().collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let keys: Vec<_> = missing.iter().cloned().map(Key::PlanSpec).collect();
            let rows = self.state.load(&keys).await?;
            let mut known = locked(&self.works.0);
            // What this call needs is in `found` already: forgetting it here costs a load later, nothing else.
            while known.len() + missing.len() > KNOWN_MAX && known.pop_first().is_some() {}
            for (plan, row) in missing.into_iter().zip(rows) {
                if let Some(Row::PlanSpec(spec)) = row {
                    let work = Arc::new(Work::of(&spec.stages));
                    let new = Arc::new(Known { id: plan.clone(), spec, work });
                    known.insert(plan.clone(), Arc::clone(&new));
                    found.insert(plan, new);
                }
            }
        }
        Ok(plans.iter().map(|plan| found.get(plan).cloned()).collect())
    }

    /// What these tasks carry out; `None` for one that is gone.
    pub(crate) async fn jobs(&self, tasks: &[(TaskId, PlanId)]) -> Result<Vec<Option<Job>>, PortError> {
        let plans: Vec<_> = tasks.iter().map(|(_, plan)| plan.clone()).collect();
        let keys: Vec<_> = tasks.iter().map(|(task, _)| Key::TaskSpec(task.clone())).collect();
        let known = self.known(&plans).await?;
        let specs = self.state.load(&keys).await?;
        let job = |(known, spec)| match (known, spec) {
            (Some(plan), Some(Row::TaskSpec(spec))) => Some(Job::of(spec, plan)),
            _ => None,
        };
        Ok(known.into_iter().zip(specs).map(job).collect())
    }
}

impl Job {
    fn of(spec: TaskSpec, plan: Arc<Known>) -> Job {
        let work = match &spec.stages {
            Some(stages) => Arc::new(Work::of(stages)),
            None => Arc::clone(&plan.work),
        };
        Job { spec, work, plan }
    }

    /// Whether a rollback has something to work with.
    pub(crate) fn can_take_back(&self) -> bool {
        self.work.reverse || self.spec.previous.is_some()
    }
}
