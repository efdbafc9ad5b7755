//! What the program's exit codes mean, and what it says when it fails.

use std::process::ExitCode;

use super::note;
use crate::client::{Error, Problem};

/// An exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Code(u8);

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code.0)
    }
}

pub(super) const FAILED: Code = Code(1);
const WRONG: Code = Code(2);
pub(super) const MISSED: Code = Code(3);
pub(super) const REFUSED: Code = Code(4);
pub(super) const NOT_FOUND: Code = Code(5);
pub(super) const NOT_ALLOWED: Code = Code(6);
pub(super) const AWAY: Code = Code(7);
pub(super) const ENDED_BADLY: Code = Code(8);
pub(super) const TIME_OVER: Code = Code(9);
pub(super) const WAITS: Code = Code(10);

/// Every code, for `docs/cli.md`.
pub(super) const TABLE: &[(u8, &str)] = &[
    (0, "It is done. For a wait: what was waited for ended well."),
    (FAILED.0, "It failed for a reason that has no code of its own; stderr says which."),
    (WRONG.0, "The call was wrong: an unknown command, option or value."),
    (MISSED.0, "`bench --strict`: a bar was missed. `doctor`: something is wrong."),
    (
        REFUSED.0,
        "Refused: not possible from this state, in use, or not valid. stderr says what would be taken instead.",
    ),
    (NOT_FOUND.0, "There is no such plan, task, tenant, job or trigger, or the key may not see it."),
    (NOT_ALLOWED.0, "The server wants an API key, or the key may not do this."),
    (AWAY.0, "The server or its store does not answer. Whether a write was done is open; give it again."),
    (ENDED_BADLY.0, "A wait: what was waited for ended FAILED, CANCELLED or ROLLBACK_FAILED."),
    (TIME_OVER.0, "A wait: the time is over. What was waited for goes on."),
    (WAITS.0, "A wait: it does not move any more unless a person says so; `windlass inbox` says what it waits for."),
];

/// What was typed cannot be meant.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Wrong(pub(super) String);

/// A refusal of the server, with what was probably meant.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) error: Error,
    pub(super) hint: Option<String>,
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Mistake {}

/// Says what went wrong and what to do, and chooses the code.
pub(super) fn explain(error: &anyhow::Error) -> ExitCode {
    note(&format!("windlass: {error:#}"));
    if error.is::<Wrong>() {
        return WRONG.into();
    }
    let (client, hint) = match error.downcast_ref::<Mistake>() {
        Some(mistake) => (Some(&mistake.error), mistake.hint.as_deref()),
        None => (error.downcast_ref::<Error>(), None),
    };
    let Some(client) = client else { return FAILED.into() };
    if let Some(problem) = client.problem() {
        beside(problem);
    }
    if let Some(hint) = hint {
        note(&format!("  {hint}"));
    }
    if let Some(code) = client.code() {
        note(&format!("  more: docs/errors/{code}.md"));
    }
    if matches!(client, Error::Unreachable { .. }) {
        note(
            "  is it running? `windlass up` starts a server, `windlass demo` one with a sample; --server says where it is",
        );
    }
    code_of(client).into()
}

/// What a refusal says beside its text.
fn beside(problem: &Problem) {
    for one in &problem.problems {
        let text = one.as_str().map(str::to_owned).or_else(|| {
            let place = match (one.get("line"), one.get("column")) {
                (Some(line), Some(column)) => format!("{line}:{column}: "),
                _ => String::new(),
            };
            let say = |name| one.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
            let help = if say("help").is_empty() { String::new() } else { format!("; {}", say("help")) };
            Some(format!("{place}{} {}{help}", say("code"), say("detail")))
        });
        note(&format!("  {}", text.unwrap_or_else(|| one.to_string())));
    }
    let told = problem.detail.contains("possible now");
    if !problem.possible.is_empty() && !told {
        note(&format!("  possible now: {}", problem.possible.join(", ")));
    }
}

fn code_of(error: &Error) -> Code {
    match (error, error.status()) {
        (Error::Setup(_), _) => WRONG,
        (Error::Unreachable { .. }, _) | (_, Some(502..=504)) => AWAY,
        (_, Some(401 | 403)) => NOT_ALLOWED,
        (_, Some(404)) => NOT_FOUND,
        (_, Some(400 | 409 | 413 | 415 | 422 | 429)) => REFUSED,
        _ => FAILED,
    }
}
