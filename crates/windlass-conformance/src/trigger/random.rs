//! Random sequences of calls: each is made on the store and on the [model](super::model), and the answers must agree. The
//! settings are those of [`crate::random`].

mod call;
mod side;

use std::future::Future;

use super::TriggerHarness;
use super::model::TriggerModel;
use crate::random::{Dice, Difference, every_seed, without};
use call::Call;
use side::Side;

/// Calls in a sequence.
const CALLS: u32 = 60;

/// Compares the stores that `make` makes with the model, sequence by sequence.
pub fn compare<H, F>(make: impl Fn() -> F)
where
    H: TriggerHarness,
    F: Future<Output = H>,
{
    let sequence = |seed| call::sequence(&mut Dice::new(seed), CALLS);
    every_seed(sequence, async |calls: &[Call]| differ(&make, calls).await);
}

/// Makes every call on a new store and on a new model; answers where they differ first.
async fn differ<H, F>(make: &impl Fn() -> F, calls: &[Call]) -> Option<Difference>
where
    H: TriggerHarness,
    F: Future<Output = H>,
{
    let (store, model) = (make().await, TriggerModel::default());
    let (mut store, mut model) = (Side::new(&store).await, Side::new(&model).await);
    for call in calls {
        let (store, model) = (store.make(call).await, model.make(call).await);
        if store != model {
            return Some(Difference { call: format!("{call:?}"), store, model });
        }
    }
    let (store, model) = (store.everything().await, model.everything().await);
    let (store, model) = (without(&store, &model), without(&model, &store));
    if store.is_empty() && model.is_empty() {
        return None;
    }
    Some(Difference { call: "everything at the end".to_owned(), store: store.join("\n"), model: model.join("\n") })
}
