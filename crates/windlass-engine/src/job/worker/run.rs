//! One job, run once: its time, its panics and its errors become an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::job::error::{ERROR_DEPTH_MAX, TIMEOUT};
use windlass_core::job::rules::{Outcome, check_result};
use windlass_core::job::{Job, JobError};

use super::{Failed, JobHandler, Told};

/// Runs `job` once. Its time runs since it was claimed, which was so long ago.
pub(super) async fn once(handler: Arc<dyn JobHandler>, job: Job, waited: Duration, spread: u16) -> Outcome {
    let told = Told {
        job: job.id,
        queue: job.queue,
        payload: job.payload,
        tenant: job.tenant,
        attempt: job.attempt,
        fence: job.fence,
    };
    let work = AssertUnwindSafe(handler.run(told)).catch_unwind();
    let ended = match job.timeout_ms {
        None => Some(work.await),
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms).saturating_sub(waited), work).await.ok(),
    };
    let failed = |error: JobError, retry| Outcome::Failed { error: Box::new(error.cut()), retry, spread };
    match ended {
        None => failed(JobError::of(TIMEOUT, format!("took longer than {} ms", job.timeout_ms.unwrap_or(0))), true),
        Some(Ok(Ok(result))) => match check_result(&result) {
            Ok(()) => Outcome::Completed(result),
            Err(why) => failed(JobError::of("RESULT", why.to_string()), false),
        },
        Some(Ok(Err(Failed { error, again }))) => failed(error, again),
        Some(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("the handler panicked");
            failed(JobError { class: "panic".into(), ..JobError::of("PANIC", text) }, true)
        }
    }
}

/// An error of Rust with its causes, the innermost left out beyond the bound.
pub(super) fn told(error: &dyn std::error::Error) -> JobError {
    let chain: Vec<_> = std::iter::successors(Some(error), |error| error.source()).take(ERROR_DEPTH_MAX).collect();
    let mut whole: Option<JobError> = None;
    for error in chain.into_iter().rev() {
        let previous = whole.map(Box::new);
        whole = Some(JobError { message: error.to_string(), previous, ..JobError::default() });
    }
    whole.unwrap_or_default()
}
