//! A tenant's task that another of the same tenant is about to overtake.

use super::{Attempt, Rival};
use crate::world::step::{self, Draft};
use windlass_core::port::state::Step;

/// Who is about to be overtaken, what it writes then, and the step that overtakes it.
#[expect(missing_docs, reason = "said above")]
pub struct Overtaken {
    pub attempt: Attempt,
    pub late: Step,
    pub begins: Step,
}

impl Overtaken {
    /// Of two plans for one tenant: the first has done a stage, the second holds the lock.
    pub async fn by(one: &Rival, [first, second]: [&str; 2]) -> Overtaken {
        let (first, second) = (Draft::new(first, &["acme"]).stages(6), Draft::new(second, &["acme"]));
        one.run(&first).await;
        one.run(&second).await;
        let attempt = one.begin(&first.task(0)).await;
        one.stage(&attempt).await;
        let late = one.boundary(&attempt).await;
        one.release(&attempt.held()).await.expect("it holds it");
        let row = one.take(&second.task(0)).await.expect("nobody has it");
        let fence = one.acquire("acme", row.task.id.as_str(), 30_000).await.expect("it was released").fence;
        let next = Attempt { task: row.task.id.clone(), fence, ..attempt.clone() };
        Overtaken { late, begins: step::begins("overtakes", &row, &next), attempt }
    }
}
