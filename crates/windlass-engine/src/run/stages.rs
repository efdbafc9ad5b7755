//! One stage of an attempt: run, timed, tried again, and what its end means.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::event::{At, Fact};
use windlass_core::failure::{Failure, FailureKind};
use windlass_core::fence::Fence;
use windlass_core::json::Json;
use windlass_core::stage::{Action, Stage};
use windlass_core::task::Cause;
use windlass_core::task::advance::{Outcome, ended};
use windlass_core::task::status::TaskStatus;

use super::attempt::{Attempt, NOT_ITS_OWN, Stop};
use crate::shared::Counts;
use crate::stage::actions::Running;
use crate::stage::{Ended, Signal, Signals, Told, Trouble, Yield};

/// How one run of a stage ended.
enum Ran {
    Done(Option<Json>, u64),
    Skipped,
    Failed(Failure),
    /// It waited and was asked to stop; before that it may have failed.
    Yielded(Option<Failure>),
    ApprovalWanted(String),
}

impl Attempt {
    /// Runs the stage; answers what has happened with it.
    pub(super) async fn stage(&mut self, at: &At) -> Result<Vec<Fact>, Stop> {
        let work = std::sync::Arc::clone(&self.job.work);
        let Some(stage) = work.stages.get(at.index as usize) else {
            return Err(Stop::Broken(format!("there is no stage {}", at.index)));
        };
        let outcome = match self.run_stage(stage, at).await? {
            Ran::Done(output, took_ms) => match self.keep(stage, output.as_ref(), took_ms) {
                Ok(()) => Outcome::Completed { took_ms },
                Err(why) => Outcome::Failed(self.failure(FailureKind::Persistence, &why, at)),
            },
            Ran::Skipped => Outcome::Skipped,
            Ran::ApprovalWanted(message) => Outcome::ApprovalWanted { message },
            Ran::Yielded(failure) => return self.yielded(at, failure),
            Ran::Failed(_) if self.is_skipped(at) => Outcome::Skipped,
            Ran::Failed(failure) => Outcome::Failed(failure),
        };
        if matches!(outcome, Outcome::Completed { .. }) {
            Counts::add(&self.engine.counts.stages);
        }
        Ok(ended(&self.task, at.clone(), outcome))
    }

    async fn run_stage(&mut self, stage: &Stage, at: &At) -> Result<Ran, Stop> {
        let rolling = self.task.status == TaskStatus::RollingBack;
        let action = match (&stage.undo, rolling && self.job.work.reverse) {
            (Some(undo), true) => undo,
            (None, true) => return Ok(Ran::Skipped),
            (_, false) => &stage.action,
        };
        // Nobody is asked whether to take back what somebody decided to take back.
        if rolling && matches!(action, Action::Approval(_)) {
            return Ok(Ran::Skipped);
        }
        if let Some(when) = &stage.when {
            match self.engine.actions.when(when, &self.told(at, rolling)) {
                Ok(true) => {}
                Ok(false) => return Ok(Ran::Skipped),
                Err(trouble) => return Ok(Ran::Failed(self.failure(trouble.kind, &trouble.message, at))),
            }
        }
        let mut stop = Yield::new(self.signal.clone(), rolling, at.index);
        let mut tried = 0;
        loop {
            let began = Instant::now();
            let trouble = match self.once(stage.timeout_ms, action, self.told(at, rolling), &mut stop).await? {
                Ok(Ended::Done(output)) => {
                    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    return Ok(Ran::Done(output, took_ms));
                }
                Ok(Ended::Yielded) => return Ok(Ran::Yielded(None)),
                Ok(Ended::ApprovalWanted(message)) => return Ok(Ran::ApprovalWanted(message)),
                Err(trouble) => trouble,
            };
            tried += 1;
            // Nobody waits for its job any more; the next try finds it ended.
            if let Some(job) = stop.left() {
                // On the heap: a task that only waits needs no room for it.
                Box::pin(self.engine.actions.abandon(job)).await;
            }
            let failure = self.failure(trouble.kind, &trouble.message, at);
            let delay = stage.retry.delay_ms(tried, self.engine.jitter()).filter(|_| trouble.again);
            let Some(delay) = delay else { return Ok(Ran::Failed(failure)) };
            tracing::debug!(task = %self.task.id, stage = %at.stage, tried, delay, "the stage is tried again");
            if !self.back_off(delay, &mut stop).await? {
                return Ok(Ran::Yielded(Some(failure)));
            }
        }
    }

