//! Which rows some steps are about: what a store locks and reads before they are judged.

use std::collections::{BTreeSet, HashMap};

use super::World;
use crate::id::TaskId;
use crate::port::state::{Step, Writer};

/// What has to be read for some steps, each set in the order in which everybody locks.
#[derive(Debug, Default)]
pub struct Needs {
    /// Plans that are named.
    pub plans: BTreeSet<String>,
    /// Tasks.
    pub tasks: BTreeSet<String>,
    /// Tasks that are put: their tenants are needed, as stored.
    pub put: BTreeSet<String>,
    /// Tenants that are named.
    pub tenants: BTreeSet<String>,
    /// Operations of people.
    pub ops: BTreeSet<String>,
    /// Tasks whose plan, as stored, must be there and stay.
    pub plan_tasks: BTreeSet<String>,
    /// Some plan is written, not only asked to be there.
    pub writes_plans: bool,
    /// Whether the owner of a task lives decides something: its owner's own steps go by who it is alone, and who refuses
    /// them says until when it lives.
    pub leases: bool,
}

impl Needs {
    /// Of these.
    #[must_use]
    pub fn of<'s>(steps: impl IntoIterator<Item = &'s Step>) -> Needs {
        let mut needs = Needs::default();
        for step in steps {
            needs.add(step);
        }
        needs
    }

    /// This one's too.
    pub fn add(&mut self, step: &Step) {
        let is_person = matches!(step.by, Writer::Person(_));
        self.leases |= is_person && !step.tasks.is_empty() || step.ask.is_some();
        if is_person {
            self.ops.insert(step.op.id.to_string());
        }
        if let Some(put) = &step.plan {
            self.plans.insert(put.plan.id.to_string());
            self.writes_plans = true;
        }
        for one in &step.tasks {
            self.tasks.insert(one.task.id.to_string());
            self.tenants.insert(one.task.tenant.to_string());
            if !one.from.is_empty() {
                self.put.insert(one.task.id.to_string());
            }
            if is_person || one.from.is_empty() {
                self.plans.insert(one.task.plan.to_string());
                self.plan_tasks.insert(one.task.id.to_string());
                // A plan that gets tasks keeps their names.
                self.writes_plans |= one.from.is_empty();
            }
        }
        if let Some(ask) = &step.ask {
            self.tasks.insert(ask.task.to_string());
            self.plan_tasks.insert(ask.task.to_string());
        }
        for event in &step.events {
            match &event.task {
                Some(task) => drop(self.tasks.insert(task.to_string())),
                None => {
                    self.writes_plans = true;
                    self.plans.insert(event.plan.to_string());
                }
            }
        }
    }

    /// For a store that cannot ask for the plan of a task in the same trip: the plans that the events of requests name, which
    /// are those of their tasks unless somebody is wrong; [`Needs::widen`] tells.
    pub fn guess(&mut self, steps: &[&Step]) {
        let mut plans: HashMap<&TaskId, &str> = HashMap::new();
        for event in steps.iter().flat_map(|step| &step.events) {
            plans.extend(event.task.as_ref().map(|task| (task, event.plan.as_str())));
        }
        let asked = steps.iter().filter_map(|step| step.ask.as_ref());
        self.plans.extend(asked.filter_map(|ask| plans.get(&ask.task)).map(|plan| (*plan).to_owned()));
    }

    /// Adds the plans and tenants of what was read, as stored; false if all of them were asked for.
    pub fn widen(&mut self, world: &World) -> bool {
        let before = self.plans.len() + self.tenants.len();
        for (id, entry) in &world.tasks {
            let task = &entry.row.task;
            if self.plan_tasks.contains(id.as_str()) {
                self.plans.insert(task.plan.to_string());
            }
            if self.put.contains(id.as_str()) {
                self.tenants.insert(task.tenant.to_string());
            }
        }
        self.plans.len() + self.tenants.len() > before
    }
}
