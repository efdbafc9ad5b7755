//! How plans stand, for attempts that begin. Hundreds begin at once, mostly of few plans: while one look at the store is under
//! way the next gather, and each look is one call for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::id::PlanId;
use windlass_core::port::PortError;
use windlass_core::port::state::{Key, PlanRow, Row};

use crate::shared::{Counts, Shared, locked};

/// Plans in one look, at most.
const PLANS_MAX: usize = 500;

type Reply = oneshot::Sender<Result<Option<PlanRow>, PortError>>;

/// Who waits for a look.
#[derive(Default)]
pub(crate) struct Standing {
    waiting: BTreeMap<PlanId, Vec<Reply>>,
    under_way: bool,
}

impl Standing {
    /// The next look is for these; without any, nobody looks any more.
    fn next(&mut self) -> BTreeMap<PlanId, Vec<Reply>> {
        let rest = self.waiting.keys().nth(PLANS_MAX).cloned().map(|first| self.waiting.split_off(&first));
        let these = std::mem::replace(&mut self.waiting, rest.unwrap_or_default());
        self.under_way = !these.is_empty();
        these
    }
}

impl Shared {
    /// The plan as it stands in the store, at some moment after this was asked.
    pub(crate) async fn plan_now(self: &Arc<Self>, plan: &PlanId) -> Result<Option<PlanRow>, PortError> {
        let (reply, answer) = oneshot::channel();
        let begins = {
            let mut standing = locked(&self.standing);
            standing.waiting.entry(plan.clone()).or_default().push(reply);
            !std::mem::replace(&mut standing.under_way, true)
        };
        if begins {
            self.spawn(look(Arc::clone(self)));
        }
        answer.await.unwrap_or_else(|_| Err(PortError::Unavailable("the engine has ended".to_owned())))
    }

    /// An answer for each of these plans.
    async fn plans_now(&self, plans: &[PlanId]) -> Vec<Result<Option<PlanRow>, PortError>> {
        let keys: Vec<_> = plans.iter().cloned().map(Key::Plan).collect();
        Counts::add(&self.counts.calls);
        match self.state.load(&keys).await {
            Ok(rows) => {
                let plan = |row| match row {
                    Some(Row::Plan(row)) => Some(row),
                    _ => None,
                };
                rows.into_iter().map(|row| Ok(plan(row))).collect()
            }
            Err(error) => plans.iter().map(|_| Err(error.clone())).collect(),
        }
    }
}

/// Looks until nobody waits.
async fn look(engine: Arc<Shared>) {
    loop {
        // Those who were answered together ask together.
        tokio::task::yield_now().await;
        let waiting = locked(&engine.standing).next();
        if waiting.is_empty() {
            return;
        }
        let plans: Vec<_> = waiting.keys().cloned().collect();
        let rows = engine.plans_now(&plans).await;
        for ((plan, replies), row) in waiting.into_iter().zip(rows) {
            // What cannot be read is its own plan's trouble alone.
            let row = match row {
                Err(PortError::Invalid(_) | PortError::Corrupt(_)) if plans.len() > 1 => {
                    engine.plans_now(std::slice::from_ref(&plan)).await.remove(0)
                }
                row => row,
            };
            // Whoever has stopped meanwhile does not miss it.
            replies.into_iter().for_each(|reply| drop(reply.send(row.clone())));
        }
    }
}