    /// One try, within its time; dropped at once when somebody else owns the task.
    fn once<'a>(
        &'a self,
        limit_ms: u64,
        action: &'a Action,
        told: Told,
        stop: &'a mut Yield,
    ) -> impl Future<Output = Result<Result<Ended, Trouble>, Stop>> + Send + 'a {
        // Not in the future: whatever runs keeps what it needs of this, and nobody else does while it waits.
        let run = self.engine.actions.run(action, told, stop);
        within(limit_ms, run, &self.signal, self.fence)
    }

    /// Waits; `false` if somebody wants the task to stop here.
    async fn back_off(&mut self, delay_ms: u64, stop: &mut Yield) -> Result<bool, Stop> {
        tokio::select! {
            biased;
            stop = lost(&self.signal, self.fence) => Err(stop),
            () = stop.wanted() => Ok(false),
            () = tokio::time::sleep(Duration::from_millis(delay_ms)) => Ok(true),
        }
    }

    fn told(&self, at: &At, rolling: bool) -> Told {
        let spec = &self.job.spec;
        let config = match rolling && !self.job.work.reverse {
            true => spec.previous.clone(),
            false => spec.config.clone(),
        };
        Told {
            plan: self.task.plan.clone(),
            task: self.task.id.clone(),
            tenant: self.task.tenant.clone(),
            stage: at.stage.clone(),
            attempt: self.task.attempt.map_or(0, |attempt| attempt.number),
            pass: self.task.pass,
            fence: self.fence,
            config,
            previous: spec.previous.clone(),
            context: self.context(),
        }
    }

    /// What the stage returned enters the context: of the checkpoint, or, in a rollback, of this
    /// attempt only.
    fn keep(&mut self, stage: &Stage, output: Option<&Json>, took_ms: u64) -> Result<(), String> {
        let kept = match self.task.status {
            TaskStatus::RollingBack => {
                let mut scratch = (*self.checkpoint).clone();
                scratch.complete(&stage.name, output, took_ms).map(|()| {
                    self.checkpoint.context_data = scratch.context_data;
                })
            }
            _ => self.checkpoint.complete(&stage.name, output, took_ms),
        };
        kept.map_err(|bad| bad.to_string())
    }

    fn is_skipped(&self, at: &At) -> bool {
        self.signal.look(|signal| signal.control().skip.as_ref().is_some_and(|skip| skip.stage == at.index))
    }

    /// The stage stopped waiting because somebody wanted it to.
    fn yielded(&self, at: &At, failure: Option<Failure>) -> Result<Vec<Fact>, Stop> {
        let control = self.signal.look(Signal::wanted);
        let halt = match (&control.cancel, &control.pause) {
            (Some(hold), _) => Fact::TaskCancelled { cause: hold.cause },
            (None, Some(hold)) => Fact::TaskPaused { cause: hold.cause },
            (None, None) if self.is_skipped(at) => return Ok(vec![Fact::StageSkipped(at.clone())]),
            (None, None) if self.signal.look(|signal| signal.leaving) => return Err(Stop::Leaving),
            // Taken back in the same moment: it pauses all the same, where it was asked to.
            (None, None) => Fact::TaskPaused { cause: Cause::Person },
        };
        // A stage that has failed once may have done something: that is not forgotten.
        let failed = failure.map(|failure| Fact::StageFailed { at: at.clone(), failure });
        Ok(failed.into_iter().chain([halt]).collect())
    }
}

async fn within(
    limit_ms: u64,
    run: Running<'_>,
    signal: &Signals,
    fence: Fence,
) -> Result<Result<Ended, Trouble>, Stop> {
    let run = tokio::time::timeout(Duration::from_millis(limit_ms), run);
    tokio::select! {
        biased;
        ran = run => Ok(ran.unwrap_or_else(|_| {
            let message = format!("it took longer than its {limit_ms} ms");
            Err(Trouble { kind: FailureKind::Timeout, message, again: true })
        })),
        stop = lost(signal, fence) => Err(stop),
    }
}

/// Ends when the task is not this attempt's any more.
async fn lost(signal: &Signals, fence: Fence) -> Stop {
    signal.until(|signal| signal.is_lost(fence)).await;
    Stop::Lost(NOT_ITS_OWN.to_owned())
}
