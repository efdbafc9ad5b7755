//! The contract of jobs, run on its own model.

mod spoiled;

use windlass_conformance::job::model::JobModel;

async fn make() -> JobModel {
    JobModel::default()
}

windlass_conformance::job_suite!(make);
