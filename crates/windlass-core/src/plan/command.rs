//! What people may do to a plan, and how it ends.

use crate::event::Fact;
use crate::id::InstanceId;
use crate::plan::{Plan, PlanMove, PlanStatus, Tally, after, outcome};
use crate::refused::{Refused, RefusedCode};

/// What is wanted of a plan. `conductor` is the instance that takes the command, and drives the plan
/// from then on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Hand out its tasks.
    Start {
        /// See [`Command`].
        conductor: InstanceId,
    },
    /// Hand out no more, and pause what runs.
    Pause,
    /// Go on; also what moves an interrupted plan.
    Resume {
        /// See [`Command`].
        conductor: InstanceId,
    },
    /// End it: nothing more starts, what runs is cancelled.
    Cancel,
    /// One of its tasks is retried or rolled back.
    Reopen {
        /// See [`Command`].
        conductor: InstanceId,
    },
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What has happened with it.
    pub facts: Vec<Fact>,
    /// The plan is marked: it ends CANCELLED once nothing of it is active.
    pub cancel: bool,
}

/// Decides `command` for `plan`, whose conductor's lease has expired or not.
pub fn decide(plan: &Plan, lease_expired: bool, command: &Command) -> Result<Decision, Refused> {
    let interrupted = plan.status == PlanStatus::Running && lease_expired;
    let cancelling = plan.cancelled && !plan.status.is_final();
    let allowed = match command {
        // Somebody must see a cancelled plan to its end, too.
        Command::Resume { .. } => interrupted || (plan.status == PlanStatus::Paused && !cancelling),
        Command::Start { .. } => after(plan.status, PlanMove::Start).is_some() && !cancelling,
        Command::Pause => after(plan.status, PlanMove::Pause).is_some() && !cancelling,
        Command::Cancel => after(plan.status, PlanMove::Cancel).is_some() && !cancelling,
        Command::Reopen { .. } => plan.status != PlanStatus::Ready && !cancelling,
    };
    if !allowed {
        return Err(refused(plan, interrupted, command));
    }
    let facts = match command.clone() {
        Command::Start { conductor } => vec![Fact::PlanStarted { conductor }],
        Command::Pause => vec![Fact::PlanPaused],
        // A plan that runs under a live conductor is open already. A paused one stays paused: who
        // retries one task has not asked for the rest to go on.
        Command::Reopen { .. } if plan.status == PlanStatus::Running && !interrupted => vec![],
        Command::Reopen { .. } if plan.status == PlanStatus::Paused => vec![],
        Command::Resume { conductor } | Command::Reopen { conductor } => vec![Fact::PlanResumed { conductor }],
        Command::Cancel => vec![],
    };
    Ok(Decision { facts, cancel: matches!(command, Command::Cancel) })
}

/// The fact that ends a plan, once nothing of it is active any more.
#[must_use]
pub fn settle(plan: &Plan, tally: Tally) -> Option<Fact> {
    let by = outcome(&tally, plan.cancelled)?;
    after(plan.status, by)?;
    match by {
        PlanMove::Complete => Some(Fact::PlanCompleted { tally }),
        PlanMove::Fail => Some(Fact::PlanFailed { tally }),
        PlanMove::Cancel => Some(Fact::PlanCancelled { tally }),
        _ => None,
    }
}

impl Command {
    /// The verb.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Command::Start { .. } => "start",
            Command::Pause => "pause",
            Command::Resume { .. } => "resume",
            Command::Cancel => "cancel",
            Command::Reopen { .. } => "reopen",
        }
    }
}

/// The commands that a plan takes where it stands.
#[must_use]
pub fn possible(plan: &Plan, lease_expired: bool) -> Vec<&'static str> {
    let mut list = match plan.status {
        PlanStatus::Ready => vec!["start", "cancel"],
        PlanStatus::Running if lease_expired => vec!["resume", "pause", "cancel"],
        PlanStatus::Running => vec!["pause", "cancel"],
        PlanStatus::Paused => vec!["resume", "cancel"],
        PlanStatus::Completed | PlanStatus::Failed | PlanStatus::Cancelled => vec!["retry or rollback of a task"],
    };
    let cancelling = plan.cancelled && !plan.status.is_final();
    list.retain(|verb| !cancelling || (*verb == "resume" && plan.status == PlanStatus::Running));
    list
}

fn refused(plan: &Plan, interrupted: bool, command: &Command) -> Refused {
    let state = match () {
        () if plan.cancelled && !plan.status.is_final() => format!("{}, cancelling", plan.status),
        () if interrupted => format!("{}, interrupted", plan.status),
        () => plan.status.name().to_owned(),
    };
    let asked = plan.cancelled && !plan.status.is_final() && *command == Command::Cancel;
    let code = if asked { RefusedCode::Asked } else { RefusedCode::State };
    let instead = possible(plan, interrupted).into_iter().filter(|verb| *verb != command.name()).collect();
    Refused { code, tried: command.name(), why: format!("the plan is {state}"), state, instead }
}

#[cfg(test)]
mod tests;
