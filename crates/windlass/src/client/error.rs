//! How a call ends without what was asked for.

use serde::Deserialize;

/// Why a call has no answer, or not the one that was hoped for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The server said no, and why.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// Nobody answered. What was asked for may have been done: the same call under the same key finds out.
    #[error("{server} does not answer: {why}")]
    Unreachable {
        /// Whom.
        server: String,
        /// What went wrong last.
        why: String,
    },
    /// The answer is not one of Windlass.
    #[error("{server} answered what this client does not understand: {why}")]
    Unreadable {
        /// Who.
        server: String,
        /// What is wrong with it.
        why: String,
    },
    /// The client cannot be used as it was set up.
    #[error("{0}")]
    Setup(String),
}

/// A refusal as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// Stable; each has a page in `docs/errors`.
    pub code: String,
    /// What sort of refusal.
    pub title: String,
    /// What was wrong this time.
    pub detail: String,
    /// The member of the body it is about, as a JSON pointer.
    pub pointer: Option<String>,
    /// The query parameter it is about.
    pub parameter: Option<String>,
    /// Where in the body.
    pub line: Option<u32>,
    /// See [`Problem::line`].
    pub column: Option<u32>,
    /// Where the plan or the task stands.
    pub state: Option<String>,
    /// What would be taken instead.
    pub possible: Vec<String>,
    /// Everything that is wrong with a plan file, each as its own text or object.
    pub problems: Vec<serde_json::Value>,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = if self.detail.is_empty() { &self.title } else { &self.detail };
        // Some details begin with the code already.
        let text = text.strip_prefix(self.code.as_str()).map_or(text.as_str(), str::trim_start);
        match self.code.as_str() {
            "" => write!(f, "the server answered {}: {text}", self.status)?,
            code => write!(f, "{code} {text}")?,
        }
        match (&self.pointer, &self.parameter) {
            (Some(pointer), _) if !text.contains(pointer.as_str()) => write!(f, " (at {pointer})"),
            (None, Some(parameter)) if !text.contains(parameter.as_str()) => write!(f, " (?{parameter})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Problem {}

impl Error {
    /// The server's refusal, if it is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The stable code, if the server gave one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str()).filter(|code| !code.is_empty())
    }

    /// The HTTP status, if there was an answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.problem().map(|problem| problem.status)
    }
}
