//! A job on a queue, and its result: how a worker in any language is a stage.

use std::time::Duration;

use windlass_core::failure::FailureKind;
use windlass_core::id::JobId;
use windlass_core::job::{JobStatus, NewJob};
use windlass_core::stage;

use super::template::Rendering;
use super::{Ended, Told, Trouble, Yield};
use crate::command::Caller;
use crate::error::Error;
use crate::job::handle::{JobFailed, outcome};
use crate::job::{Handle, Queues, Waited};

pub(super) async fn run(
    queues: Option<&Queues>,
    job: &stage::Job,
    told: &Told,
    rendering: Rendering<'_>,
    stop: &mut Yield,
) -> Result<Ended, Trouble> {
    let queues = queues.ok_or_else(|| Trouble::hopeless(FailureKind::Stage, NO_STORE))?;
    let payload = rendering.json("payload", &job.payload)?;
    drop(rendering);
    let mut new = queues.job(job.queue.clone(), Some(payload));
    new.tenant = Some(told.tenant.clone());
    // The same stage with the same payload is the same job, also after a crash; another payload is another job.
    let key = format!("{}/{:016x}", told.idempotency_key(), new.digest());
    let handle = given(queues, new, &key).await.map_err(trouble)?;
    stop.job = Some(handle.id());
    let waited = tokio::select! { biased;
        waited = handle.wait(None) => waited,
        () = stop.unwanted() => {
            abandon(queues, handle.id()).await;
            stop.job = None;
            return Ok(Ended::Yielded);
        }
    };
    stop.job = None;
    match waited.map_err(trouble)? {
        Waited::Ended(job) => match outcome(&job) {
            Ok(result) => Ok(Ended::Done(Some(result))),
            Err(failed @ JobFailed::Cancelled) => {
                Err(Trouble::hopeless(FailureKind::Stage, format!("job {}: {failed}", job.id)))
            }
            Err(failed) => Err(Trouble::stage(format!("job {}: {failed}", job.id))),
        },
        Waited::TimedOut => Err(Trouble::stage("the job did not end".to_owned())),
    }
}

/// How long the store has to take a cancellation that nobody waits for.
const ABANDON: Duration = Duration::from_secs(5);

/// Nobody wants a stage's job any more: it is cancelled if it can be. If that is not heard, it goes on, and nobody minds
/// its result.
pub(super) async fn abandon(queues: &Queues, job: JobId) {
    let Ok(by) = crate::ENGINE.parse() else { return };
    let caller = Caller::new(by);
    match tokio::time::timeout(ABANDON, queues.cancel(job, &caller)).await {
        Ok(Ok(_)) => {}
        Ok(Err(why)) => tracing::warn!(%job, %why, "a job that nobody waits for goes on"),
        Err(_) => tracing::warn!(%job, "a job that nobody waits for goes on: the store does not answer"),
    }
}

/// Why a job or a trigger cannot be.
pub(crate) const NO_STORE: &str = "this instance has no store for jobs or triggers (WL-5006)";

/// The stage's job. A stage that is tried again, or run again after a retry, meets its job of before: if that is dead, it
/// is given another chance; if it was cancelled, which is for good, another one takes its place.
async fn given(queues: &Queues, mut new: NewJob, key: &str) -> Result<Handle, Error> {
    let mut cancelled = 0u32;
    loop {
        new.key = Some(if cancelled == 0 { key.to_owned() } else { format!("{key}/{cancelled}") });
        let handle = queues.submit(new.clone()).await?;
        if !handle.is_old() {
            return Ok(handle);
        }
        match handle.now().await?.status {
            JobStatus::Cancelled => {
                cancelled += 1;
                new.id = queues.new_id();
            }
            JobStatus::Failed => {
                let by = crate::ENGINE.parse().map_err(|_| Error::Invalid("the engine has no name".to_owned()))?;
                // Somebody else may have requeued it in between: then it is not FAILED any more, and that is as good.
                return match queues.requeue(handle.id(), &Caller::new(by)).await {
                    Ok(_) | Err(Error::Store(_)) => Ok(handle),
                    Err(error) => Err(error),
                };
            }
            _ => return Ok(handle),
        }
    }
}

fn trouble(error: Error) -> Trouble {
    match error {
        // What was asked for will not become right by itself.
        Error::Invalid(_) | Error::Store(windlass_core::port::Refusal::Invalid(_)) => {
            Trouble::hopeless(FailureKind::Stage, error.to_string())
        }
        error => Trouble::stage(error.to_string()),
    }
}
