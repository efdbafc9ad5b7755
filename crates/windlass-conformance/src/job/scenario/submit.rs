//! Submissions.

use windlass_core::id::JobId;
use windlass_core::job::NewJob;

use crate::job::JobHarness;
use crate::world::id;

/// Everything that was given comes back.
pub async fn a_submitted_job_is_read_back_as_it_was_given(h: &dyn JobHarness) {
    let jobs = h.open_jobs(0).await;
    let new = NewJob::new(JobId::random(1), id("mail"), None);
    let answers = jobs.submit(&[vec![new.clone()]]).await.expect("submit");
    assert!(matches!(&answers[..], [Ok(made)] if made[0].id == new.id && !made[0].existing), "{answers:?}");
    let stored = jobs.load(&[new.id]).await.expect("load");
    assert!(matches!(&stored[..], [Some(job)] if job.id == new.id), "{stored:?}");
}
