//! What people may do to a task: `decide` takes the command and everything it depends on, and
//! answers what happens or why not.

mod standing;

pub use standing::Standing;

use crate::by::{By, Reason};
use crate::checkpoint::Checkpoint;
use crate::event::{At, Fact};
use crate::failure::{Failure, FailureKind};
use crate::id::StageName;
use crate::refused::{Refused, RefusedCode};
use crate::task::range::{From, Progress, Range};
use crate::task::status::TaskStatus;
use crate::task::{Cause, Hold, Request, Skip, Start, StartKind};
use crate::time::Ms;

/// What a person wants of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Stop at the next boundary, for this cause.
    Pause(Cause),
    /// Go on.
    Resume,
    /// End it, for this cause.
    Cancel(Cause),
    /// A new attempt.
    Retry(Retry),
    /// Take it back; `force` also when a newer task of the tenant has started.
    Rollback {
        /// Needs a reason.
        force: bool,
    },
    /// Yes.
    Approve,
    /// No.
    Reject,
    /// Count the next stage as completed without running it; it must be this one if named.
    SkipStage(Option<StageName>),
}

/// How to retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Where to begin.
    pub from: RetryFrom,
    /// Discard an invalid checkpoint and start from stage 0, instead of refusing.
    pub restart_if_invalid: bool,
    /// Also when a newer task of the tenant has started; needs a reason.
    pub force: bool,
}

/// Where a retry begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryFrom {
    /// After the last completed stage.
    Checkpoint,
    /// At this stage.
    Stage(StageName),
    /// At the first stage.
    Start,
}

/// What a command does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// What has happened with it.
    pub facts: Vec<Fact>,
    /// What is asked of whoever runs the task, or will.
    pub ask: Option<Request>,
    /// The checkpoint is replaced.
    pub checkpoint: Option<Checkpoint>,
    /// An invalid checkpoint was discarded for this reason: worth one warning.
    pub discarded: Option<String>,
}

/// Decides `command`, given by `by` for `reason`.
pub fn decide(
    at: &Standing<'_>,
    command: &Command,
    by: &By,
    reason: Option<&Reason>,
    now: Ms,
) -> Result<Decision, Refused> {
    let case = Case { at, tried: command.name(), by, reason, now };
    match command {
        Command::Pause(cause) => case.pause(*cause),
        Command::Resume => case.resume(),
        Command::Cancel(cause) => case.cancel(*cause),
        Command::Retry(retry) => case.retry(retry),
        Command::Rollback { force } => case.rollback(*force),
        Command::Approve => case.approve(),
        Command::Reject => case.reject(),
        Command::SkipStage(stage) => case.skip(stage.as_ref()),
    }
}

impl Command {
    /// The verb.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Command::Pause(_) => "pause",
            Command::Resume => "resume",
            Command::Cancel(_) => "cancel",
            Command::Retry(_) => "retry",
            Command::Rollback { .. } => "rollback",
            Command::Approve => "approve",
            Command::Reject => "reject",
            Command::SkipStage(_) => "skip-stage",
        }
    }
}

/// One command in one situation.
struct Case<'a> {
    at: &'a Standing<'a>,
    tried: &'static str,
    by: &'a By,
    reason: Option<&'a Reason>,
    now: Ms,
}

