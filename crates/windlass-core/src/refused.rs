//! Refusals are data: what was tried, the state it met, why not, and what could be done instead.

use serde::Serialize;

/// A command that the rules do not allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{code} cannot {tried}: {why}{}", instead_text(instead))]
pub struct Refused {
    /// Stable; each has a page in `docs/errors`.
    pub code: RefusedCode,
    /// The command.
    pub tried: &'static str,
    /// Where the plan or task stands.
    pub state: String,
    /// Why not.
    pub why: String,
    /// Commands that would be taken now.
    pub instead: Vec<&'static str>,
}

fn instead_text(instead: &[&str]) -> String {
    match instead {
        [] => String::new(),
        list => format!("; possible now: {}", list.join(", ")),
    }
}

/// Why a command was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum RefusedCode {
    /// Not from this state.
    #[serde(rename = "WL-2001")]
    State,
    /// Nobody runs it, so nobody can reach a boundary.
    #[serde(rename = "WL-2002")]
    Interrupted,
    /// An approval yields only to approve, reject and cancel.
    #[serde(rename = "WL-2003")]
    ApprovalWanted,
    /// A newer task of the tenant has started.
    #[serde(rename = "WL-2004")]
    NotLatest,
    /// The task has been retried as often as it may.
    #[serde(rename = "WL-2005")]
    RetryLimit,
    /// Work cannot resume from the checkpoint.
    #[serde(rename = "WL-2006")]
    Checkpoint,
    /// No such stage, or not yet.
    #[serde(rename = "WL-2007")]
    Stage,
    /// Nothing was done, or nothing says how to take it back.
    #[serde(rename = "WL-2008")]
    NothingToTakeBack,
    /// The tenant is frozen.
    #[serde(rename = "WL-2009")]
    Frozen,
    /// The same was asked before and has not taken effect yet.
    #[serde(rename = "WL-2010")]
    Asked,
    /// Force needs a reason.
    #[serde(rename = "WL-2011")]
    ReasonWanted,
}

impl RefusedCode {
    /// The stable code.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            RefusedCode::State => "WL-2001",
            RefusedCode::Interrupted => "WL-2002",
            RefusedCode::ApprovalWanted => "WL-2003",
            RefusedCode::NotLatest => "WL-2004",
            RefusedCode::RetryLimit => "WL-2005",
            RefusedCode::Checkpoint => "WL-2006",
            RefusedCode::Stage => "WL-2007",
            RefusedCode::NothingToTakeBack => "WL-2008",
            RefusedCode::Frozen => "WL-2009",
            RefusedCode::Asked => "WL-2010",
            RefusedCode::ReasonWanted => "WL-2011",
        }
    }
}

impl std::fmt::Display for RefusedCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
