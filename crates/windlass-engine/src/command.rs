//! What people do: load, decide (the core's rules), commit, wake whom it concerns, answer. One way for
//! every operation, with who, why, an idempotency key and a dry run.

pub mod create;
pub(crate) mod once;
pub mod plan;
pub mod task;
pub mod tenant;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use windlass_core::by::{By, Reason};
use windlass_core::checkpoint::Checkpoint;
use windlass_core::id::{OpId, PlanId, StageName, TaskId};
use windlass_core::json::Json;
use windlass_core::lock::Holder;
use windlass_core::port::state::{Key, Op, Row, Step, Stepped};
use windlass_core::port::{PortError, Refusal};
use windlass_core::task::range::Range;

use crate::error::Error;
use crate::shared::{Counts, Shared};

/// Who asks, why, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Who.
    pub by: By,
    /// Why.
    pub reason: Option<Reason>,
    /// The same again gets the same answer, for 24 hours; another request under it is a conflict.
    pub key: Option<IdempotencyKey>,
    /// Only say what would happen.
    pub dry_run: bool,
}

impl Caller {
    /// Somebody, without more.
    #[must_use]
    pub fn new(by: By) -> Caller {
        Caller { by, reason: None, key: None, dry_run: false }
    }

    /// For this reason.
    #[must_use]
    pub fn because(self, reason: Reason) -> Caller {
        Caller { reason: Some(reason), ..self }
    }
}

/// A key, and whose it is: two credentials never share one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The credential's name.
    pub credential: String,
    /// The key as it was given.
    pub key: String,
}

/// What a command came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    /// The plan.
    pub plan: PlanId,
    /// The task, if it was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// Where it stands with it.
    pub state: String,
    /// It takes effect at the next boundary, or when an instance has room.
    pub asked: bool,
    /// The stages that will run, by index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
    /// An invalid checkpoint was discarded, for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discarded: Option<String>,
    /// Only what would happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<Box<Preview>>,
}

/// What a dry run shows beside the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// What would run, in order.
    pub stages: Vec<StageName>,
    /// From which checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Who holds the tenant now.
    pub lock: Option<Holder>,
}

impl Done {
    pub(crate) fn about_plan(plan: &PlanId, state: String) -> Done {
        Done { plan: plan.clone(), task: None, state, asked: false, range: None, discarded: None, preview: None }
    }
}

/// How often a command is decided again because somebody else wrote in between.
pub(crate) const ROUNDS_MAX: u32 = 32;

impl Shared {
    /// The identity of a person's operation: their key's, or a new one.
    pub(crate) fn op_for(&self, caller: &Caller, request: &str) -> Op {
        let digest = hash(&["request", request]).0;
        match &caller.key {
            Some(IdempotencyKey { credential, key }) => {
                let (high, low) = hash(&["key", credential, key]);
                Op { id: OpId::of_key(high, low), digest }
            }
            None => Op { digest, ..self.op() },
        }
    }

    /// The identity of what is written beside a person's operation: two that come with one key at once write it once.
    pub(crate) fn op_beside(&self, caller: &Caller) -> Op {
        match &caller.key {
            Some(IdempotencyKey { credential, key }) => {
                let (high, low) = hash(&["beside", credential, key]);
                Op { id: OpId::of_key(high, low), digest: 0 }
            }
            None => self.op(),
        }
    }

    /// The answer to an operation that was done before.
    pub(crate) async fn answered<T: for<'de> Deserialize<'de>>(
        &self,
        caller: &Caller,
        op: &Op,
    ) -> Result<Option<T>, Error> {
        if caller.key.is_none() {
            return Ok(None);
        }
        Counts::add(&self.counts.calls);
        match self.state.load(&[Key::Op(op.id.clone())]).await?.pop().flatten() {
            Some(Row::Op(row)) if row.digest != op.digest => Err(Refusal::OpReused.into()),
            Some(Row::Op(row)) => Ok(row.answer.and_then(|answer| answer.to().ok())),
            _ => Ok(None),
        }
    }

    /// Commits one step. A write without an answer is repeated as it was: the store knows it again.
    pub(crate) async fn commit_one(&self, step: &Step) -> Result<Result<Stepped, Refusal>, Error> {
        let mut tries = 0;
        loop {
            Counts::add(&self.counts.calls);
            match self.state.commit(std::slice::from_ref(step)).await {
                Ok(mut answers) => {
                    let nothing = || PortError::Corrupt("the store answered nothing".to_owned());
                    return Ok(answers.pop().ok_or_else(nothing)?);
                }
                Err(PortError::Unavailable(_)) if tries < 2 => tries += 1,
                Err(error) => {
                    self.store_is_down(&error);
                    return Err(error.into());
                }
            }
        }
    }
}

/// What an operation came to: the same request under the same key may have been faster, on any instance.
pub(crate) fn lasting<T: for<'de> Deserialize<'de>>(stepped: &Stepped, mine: T) -> T {
    stepped.answer.as_ref().and_then(|answer| answer.to().ok()).unwrap_or(mine)
}

/// The answer as it is kept with the operation.
pub(crate) fn kept<T: Serialize>(answer: &T) -> Option<Json> {
    Json::of(answer).ok()
}

/// 128 bits of the parts, each told from the next.
pub(crate) fn hash(parts: &[&str]) -> (u64, u64) {
    let mut sha = Sha256::new();
    for part in parts {
        sha.update((part.len() as u64).to_be_bytes());
        sha.update(part.as_bytes());
    }
    let bytes = sha.finalize();
    let half = |from: usize| bytes[from..from + 8].iter().fold(0, |sum: u64, byte| (sum << 8) | u64::from(*byte));
    (half(0), half(8))
}
