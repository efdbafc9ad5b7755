//! Random sequences of calls: each is made on the store and on the [model](crate::model), and the
//! answers must agree. A sequence that fails is cut down to the shortest that still does.
//!
//! `WINDLASS_SEEDS` says how many sequences there are, `WINDLASS_SOAK=1` makes it twenty times as
//! many, and `WINDLASS_SEED` replays one.

mod call;
mod side;
mod text;
mod write;

use std::fmt::Debug;
use std::future::Future;

use crate::Harness;
use crate::harness::block_on;
use crate::model::Model;
use call::Call;
use side::Side;

pub(crate) use call::Dice;
pub(crate) use text::{GRAIN_MS, Scale, refusal};

/// Sequences, unless somebody says otherwise.
const SEEDS: u64 = 200;
/// Calls in one.
const CALLS: u32 = 60;
/// Runs that cutting down may take.
const CUTS_MAX: u32 = 500;

/// Where store and model differ.
pub(crate) struct Difference {
    pub(crate) call: String,
    pub(crate) store: String,
    pub(crate) model: String,
}

/// Compares the stores that `make` makes with the model, sequence by sequence.
pub fn compare<H, F>(make: impl Fn() -> F)
where
    H: Harness,
    F: Future<Output = H>,
{
    let sequence = |seed| call::sequence(&mut Dice::new(seed), CALLS);
    every_seed(sequence, async |calls: &[Call]| differ(&make, calls).await);
}

/// Makes a sequence for every seed and tries it; one that shows a difference is cut down and told.
pub(crate) fn every_seed<C: Clone + Debug>(
    sequence: impl Fn(u64) -> Vec<C>,
    differ: impl AsyncFn(&[C]) -> Option<Difference>,
) {
    let soak = if setting("WINDLASS_SOAK").is_some() { 20 } else { 1 };
    let seeds = match setting("WINDLASS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("WINDLASS_SEEDS").unwrap_or(SEEDS) * soak,
    };
    block_on(async {
        for seed in seeds {
            let calls = sequence(seed);
            if let Some(difference) = differ(&calls).await {
                let (calls, difference) = shortest(&differ, calls, difference).await;
                panic!("{}", report(seed, &calls, &difference));
            }
        }
    });
}

#[expect(clippy::disallowed_methods, reason = "a test's settings have no other way in")]
fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")))
}

/// Makes every call on a new store and on a new model; answers where they differ first.
async fn differ<H, F>(make: &impl Fn() -> F, calls: &[Call]) -> Option<Difference>
where
    H: Harness,
    F: Future<Output = H>,
{
    let (store, model) = (make().await, Model::default());
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

/// What is in one and not in the other.
pub(crate) fn without(these: &[String], those: &[String]) -> Vec<String> {
    these.iter().filter(|this| !those.contains(this)).cloned().collect()
}

/// Leaves out what can be left out: halves first, single calls last.
async fn shortest<C: Clone>(
    differ: &impl AsyncFn(&[C]) -> Option<Difference>,
    mut calls: Vec<C>,
    mut difference: Difference,
) -> (Vec<C>, Difference) {
    let mut cuts = 0;
    let mut size = calls.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < calls.len() && cuts < CUTS_MAX {
            let to = calls.len().min(from + size);
            let fewer: Vec<C> = [&calls[..from], &calls[to..]].concat();
            cuts += 1;
            match differ(&fewer).await {
                Some(still) => (calls, difference) = (fewer, still),
                None => from = to,
            }
        }
        size /= 2;
    }
    (calls, difference)
}

#[expect(clippy::disallowed_methods, reason = "cargo tells a test whose it is, for the command that replays it")]
fn report<C: Debug>(seed: u64, calls: &[C], difference: &Difference) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "<the store's crate>".to_owned());
    let Difference { call, store, model } = difference;
    let calls: String = calls.iter().map(|call| format!("  {call:?}\n")).collect();
    format!(
        "the store and the model differ\n\nthe shortest sequence found:\n{calls}\nat: {call}\n\n\
         the store: {store}\n\nthe model: {model}\n\n\
         again: WINDLASS_SEED={seed} cargo nextest run -p {package} random\n"
    )
}
