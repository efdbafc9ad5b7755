//! How a store says no. A refusal is an answer and changes nothing; an error is no answer.

use crate::fence::Fence;
use crate::id::InstanceId;
use crate::job::limit::Scope;
use crate::lock::{Freeze, Holder, NotGranted};
use crate::time::Ms;

/// Why one item of a call was refused. Nothing of that item was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such record.
    #[error("WL-3001 {0} does not exist")]
    NotFound(String),
    /// There is one already.
    #[error("WL-3002 {0} exists already")]
    Exists(String),
    /// The tenant has seen a higher fence: somebody else owns it now.
    #[error("WL-3003 fence {given} is stale; the tenant's is {stored}")]
    Stale {
        /// What the write carried.
        given: Fence,
        /// What the store has.
        stored: Fence,
    },
    /// Somebody else's: a live owner has it, or its owner writes without owning it.
    #[error("WL-3004 owned by {}", owner_text(.owner.as_ref(), *.until))]
    Owned {
        /// Who, if anybody.
        owner: Option<InstanceId>,
        /// Until when their lease runs.
        until: Ms,
    },
    /// It stands where this write cannot begin.
    #[error("WL-3005 it is {status}; expected {expected}")]
    State {
        /// Where it stands.
        status: &'static str,
        /// Where it should.
        expected: String,
    },
    /// Somebody else wrote in between: read again, decide again.
    #[error("WL-3006 version {given} was expected, {stored} is stored")]
    Version {
        /// What the write expected.
        given: u64,
        /// What the store has.
        stored: u64,
    },
    /// The checkpoint's version is not the stored one plus one.
    #[error("WL-3007 checkpoint version {given} cannot follow {stored}")]
    Checkpoint {
        /// What the write carried.
        given: u64,
        /// What the store has; 0 is none.
        stored: u64,
    },
    /// The same operation id came before with another body.
    #[error("WL-3008 the operation id was used for another request")]
    OpReused,
    /// Another task holds the tenant's lock.
    #[error("WL-3009 tenant {} is locked by task {} of plan {} until {}", .0.tenant, .0.task, .0.plan, .0.until)]
    Held(Holder),
    /// The tenant is frozen.
    #[error("WL-3010 tenant {} was frozen by {}", .0.tenant, .0.by)]
    Frozen(Freeze),
    /// The lock is not held by this task under this fence, or not any more.
    #[error("WL-3011 the lock is not held under fence {fence}")]
    NotHeld {
        /// What was given.
        fence: Fence,
    },
    /// The instance's own lease has expired.
    #[error("WL-3012 instance {0} has no live lease")]
    NoLease(InstanceId),
    /// The attempt has taken longer than it may: its worker should stop, the job is no longer its own.
    #[error("WL-3014 the attempt took longer than its timeout of {timeout_ms} ms")]
    TimedOut {
        /// What it was given.
        timeout_ms: u64,
    },
    /// No more of it may wait.
    #[error("WL-3015 {scope} has {limit} jobs waiting, as many as it may")]
    Full {
        /// What is full: the queue, if both are, or the tenant, also by a limit of each tenant.
        scope: Scope,
        /// Its limit.
        limit: u32,
    },
    /// A part of the write does not fit the rest, or a bound was passed.
    #[error("WL-3013 {0}")]
    Invalid(String),
}

fn owner_text(owner: Option<&InstanceId>, until: Ms) -> String {
    match owner {
        Some(owner) => format!("{owner} until {until}"),
        None => "nobody".to_owned(),
    }
}

impl From<NotGranted> for Refusal {
    fn from(why: NotGranted) -> Self {
        match why {
            NotGranted::Held(holder) => Refusal::Held(holder),
            NotGranted::Frozen(freeze) => Refusal::Frozen(freeze),
        }
    }
}

/// Why a whole call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// The store does not answer. If the call was a write, whether it took effect is unknown;
    /// repeat it with the same operation id.
    #[error("WL-3020 the store is unavailable: {0}")]
    Unavailable(String),
    /// What is stored cannot be understood.
    #[error("WL-3021 stored data is damaged: {0}")]
    Corrupt(String),
    /// The call itself is wrong: a bad cursor, a batch or page beyond its bound.
    #[error("WL-3022 {0}")]
    Invalid(String),
}