impl Case<'_> {
    fn no(&self, code: RefusedCode, why: impl Into<String>) -> Refused {
        let instead = self.at.possible().into_iter().filter(|verb| *verb != self.tried).collect();
        Refused { code, tried: self.tried, state: self.at.state(), why: why.into(), instead }
    }

    fn wrong_state(&self) -> Refused {
        if self.at.interrupted() {
            return self.no(RefusedCode::Interrupted, "the task is interrupted: no instance runs it");
        }
        if self.at.wants_approval() {
            return self.no(RefusedCode::ApprovalWanted, "the task waits for an approval");
        }
        self.no(RefusedCode::State, format!("the task is {}", self.at.state()))
    }

    fn hold(&self, cause: Cause) -> Hold {
        Hold { cause, by: Some(self.by.clone()), reason: self.reason.cloned() }
    }

    fn pause(&self, cause: Cause) -> Result<Decision, Refused> {
        match self.at.task.status {
            // A cancel comes first at the boundary, so a pause beside it would never take effect.
            TaskStatus::Running if self.at.control.cancel.is_some() => Err(self.wrong_state()),
            TaskStatus::Running if !self.at.interrupted() => match &self.at.control.pause {
                Some(_) => Err(self.no(RefusedCode::Asked, "a pause was asked for already; a stage still runs")),
                None => Ok(Decision {
                    facts: vec![Fact::TaskPauseRequested],
                    ask: Some(Request::Pause(self.hold(cause))),
                    ..Decision::default()
                }),
            },
            _ => Err(self.wrong_state()),
        }
    }

    fn resume(&self) -> Result<Decision, Refused> {
        match self.at.task.status {
            TaskStatus::Running if self.at.control.cancel.is_some() => Err(self.wrong_state()),
            TaskStatus::Running if self.at.control.pause.is_some() && !self.at.interrupted() => {
                Ok(Decision { ask: Some(Request::Unpause), ..Decision::default() })
            }
            TaskStatus::Paused if !self.at.wants_approval() => self.go_on(Vec::new()),
            _ => Err(self.wrong_state()),
        }
    }

    /// The paused attempt goes on: what resume and approve come to.
    fn go_on(&self, facts: Vec<Fact>) -> Result<Decision, Refused> {
        self.may_start()?;
        let task = self.at.task;
        let range = task.attempt.map_or(Range::first(task.stages), |attempt| attempt.range);
        let ask = Some(self.start(StartKind::Resume, range, task.pass));
        Ok(Decision { facts, ask, ..Decision::default() })
    }

    fn cancel(&self, cause: Cause) -> Result<Decision, Refused> {
        match self.at.task.status {
            TaskStatus::Running if !self.at.interrupted() => match &self.at.control.cancel {
                Some(_) => Err(self.no(RefusedCode::Asked, "a cancel was asked for already; a stage still runs")),
                None => Ok(Decision {
                    facts: vec![Fact::TaskCancelRequested],
                    ask: Some(Request::Cancel(self.hold(cause))),
                    ..Decision::default()
                }),
            },
            TaskStatus::Running | TaskStatus::Pending | TaskStatus::Paused => {
                let mut facts = self.left_unfinished();
                facts.push(Fact::TaskCancelled { cause });
                Ok(Decision { facts, ..Decision::default() })
            }
            _ => Err(self.wrong_state()),
        }
    }

    /// The stage in which an interrupted task was left. What it did is unknown, and a later rollback
    /// takes it back, so it is not forgotten when a person ends the task.
    fn left_unfinished(&self) -> Vec<Fact> {
        let task = self.at.task;
        let name = task.stage.filter(|_| self.at.interrupted()).and_then(|index| self.at.stages.get(index as usize));
        let (Some(index), Some(stage)) = (task.stage, name) else { return Vec::new() };
        let attempt = task.attempt.map_or(0, |attempt| attempt.number);
        let message = "its instance was lost; what the stage did is unknown";
        let failure = Failure::new(FailureKind::Interrupted, message, stage.clone(), attempt, self.now);
        vec![Fact::StageFailed { at: At { index, stage: stage.clone() }, failure }]
    }

    fn retry(&self, retry: &Retry) -> Result<Decision, Refused> {
        let at = self.at;
        let allowed =
            matches!(at.task.status, TaskStatus::Failed | TaskStatus::RolledBack | TaskStatus::RollbackFailed)
                || at.interrupted()
                || at.was_skipped();
        if !allowed {
            return Err(self.wrong_state());
        }
        self.may_start()?;
        self.is_latest(retry.force)?;
        if at.retry_limit != 0 && at.task.retries >= at.retry_limit {
            let why = format!("it was retried {} times; the limit is {}", at.task.retries, at.retry_limit);
            return Err(self.no(RefusedCode::RetryLimit, why));
        }
        if at.task.taken_back && retry.from != RetryFrom::Start {
            return Err(self.no(RefusedCode::Stage, "a rollback has begun, so a retry must be from the start"));
        }
        self.retry_from(retry)
    }

    /// Where the retry begins, and what becomes of the checkpoint.
    fn retry_from(&self, retry: &Retry) -> Result<Decision, Refused> {
        let (at, task) = (self.at, self.at.task);
        let mut decision = Decision::default();
        let resume = match (&retry.from, at.checkpoint) {
            (RetryFrom::Start, _) | (_, None) => Ok(0),
            (_, Some(checkpoint)) => checkpoint.resume_point(at.stages, at.kept_until, self.now),
        };
        let completed = match resume {
            Ok(completed) => completed,
            Err(rule) if retry.restart_if_invalid => {
                decision.discarded = Some(rule.to_string());
                0
            }
            Err(rule) => return Err(self.no(RefusedCode::Checkpoint, format!("the checkpoint is not valid: {rule}"))),
        };
        let from = match &retry.from {
            _ if decision.discarded.is_some() => From::Start,
            RetryFrom::Start => From::Start,
            RetryFrom::Checkpoint => From::Checkpoint,
            RetryFrom::Stage(name) => From::Stage(self.index_of(name)?),
        };
        let progress = Progress { stages: task.stages, completed, started: false };
        let range = Range::retry(progress, from).map_err(|beyond| self.no(RefusedCode::Stage, beyond.to_string()))?;
        // The stages of a pass run once: beginning before the first that is not done is a new pass.
        let again = from == From::Start || range.from < completed.max(task.completed);
        let pass = task.pass + u32::from(again);
        if again && let Some(checkpoint) = at.checkpoint {
            decision.checkpoint = Some(rewound(checkpoint, range.from, pass, self.now));
        }
        decision.facts = self.told(Fact::TaskRetryRequested);
        decision.ask = Some(self.start(StartKind::Retry, range, pass));
        Ok(decision)
    }

    fn rollback(&self, force: bool) -> Result<Decision, Refused> {
        let at = self.at;
        let allowed = match at.task.status {
            TaskStatus::Running | TaskStatus::RollingBack => at.interrupted(),
            TaskStatus::Pending | TaskStatus::RolledBack => false,
            TaskStatus::Paused if at.wants_approval() => false,
            _ => true,
        };
        if !allowed {
            return Err(self.wrong_state());
        }
        self.may_start()?;
        self.is_latest(force)?;
        if !at.can_take_back {
            let why = "the task has no `previous`, and none of its stages has an `undo`";
            return Err(self.no(RefusedCode::NothingToTakeBack, why));
        }
        let range = at.rollback_range();
        if range.is_empty() {
            return Err(self.no(RefusedCode::NothingToTakeBack, "no stage has begun"));
        }
        let ask = Some(self.start(StartKind::Rollback, range, at.task.pass + 1));
        Ok(Decision { facts: self.told(Fact::TaskRollbackRequested), ask, ..Decision::default() })
    }

    /// The owner of an interrupted task may come back and go on before what was asked for begins. Then it never does, and
    /// the history says that it was asked for.
    fn told(&self, fact: Fact) -> Vec<Fact> {
        if self.at.interrupted() { vec![fact] } else { Vec::new() }
    }

    fn approve(&self) -> Result<Decision, Refused> {
        if !self.at.wants_approval() {
            return Err(self.wrong_state());
        }
        let at = self.next_stage()?;
        let mut decision = self.go_on(vec![Fact::Approved(at.clone())])?;
        decision.checkpoint = self.checkpoint_past(&at.stage);
        Ok(decision)
    }

    fn reject(&self) -> Result<Decision, Refused> {
        if !self.at.wants_approval() {
            return Err(self.wrong_state());
        }
        self.nothing_asked()?;
        let at = self.next_stage()?;
        let attempt = self.at.task.attempt.map_or(0, |attempt| attempt.number);
        let message = self.reason.map_or_else(|| format!("rejected by {}", self.by), |reason| reason.to_string());
        let failure = Failure::new(FailureKind::Rejected, &message, at.stage.clone(), attempt, self.now);
        let facts = vec![Fact::Rejected(at), Fact::TaskFailed { failure }];
        Ok(Decision { facts, ..Decision::default() })
    }

    fn skip(&self, named: Option<&StageName>) -> Result<Decision, Refused> {
        let running = self.at.task.status == TaskStatus::Running && !self.at.interrupted();
        let rests = match self.at.task.status {
            TaskStatus::Failed => !self.at.task.taken_back,
            TaskStatus::Paused => !self.at.wants_approval(),
            TaskStatus::Running => self.at.interrupted(),
            _ => false,
        };
        if !running && !rests {
            return Err(self.wrong_state());
        }
        let at = self.next_stage()?;
        if let Some(name) = named.filter(|name| **name != at.stage) {
            return Err(self.no(RefusedCode::Stage, format!("the next stage is {}, not {name}", at.stage)));
        }
        if running {
            let skip = Skip { stage: at.index, by: self.by.clone(), reason: self.reason.cloned() };
            return Ok(Decision { ask: Some(Request::Skip(skip)), ..Decision::default() });
        }
        // What was asked for counts on the progress there was when it was asked.
        self.nothing_asked()?;
        let checkpoint = self.checkpoint_past(&at.stage);
        Ok(Decision { facts: vec![Fact::StageSkipped(at)], checkpoint, ..Decision::default() })
    }

    /// The checkpoint with one more stage done, by a person's word.
    fn checkpoint_past(&self, stage: &StageName) -> Option<Checkpoint> {
        let mut checkpoint =
            self.at.checkpoint.cloned().unwrap_or_else(|| Checkpoint::new(self.at.task.pass, self.now));
        // No output, so the context cannot outgrow its bound.
        checkpoint.complete(stage, None, 0).ok()?;
        checkpoint.saved_at = self.now;
        checkpoint.version += 1;
        Some(checkpoint)
    }

    fn next_stage(&self) -> Result<At, Refused> {
        let index = self.at.task.completed;
        match self.at.stages.get(index as usize) {
            Some(stage) => Ok(At { index, stage: stage.clone() }),
            None => Err(self.no(RefusedCode::Stage, "every stage is done")),
        }
    }

    fn index_of(&self, name: &StageName) -> Result<u32, Refused> {
        match self.at.stages.iter().position(|stage| stage == name) {
            Some(index) => Ok(index as u32),
            None => Err(self.no(RefusedCode::Stage, format!("the task has no stage {name}"))),
        }
    }

    /// What every start needs: a tenant that is not frozen, and nothing else asked for.
    fn may_start(&self) -> Result<(), Refused> {
        if self.at.frozen {
            return Err(self.no(RefusedCode::Frozen, "the tenant is frozen; unfreeze it first"));
        }
        self.nothing_asked()
    }

    fn nothing_asked(&self) -> Result<(), Refused> {
        match &self.at.control.start {
            Some(start) => {
                let why = format!("{} was asked for by {} and has not begun yet", start.kind.verb(), start.by);
                Err(self.no(RefusedCode::Asked, why))
            }
            None => Ok(()),
        }
    }

    fn is_latest(&self, force: bool) -> Result<(), Refused> {
        match (self.at.latest || self.at.task.attempt.is_none(), force, self.reason) {
            (true, _, _) | (false, true, Some(_)) => Ok(()),
            (false, true, None) => Err(self.no(RefusedCode::ReasonWanted, "force needs a reason")),
            (false, false, _) => {
                let why = "a newer task of the tenant has started; use force with a reason if it must be this one";
                Err(self.no(RefusedCode::NotLatest, why))
            }
        }
    }

    fn start(&self, kind: StartKind, range: Range, pass: u32) -> Request {
        Request::Start(Start { kind, range, pass, by: self.by.clone(), reason: self.reason.cloned() })
    }
}

impl StartKind {
    /// The verb that asks for it.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        match self {
            StartKind::Resume => "resume",
            StartKind::Retry => "retry",
            StartKind::Rollback => "rollback",
        }
    }
}

/// A checkpoint as a new pass finds it.
fn rewound(checkpoint: &Checkpoint, completed: u32, pass: u32, now: Ms) -> Checkpoint {
    let mut new = checkpoint.clone();
    new.truncate(completed);
    new.pass = pass;
    new.saved_at = now;
    new.version += 1;
    new
}

#[cfg(test)]
mod tests;
