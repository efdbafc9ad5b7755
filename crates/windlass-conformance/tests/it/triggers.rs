//! The contract of triggers, run on its own model.

use windlass_conformance::trigger::model::TriggerModel;

async fn make() -> TriggerModel {
    TriggerModel::default()
}

windlass_conformance::trigger_suite!(make);
