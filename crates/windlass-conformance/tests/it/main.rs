//! The contract, run on its own model: that is how the scenarios are checked before a store exists.

mod jobs;
mod spoiled;
mod triggers;

use windlass_conformance::model::Model;

async fn make() -> Model {
    Model::default()
}

windlass_conformance::suite!(make);
