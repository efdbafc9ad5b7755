//! What an occurrence does. Its key is the trigger and the time, so a job or a plan is made once however often it is
//! tried; a URL may be called again, with the same key.

use std::sync::Arc;

use windlass_core::id::{PlanId, PlanName};
use windlass_core::job::{NewJob, When};
use windlass_core::plan::PlanStatus;
use windlass_core::plan::file::{self, Format};
use windlass_core::port::lock::Force;
use windlass_core::port::state::{Key, Row};
use windlass_core::port::{PortError, Refusal};
use windlass_core::task::Cause;
use windlass_core::task::command::{Command, Retry, RetryFrom};
use windlass_core::trigger::target::{JobTarget, Operation, Subject, Target, Verb};
use windlass_core::trigger::{Made, Overlap, Trigger};

use crate::command::plan::Verb as PlanVerb;
use crate::command::task::{Order, Which};
use crate::command::{Caller, IdempotencyKey, hash};
use crate::error::Error;
use crate::shared::Shared;

/// Why an occurrence made nothing.
pub(super) enum NotFired {
    /// It failed, and that counts.
    Failed(String),
    /// A store did not answer, or this instance is stopping: it is nobody's failure, and is tried again.
    NotNow(String),
    /// It is left out.
    Skipped(String),
}

impl From<Error> for NotFired {
    fn from(error: Error) -> NotFired {
        match error {
            Error::Port(PortError::Unavailable(_)) | Error::Stopping => NotFired::NotNow(error.to_string()),
            error => NotFired::Failed(error.to_string()),
        }
    }
}

/// The job that an occurrence makes, if that is what it makes.
pub(super) fn job(shared: &Shared, trigger: &Trigger) -> Option<NewJob> {
    let (Target::Job(target), Some(queues)) = (&trigger.spec.target, &shared.queues) else { return None };
    let JobTarget { queue, priority, max_attempts, backoff, timeout_ms } = target.clone();
    Some(NewJob {
        id: queues.new_id(),
        queue,
        payload: trigger.spec.payload.clone(),
        tenant: trigger.spec.tenant.clone(),
        priority,
        when: When::Now,
        max_attempts,
        backoff,
        timeout_ms,
        key: Some(trigger.key()),
    })
}

/// Carries an occurrence out, whatever it is but a job.
pub(super) async fn fire(shared: &Arc<Shared>, trigger: &Trigger) -> Result<Made, NotFired> {
    match &trigger.spec.target {
        Target::Job(_) => Err(NotFired::Failed(crate::stage::NO_STORE.to_owned())),
        Target::Plan(plan) => {
            if trigger.spec.overlap == Overlap::Skip {
                overlaps(shared, trigger).await?;
            }
            let mut file = file::parse(plan.as_str(), Format::Json).map_err(|bad| NotFired::Failed(bad.to_string()))?;
            if file.id.is_some() {
                return Ok(Made::Plan(shared.create(&file, true, &caller(trigger)?).await?.plan));
            }
            let id = plan_id(&file.name, &trigger.key())?;
            file.id = Some(id.clone());
            match shared.create(&file, true, &caller(trigger)?).await {
                Ok(created) => Ok(Made::Plan(created.plan)),
                // The idempotency key is forgotten after a day; the plan is not, and this is its id.
                Err(Error::Store(Refusal::Exists(_))) => Ok(Made::Plan(id)),
                Err(error) => Err(error.into()),
            }
        }
        Target::Operation(operation) => operate(shared, operation, &caller(trigger)?).await.map(Made::Operation),
        Target::Http(call) => {
            let payload = trigger.spec.payload.as_ref();
            let answer = shared.actions.call(call, payload, &trigger.key(), trigger.run.fence).await;
            answer.map(Made::Called).map_err(|trouble| NotFired::Failed(trouble.message))
        }
    }
}

/// The plan that an occurrence makes, by its name and a number that stands for the trigger and the time.
fn plan_id(name: &PlanName, key: &str) -> Result<PlanId, Error> {
    let (number, _) = hash(&[key]);
    let name: String = name.as_str().chars().take(PLAN_NAME_CHARS).collect();
    let text = format!("{name}-{number:016x}");
    text.parse().map_err(|_| Error::Invalid(format!("{text} is no plan id")))
}

/// So much of a plan's name is in the id of one that a trigger makes: the tasks' ids must fit too.
const PLAN_NAME_CHARS: usize = 32;

/// Refuses to fire while the plan of the last occurrence is active.
async fn overlaps(shared: &Shared, trigger: &Trigger) -> Result<(), NotFired> {
    let Some(Made::Plan(plan)) = &trigger.run.made else { return Ok(()) };
    let row = shared.state.load(&[Key::Plan(plan.clone())]).await.map_err(Error::from)?.pop().flatten();
    match row {
        Some(Row::Plan(row))
            if matches!(row.plan.status, PlanStatus::Ready | PlanStatus::Running | PlanStatus::Paused) =>
        {
            Err(NotFired::Skipped(format!("plan {plan} of the occurrence before is {}", row.plan.status.name())))
        }
        _ => Ok(()),
    }
}

/// Whoever a trigger acts as, and the key that makes what it does happen once.
fn caller(trigger: &Trigger) -> Result<Caller, Error> {
    let by = format!("trigger:{}", trigger.origin());
    let by = by.parse().map_err(|_| Error::Invalid(format!("{by:?} is no name")))?;
    let key = IdempotencyKey { credential: "trigger".to_owned(), key: trigger.key() };
    Ok(Caller { key: Some(key), ..Caller::new(by) })
}

async fn operate(shared: &Arc<Shared>, operation: &Operation, caller: &Caller) -> Result<String, NotFired> {
    let which = match (&operation.on, operation.verb) {
        (Subject::Plan(plan), verb) => {
            let verb = match verb {
                Verb::Start => PlanVerb::Start,
                Verb::Pause => PlanVerb::Pause,
                Verb::Resume => PlanVerb::Resume,
                Verb::Cancel => PlanVerb::Cancel,
                _ => return Err(unfit(operation)),
            };
            return Ok(shared.command_plan(plan, verb, caller).await?.state);
        }
        (Subject::Tenant(tenant), verb @ (Verb::Freeze | Verb::Unfreeze)) => {
            let force = if verb == Verb::Freeze { Force::Freeze } else { Force::Unfreeze };
            shared.force_tenant(tenant, force, caller).await?;
            return Ok(format!("{verb:?} {tenant}"));
        }
        (Subject::Task(task), _) => Which::Task(task.clone()),
        (Subject::Tenant(tenant), _) => Which::Tenant(tenant.clone()),
    };
    let retry = Retry { from: RetryFrom::Checkpoint, restart_if_invalid: false, force: false };
    let command = match operation.verb {
        Verb::Pause => Command::Pause(Cause::Person),
        Verb::Resume => Command::Resume,
        Verb::Cancel => Command::Cancel(Cause::Person),
        Verb::Retry => Command::Retry(retry),
        Verb::Rollback => Command::Rollback { force: false },
        Verb::Approve => Command::Approve,
        Verb::Reject => Command::Reject,
        Verb::SkipStage => Command::SkipStage(None),
        Verb::Start | Verb::Freeze | Verb::Unfreeze => return Err(unfit(operation)),
    };
    Ok(shared.command_task(&Order { which, command, config: None }, caller).await?.state)
}

fn unfit(operation: &Operation) -> NotFired {
    let why = format!("{:?} cannot be done to {:?}", operation.verb, operation.on);
    NotFired::Failed(Refusal::Invalid(why).to_string())
}
