//! Stages that tests command: what ran is written down, what shall fail or wait is said beforehand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use windlass_core::json::Json;
use windlass_engine::stage::{Told, Trouble};

use crate::world::PATIENCE;

/// What stages did, and what they shall do. A stage is `tenant/stage`; `undo tenant/stage` is its undo action.
#[derive(Default)]
pub(crate) struct Script {
    /// `tenant/stage/pass config`, in order.
    ran: Mutex<Vec<String>>,
    fails: Mutex<BTreeSet<String>>,
    gates: Mutex<BTreeSet<String>>,
    outputs: Mutex<BTreeMap<String, Json>>,
    inside: Mutex<Inside>,
    opened: Notify,
    entered: Notify,
}

/// How many stages run at once, by plan, and the most there ever were.
#[derive(Default)]
struct Inside {
    now: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
}

/// One stage that is being run; left when it ends, and when it is dropped.
struct Visit<'a>(&'a Script, String);

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        *self.0.inside.lock().unwrap().now.get_mut(&self.1).unwrap() -= 1;
    }
}

impl Script {
    pub(crate) async fn run(self: Arc<Self>, told: Told, verb: &'static str) -> Result<Option<Json>, Trouble> {
        let _visit = self.enter(&told);
        let at = format!("{verb}{}/{}", told.tenant, told.stage);
        let config = told.config.as_ref().map_or_else(String::new, |config| format!(" {config}"));
        self.ran.lock().unwrap().push(format!("{at}/{}{config}", told.pass));
        self.entered.notify_waiters();
        // Others get their turn, as they would while a real stage waits for its target.
        tokio::task::yield_now().await;
        loop {
            let opened = self.opened.notified();
            if !self.gates.lock().unwrap().contains(&at) {
                break;
            }
            opened.await;
        }
        match self.fails.lock().unwrap().contains(&at) {
            true => Err(Trouble::stage("it was told to fail")),
            false => Ok(Some(self.output(&at))),
        }
    }

    fn enter(&self, told: &Told) -> Visit<'_> {
        let plan = told.plan.to_string();
        let mut inside = self.inside.lock().unwrap();
        let now = *inside.now.entry(plan.clone()).and_modify(|n| *n += 1).or_insert(1);
        let most = inside.most.entry(plan.clone()).or_default();
        *most = now.max(*most);
        Visit(self, plan)
    }

    fn output(&self, at: &str) -> Json {
        let given = self.outputs.lock().unwrap().get(at).cloned();
        given.unwrap_or_else(|| Json::parse(&format!("{{\"by\":\"{at}\"}}")).unwrap())
    }

    pub(crate) fn fail(&self, at: &str) {
        self.fails.lock().unwrap().insert(at.to_owned());
    }

    pub(crate) fn heal(&self, at: &str) {
        self.fails.lock().unwrap().remove(at);
    }

    /// The stage waits until it is let go.
    pub(crate) fn shut(&self, at: &str) {
        self.gates.lock().unwrap().insert(at.to_owned());
    }

    pub(crate) fn let_go(&self, at: &str) {
        self.gates.lock().unwrap().remove(at);
        self.opened.notify_waiters();
    }

    /// The stage returns this.
    pub(crate) fn returns(&self, at: &str, json: Json) {
        self.outputs.lock().unwrap().insert(at.to_owned(), json);
    }

    /// The most stages of this plan that ran at once.
    pub(crate) fn most_at_once(&self, plan: &windlass_core::id::PlanId) -> usize {
        self.inside.lock().unwrap().most.get(plan.as_str()).copied().unwrap_or(0)
    }

    /// What ran since the last look.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.ran.lock().unwrap())
    }

    /// What ran for this tenant since the last look that took it away.
    pub(crate) fn of(&self, tenant: &str) -> Vec<String> {
        let ran = self.ran.lock().unwrap();
        ran.iter().filter(|ran| ran.contains(&format!("{tenant}/"))).cloned().collect()
    }

    /// Waits until the stage has begun.
    pub(crate) async fn entered(&self, at: &str) {
        let begun = async {
            loop {
                let entered = self.entered.notified();
                if self.ran.lock().unwrap().iter().any(|ran| ran.starts_with(&format!("{at}/"))) {
                    return;
                }
                entered.await;
            }
        };
        tokio::time::timeout(PATIENCE, begun).await.unwrap_or_else(|_| panic!("{at} did not begin"));
    }
}
