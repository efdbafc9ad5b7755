//! What people do to something whose store keeps no operations (jobs, limits, triggers), once under their key. It is done
//! first and its answer kept then, with the state: a crash between the two leaves something that was done and is not known
//! to have been, and the same again does it again.

use std::future::Future;

use windlass_core::json::Json;
use windlass_core::port::state::{CheckpointPut, Step, Writer};

use super::{Caller, lasting};
use crate::Engine;
use crate::error::Error;

/// Two that come at once with one key follow each other; so do, rarely, two with different keys.
pub(crate) const TURNS: usize = 64;

impl Engine {
    /// Does `what` unless the same request was answered before under the caller's key; answers what was answered then.
    /// Without a key, and in a dry run, it is simply done. `request` is all that tells this request from another.
    pub async fn once<E: From<Error>>(
        &self,
        caller: &Caller,
        request: &str,
        what: impl Future<Output = Result<Json, E>>,
    ) -> Result<Json, E> {
        if caller.key.is_none() || caller.dry_run {
            return what.await;
        }
        let shared = &self.0;
        let op = shared.op_for(caller, request);
        let turn = super::hash(&[op.id.as_str()]).0 % TURNS as u64;
        let _turn = shared.keyed[turn as usize].lock().await;
        if let Some(before) = shared.answered(caller, &op).await? {
            return Ok(before);
        }
        let done = match what.await {
            Ok(done) => done,
            // Another instance may have been faster with the same, and this one refused for that.
            Err(refused) => return shared.answered(caller, &op).await?.ok_or(refused),
        };
        let step = Step {
            op,
            by: Writer::Person(caller.by.clone()),
            plan: None,
            tasks: Vec::new(),
            checkpoint: CheckpointPut::Keep,
            ask: None,
            events: Vec::new(),
            answer: Some(done.clone()),
        };
        let stepped = shared.commit_one(&step).await?.map_err(Error::from)?;
        Ok(lasting(&stepped, done))
    }
}
